#pragma once

// What several tests of the analyzer need.

#include <string>
#include <string_view>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/rule.h"
#include "refusal.h"

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
  return test::MessageOf([&] { Validate(options); });
}

/// The same rule by its coefficients: z^delay D + x N of characteristic.h, exact but for roundings.
inline RuleSpec AsLinear(std::string_view name, double momentum, Delay delay) {
  RuleSpec spec = Spec(name);
  const auto k = ComputeCoefficients<double>(spec, momentum, delay);
  const double lead = k.a + k.b, late = -k.b * momentum, t = k.horizon;
  switch (spec.rule.prediction) {
    case Prediction::kNone:
      return LinearSpec({lead, late}, {1, -(1 + momentum), momentum});
    case Prediction::kVelocity:
      return LinearSpec({lead + t, late - t}, {1, -(1 + momentum), momentum});
    case Prediction::kWeight:
      return LinearSpec({lead * (1 + t), late * (1 + t) - lead * t, -late * t},
                        {1, -(1 + momentum), momentum, 0});
  }
  return spec;
}

}  // namespace batchless::analysis
