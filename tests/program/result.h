// What a command that is given --json says.
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

}  // namespace batchless::test
