// The options that every command of the analyzer shares: which rule, with which coefficients.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "argument.h"
#include "batchless/analysis/characteristic.h"
#include "batchless/analysis/limit.h"
#include "batchless/analysis/random_delay.h"
#include "batchless/analysis/rule.h"

namespace batchless {

inline constexpr IntegerRange kDelayRange{0, analysis::kMaxDelay};
inline constexpr NumberRange kMomentumRange{0, 1};
inline constexpr NumberRange kRateRange{analysis::kMinRate, analysis::kMaxRate};
inline constexpr NumberRange kConditionRange{1, analysis::kMaxCondition};

class RuleArguments {
 public:
  enum class Form { kSingle, kLists };

  // Horizons of spectrain and xpipe follow from a schedule; linear has no momentum.
  enum class Rules { kOfOneDelay, kOfSchedules, kOfMomentum };

  // With lists, every option but --sc-a, --sc-b and the coefficients of `linear` takes several values.
  RuleArguments(CLI::App& command, Form form, Rules rules = Rules::kOfOneDelay);

  // The one rule. Throws UsageError or analysis::InvalidArgument.
  analysis::RuleSpec Single() const;
  // Every rule with every combination of its options, rules first. An option is left out for those
  // of the rules that have no use for it, and refused where that is all of them.
  std::vector<analysis::RuleSpec> All() const;

 private:
  template <class Take>
  void ForEachGiven(Take take) const;
  void ReadCoefficients(analysis::RuleOptions& options) const;
  std::string Names() const;
  const analysis::Rule& Find(std::string_view name) const;

  Rules rules_;
  Argument rule_;
  Argument horizon_;
  Argument horizon_scale_;
  Argument sc_delay_;
  Argument sc_delay_scale_;
  Argument sc_a_;
  Argument sc_b_;
  std::optional<Argument> numerator_;  // none of rules of a momentum
  std::optional<Argument> denominator_;
};

// A rule at a delay and a momentum, which is NaN for the rule `linear`.
struct RulePoint {
  analysis::RuleSpec rule;
  analysis::Delay delay = 0;
  double momentum = 0;
};

class DelaysArguments;

// --rule, --delay and --momentum.
class RulePointArguments {
 public:
  RulePointArguments(CLI::App& command, RuleArguments::Form form);

  RulePoint Single(const IntegerRange& delays = kDelayRange) const;
  // Every combination, rules first and momenta last, each `times` times in a table. Throws UsageError
  // where that is too large; `names` are the options whose lists multiply to it.
  std::vector<RulePoint> All(std::size_t times, const char* names) const;
  // The same under --delays, with which --delay is refused; of kSingle one.
  std::vector<analysis::VaryingDelay> Varying(RuleArguments::Form form,
                                              const DelaysArguments& delays) const;

 private:
  RuleArguments rule_;
  Argument delay_;
  Argument momentum_;
};

// --over: for which functions a rule is tuned, all smooth strongly convex ones or, without it, quadratics.
inline constexpr const char* kOverHelp =
    "Tuned for quadratic functions (default) or convex, every smooth strongly convex one";
bool IsConvex(const Argument& over);

// The momentum of a rule: NaN for the rule `linear`, which is refused one.
double MomentumOf(const analysis::RuleSpec& spec, const Argument& momentum);
// One point for each rule under --delays; the caller sets the momentum.
std::vector<analysis::VaryingDelay> VaryingPoints(const std::vector<analysis::RuleSpec>& rules,
                                                  const Argument& delay,
                                                  const DelaysArguments& delays);
// Whether every rule is `linear`, so that no momentum is needed; refuses one then.
bool HaveNoMomentum(const std::vector<analysis::RuleSpec>& specs, const Argument& momentum);

// T and d that `spec` has at a delay: 0 where the rule has no prediction or no compensation, none
// where both coefficients are given in d's place. With one of them d makes the other.
struct EffectiveOptions {
  double horizon = 0;
  std::optional<double> sc_delay = 0;
};
EffectiveOptions Effective(const analysis::RuleSpec& spec, analysis::Delay delay);

}  // namespace batchless
