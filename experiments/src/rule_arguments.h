// The options that every command of the analyzer shares: which rule, with which coefficients.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argument.h"
#include "batchless/analysis/characteristic.h"
#include "batchless/analysis/limit.h"
#include "batchless/analysis/random_delay.h"
#include "batchless/analysis/rule.h"
#include "delays_argument.h"

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

// The values of --delay, or one that stands for what --delays says.
struct RowDelays {
  std::vector<analysis::Delay> each = {0};
  std::shared_ptr<const VaryingDelays> varying{};
};
// `delays`: of commands that have --delays.
RowDelays ReadDelays(const Argument& delay, const DelaysArguments* delays);

// A rule at a delay and a momentum, which is NaN for the rule `linear`.
struct RulePoint {
  analysis::RuleSpec rule;
  analysis::Delay delay = 0;
  double momentum = 0;
  std::shared_ptr<const VaryingDelays> varying{};  // in place of `delay`, under --delays

  analysis::VaryingDelay AtVaryingDelays() const {
    return {rule, momentum, varying->model, varying->compensation};
  }
};

// --rule, --delay and --momentum.
class RulePointArguments {
 public:
  RulePointArguments(CLI::App& command, RuleArguments::Form form);

  RulePoint Single(const IntegerRange& range = kDelayRange,
                   const DelaysArguments* delays = nullptr) const;
  // Every combination, rules first and momenta last, each `times` times in a table. Throws UsageError
  // where that is too large; `names` are the options whose lists multiply to it.
  std::vector<RulePoint> All(std::size_t times, const char* names,
                             const DelaysArguments* delays = nullptr) const;

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
// Whether every rule is `linear`, so that no momentum is needed; refuses one then.
bool HaveNoMomentum(const std::vector<analysis::RuleSpec>& specs, const Argument& momentum);

// `rule`, `delay` and what the rule's options come to at that delay: the start of every result.
Json DescribeRule(const analysis::RuleSpec& spec, analysis::Delay delay);
// `rule` and its options as they were given, for rows that are of no single delay.
Json DescribeGivenRule(const analysis::RuleSpec& spec);
// The start of a point's result, with its momentum; under --delays, these and what the options come to at
// their mean.
Json Describe(const RulePoint& point);
inline constexpr std::string_view kVaryingColumns =
    "rule,delays,compensate,mean_delay,largest_delay,horizon,sc_delay,momentum";
// "sgdm, delay 4".
std::string RuleText(const RulePoint& point);
// "sgdm, delay 4, momentum 0.9"; without a momentum for the rule that has none.
std::string PointText(const RulePoint& point);

}  // namespace batchless
