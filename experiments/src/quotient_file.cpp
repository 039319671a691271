#include "quotient_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "batchless/analysis/argument.h"
#include "text_output.h"
#include "usage_error.h"

namespace batchless {

std::map<analysis::Delay, analysis::RuleSpec> ReadQuotientFile(const std::string& argument,
                                                               const std::string& path) {
  constexpr std::string_view kAccepted =
      "a file of rows with delay, numerator and denominator, as batchless design --json prints "
      "them";
  constexpr std::size_t kMostBytes = 16 << 20;
  const std::string text = ReadInput(argument, path, kAccepted, kMostBytes);
  std::map<analysis::Delay, analysis::RuleSpec> quotients;
  std::size_t number = 0;
  try {
    const Json document = ParseJson(text);
    for (const Json& row : document.at("rows")) {
      ++number;
      // Asked for as an integer, a number like 1e300 would be undefined behaviour.
      analysis::RefuseIf(!row.at("delay").is_number_integer(), "delay", JsonText(row.at("delay")),
                         "an integer");
      const auto delay = row.at("delay").get<analysis::Delay>();
      const analysis::RuleSpec spec =
          analysis::LinearSpec(row.at("numerator"), row.at("denominator"));
      analysis::Validate(spec);
      analysis::RefuseIf(!quotients.emplace(delay, spec).second, "delay",
                         static_cast<double>(delay), "each delay once");
    }
  } catch (const Json::exception&) {
    throw UsageError(argument, number == 0 ? path : fmt::format("{} row {}", path, number),
                     kAccepted);
  } catch (const analysis::InvalidArgument& error) {
    throw UsageError::FromLine(
        fmt::format("{} {} row {} {}", argument, path, number, error.what()));
  }
  return quotients;
}

std::string QuotientText(const std::map<analysis::Delay, analysis::RuleSpec>& quotients) {
  std::string text;
  for (const auto& [delay, rule] : quotients) {
    text += fmt::format("{} {} {}\n", delay, rule.options.numerator, rule.options.denominator);
  }
  return text;
}

}  // namespace batchless
