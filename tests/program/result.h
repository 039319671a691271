// What a command that is given --json says, and what one says that is refused.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.h"
#include "run_program.h"

namespace batchless::test {

inline nlohmann::json Result(const std::string& line, const std::filesystem::path& folder = ".") {
  const Outcome outcome = Run(Words(line + " --json"), folder);
  INFO(line << ": " << outcome.error);
  REQUIRE(outcome.exit_code == 0);
  return nlohmann::json::parse(outcome.out);
}

// Standard error, which is one line: exit code 2, and nothing on standard output.
inline std::string RefusalOf(const std::string& line,
                             const std::filesystem::path& folder = TemporaryFolder().path()) {
  const Outcome outcome = Run(Words(line), folder);
  INFO(line << ": " << outcome.error);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(Lines(outcome.error).size() == 1);
  return outcome.error;
}

inline void CheckRefusal(const std::string& line, const std::string& part,
                         const std::filesystem::path& folder = TemporaryFolder().path()) {
  const std::string error = RefusalOf(line, folder);
  INFO(line << ": " << error);
  CHECK(Contains(error, part));
}

}  // namespace batchless::test
