#pragma once

// What several tests of the analyzer need.

#include <string>
#include <string_view>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/rule.h"

namespace batchless::analysis {

inline RuleSpec Spec(std::string_view name, const RuleOptions& options = {}) {
  return RuleSpec{FindRule(name), options};
}

/// The rule `free` with all its coefficients.
inline RuleSpec FreeSpec(double a, double b, double horizon) {
  RuleOptions options;
  options.sc_a = a;
  options.sc_b = b;
  options.horizon = horizon;
  return Spec("free", options);
}

/// What Validate says of the options; empty where it takes them.
template <class Options>
std::string WhyInvalid(const Options& options) {
  try {
    Validate(options);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

}  // namespace batchless::analysis
