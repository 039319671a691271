// One short valid call of each command, and what its options take: the tests that go through every
// command and every option start from here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "run_program.h"

namespace batchless::test {

struct OptionCase {
  std::string name;
  std::string good;              // a valid value; empty where the call has no use for the option
  std::vector<std::string> bad;  // values that are refused
  bool required = false;
  bool shortens = false;  // each call: part of it, though not required
};

struct CommandCase {
  std::string name;
  std::vector<OptionCase> options;  // that take a value
  Arguments flags;                  // that do not, --json aside
  Arguments words = {};             // that stand behind the name without an option
  Arguments fixed = {};             // options of every call, which make it short
  // Words of a valid call with exactly the required options and --out where there is one.
  Arguments Call() const;
  // The same with another value for one option, which is added where it is not required.
  Arguments CallWith(const std::string& option, const std::string& value) const;
  Arguments CallWithout(const std::string& option) const;
  bool Writes() const;
};

const std::vector<CommandCase>& CommandCases();

}  // namespace batchless::test
