#include "rule_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "batchless/analysis/argument.h"
#include "delays_argument.h"
#include "parallel_rows.h"
#include "usage_error.h"

namespace batchless {
namespace {

using analysis::Compensation;
using analysis::Rule;
using analysis::RuleOptions;
using analysis::RuleSpec;

constexpr NumberRange kCoefficientRange{0, analysis::kMaxCoefficient};
constexpr NumberRange kSignedRange{-analysis::kMaxCoefficient, analysis::kMaxCoefficient};
constexpr NumberRange kScaleRange{0, analysis::kMaxScale};

bool IsOneOf(const Rule& rule, RuleArguments::Rules rules) {
  if (rule.predicts_by_schedule()) return rules == RuleArguments::Rules::kOfSchedules;
  return rules != RuleArguments::Rules::kOfMomentum || rule.name != analysis::LinearRule().name;
}

std::vector<std::string_view> NamesOf(RuleArguments::Rules rules) {
  std::vector<std::string_view> names;
  for (const Rule& rule : analysis::AllRules()) {
    if (IsOneOf(rule, rules)) names.push_back(rule.name);
  }
  return names;
}

const char* Placeholder(RuleArguments::Form form, const char* single, const char* list) {
  return form == RuleArguments::Form::kSingle ? single : list;
}

bool IsAccepted(const RuleSpec& spec) {
  try {
    analysis::Validate(spec);
    return true;
  } catch (const analysis::InvalidArgument&) {
    return false;
  }
}

// An option that sets one of a rule's numbers.
struct RuleNumber {
  const Argument& argument;
  const NumberRange& range;
  void (*set)(RuleOptions& options, double value);
};

// What the rules become with each of the option's values, or as they are where they have no use for
// it; refused where that is all of them.
std::vector<RuleSpec> Expanded(const std::vector<RuleSpec>& specs, const RuleNumber& number) {
  const std::vector<double> values = number.argument.NumberList(number.range);
  std::vector<RuleSpec> expanded;
  bool used = false;
  const auto with = [&](RuleSpec spec, double value) {
    number.set(spec.options, value);
    return spec;
  };
  for (const RuleSpec& spec : specs) {
    const std::size_t before = expanded.size();
    for (const double value : values) {
      if (IsAccepted(with(spec, value))) expanded.push_back(with(spec, value));
    }
    used = used || expanded.size() > before;
    if (expanded.size() == before) expanded.push_back(spec);
  }
  // The library's own words for an option without use.
  if (!used) analysis::Validate(with(specs.front(), values.front()));
  return expanded;
}

}  // namespace

// In the order in which lists of them multiply.
template <class Take>
void RuleArguments::ForEachGiven(Take take) const {
  for (const RuleNumber& number : std::initializer_list<RuleNumber>{
           {sc_delay_, kCoefficientRange, [](RuleOptions&o, double x) { o.sc_delay = x; }},
           {sc_delay_scale_, kScaleRange, [](RuleOptions&o, double x) { o.sc_delay_scale = x; }},
           {horizon_, kCoefficientRange, [](RuleOptions&o, double x) { o.horizon = x; }},
           {horizon_scale_, kScaleRange, [](RuleOptions&o, double x) { o.horizon_scale = x; }},
           {sc_a_, kSignedRange, [](RuleOptions&o, double x) { o.sc_a = x; }},
           {sc_b_, kSignedRange, [](RuleOptions&o, double x) { o.sc_b = x; }}}) {
    if (number.argument.given()) take(number);
  }
}

void RuleArguments::ReadCoefficients(RuleOptions& options) const {
  if (horizon_.given()) horizon_scale_.Refuse("nothing together with --horizon");
  if (sc_delay_.given()) sc_delay_scale_.Refuse("nothing together with --sc-delay");
  if (!numerator_) return;
  if (numerator_->given()) options.numerator = numerator_->NumberList(kSignedRange);
  if (denominator_->given()) options.denominator = denominator_->NumberList(kSignedRange);
}

std::string RuleArguments::Names() const {
  return fmt::format("{}", fmt::join(NamesOf(rules_), ", "));
}

const Rule& RuleArguments::Find(std::string_view name) const {
  std::string accepted = analysis::OneOf(name, NamesOf(rules_));
  for (const Rule& rule : analysis::AllRules()) {
    if (rule.name != name) continue;
    if (IsOneOf(rule, rules_)) return rule;
    if (!rule.predicts_by_schedule()) continue;
    accepted += "; with one delay spectrain is lwp-v, and xpipe's horizons follow from a schedule";
  }
  throw UsageError("--rule", name, accepted);
}

RuleArguments::RuleArguments(CLI::App& command, Form form, Rules rules)
    : rules_(rules),
      rule_(command, "--rule", Placeholder(form, "R", "R[,R...]"),
            fmt::format("Rule, required: {}", Names())),
      horizon_(command, "--horizon", Placeholder(form, "T", "LIST"),
               "Prediction horizon in updates (default: the delay)"),
      horizon_scale_(command, "--horizon-scale", Placeholder(form, "F", "LIST"),
                     "Prediction horizon in delays (default: 1; 2 overcompensates)"),
      sc_delay_(command, "--sc-delay", Placeholder(form, "D2", "LIST"),
                "Delay that spike compensation is made for, in updates (default: the delay)"),
      sc_delay_scale_(command, "--sc-delay-scale", Placeholder(form, "F", "LIST"),
                      "The same in delays (default: 1; 2 overcompensates)"),
      sc_a_(command, "--sc-a", Placeholder(form, "A", "LIST"),
            "Coefficient a itself, in place of m^d"),
      sc_b_(command, "--sc-b", Placeholder(form, "B", "LIST"),
            "Coefficient b itself, in place of (1 - m^d)/(1 - m)") {
  if (rules == Rules::kOfMomentum) return;
  numerator_.emplace(command, "--numerator", "LIST",
                     "Rule linear: N of w(z) = -eta N(z)/D(z) g(z), highest power first");
  denominator_.emplace(command, "--denominator", "LIST",
                       "Rule linear: D, monic with a root at 1, of a higher degree than N");
}

RuleSpec RuleArguments::Single() const {
  RuleSpec spec{Find(rule_.Text(Names())), {}};
  ForEachGiven([&](const RuleNumber& number) {
    number.set(spec.options, number.argument.Number(number.range));
  });
  ReadCoefficients(spec.options);
  analysis::Validate(spec);
  return spec;
}

std::vector<RuleSpec> RuleArguments::All() const {
  std::vector<RuleSpec> specs;
  for (const std::string_view name : SplitList(rule_.Text(Names()))) {
    const Rule& rule = Find(name);
    const auto same = [&](const RuleSpec& spec) { return spec.rule.name == rule.name; };
    if (std::none_of(specs.begin(), specs.end(), same)) specs.push_back({rule, {}});
  }
  const auto linear =
      std::find_if(specs.begin(), specs.end(), [](const RuleSpec& s) { return s.is_linear(); });
  // Without the rule the library refuses its coefficients.
  RuleSpec& taking = linear == specs.end() ? specs.front() : *linear;
  ReadCoefficients(taking.options);
  analysis::Validate(taking);
  ForEachGiven([&](const RuleNumber& number) { specs = Expanded(specs, number); });
  return specs;
}

RulePointArguments::RulePointArguments(CLI::App& command, RuleArguments::Form form)
    : rule_(command, form),
      delay_(command, "--delay", Placeholder(form, "D", "LIST"),
             Placeholder(form, "Delay of the gradient in updates, required",
                         "Delays of the gradient in updates, required")),
      momentum_(command, "--momentum", Placeholder(form, "M", "LIST"),
                Placeholder(form, "Momentum from 0 to 1, required; none with linear",
                            "Momenta from 0 to 1, required; none with linear")) {}

RulePoint RulePointArguments::Single(const IntegerRange& delays) const {
  RulePoint point{rule_.Single(), delay_.Integer(delays)};
  point.momentum = MomentumOf(point.rule, momentum_);
  return point;
}

std::vector<RulePoint> RulePointArguments::All(std::size_t times, const char* names) const {
  const std::vector<RuleSpec> rules = rule_.All();
  const std::vector<std::int64_t> delays = delay_.IntegerList(kDelayRange);
  const std::vector<double> none = {std::numeric_limits<double>::quiet_NaN()};
  const std::vector<double> momenta =
      HaveNoMomentum(rules, momentum_) ? none : momentum_.NumberList(kMomentumRange);
  CheckRows({rules.size(), delays.size(), momenta.size(), times}, names);
  std::vector<RulePoint> points;
  for (const RuleSpec& rule : rules) {
    for (const std::int64_t delay : delays) {
      for (const double momentum : rule.is_linear() ? none : momenta) {
        points.push_back({rule, delay, momentum});
      }
    }
  }
  return points;
}

std::vector<analysis::VaryingDelay> RulePointArguments::Varying(
    RuleArguments::Form form, const DelaysArguments& delays) const {
  const bool lists = form == RuleArguments::Form::kLists;
  const std::vector<RuleSpec> rules = lists ? rule_.All() : std::vector{rule_.Single()};
  const std::vector<double> none = {std::numeric_limits<double>::quiet_NaN()};
  std::vector<double> momenta = none;
  if (!HaveNoMomentum(rules, momentum_)) {
    momenta = lists ? momentum_.NumberList(kMomentumRange)
                    : std::vector{momentum_.Number(kMomentumRange)};
  }
  CheckRows({rules.size(), momenta.size()}, "--rule, --momentum");
  std::vector<analysis::VaryingDelay> points;
  for (analysis::VaryingDelay& point : VaryingPoints(rules, delay_, delays)) {
    for (const double momentum : point.rule.is_linear() ? none : momenta) {
      point.momentum = momentum;
      analysis::Validate(point);
      points.push_back(point);
    }
  }
  return points;
}

std::vector<analysis::VaryingDelay> VaryingPoints(const std::vector<RuleSpec>& rules,
                                                  const Argument& delay,
                                                  const DelaysArguments& delays) {
  analysis::VaryingDelay point = delays.Read();
  delay.Refuse("nothing together with --delays");
  std::vector<analysis::VaryingDelay> points;
  for (const RuleSpec& rule : rules) {
    point.rule = rule;
    points.push_back(point);
  }
  return points;
}

bool IsConvex(const Argument& over) {
  constexpr std::array<std::string_view, 2> kFunctions = {"quadratic", "convex"};
  return over.given() && over.Choice(kFunctions) == 1;
}

double MomentumOf(const RuleSpec& spec, const Argument& momentum) {
  if (!spec.is_linear()) return momentum.Number(kMomentumRange);
  momentum.Refuse("nothing with rule linear, which has no momentum");
  return std::numeric_limits<double>::quiet_NaN();
}

bool HaveNoMomentum(const std::vector<RuleSpec>& specs, const Argument& momentum) {
  const bool none =
      std::all_of(specs.begin(), specs.end(), [](const RuleSpec& s) { return s.is_linear(); });
  if (none) momentum.Refuse("nothing with rule linear, which has no momentum");
  return none;
}

EffectiveOptions Effective(const RuleSpec& spec, analysis::Delay delay) {
  EffectiveOptions effective;
  const RuleOptions& options = spec.options;
  // As --horizon takes it, which does not depend on m.
  RuleSpec given = spec;
  given.rule.predicts_geometrically = false;
  effective.horizon = analysis::ComputeCoefficients<double>(given, 0.0, delay).horizon;
  switch (spec.rule.compensation) {
    case Compensation::kNone:
      break;
    case Compensation::kNesterov:
      effective.sc_delay = 1;
      break;
    case Compensation::kSpike:
      effective.sc_delay =
          options.sc_delay.value_or(options.sc_delay_scale * static_cast<double>(delay));
      break;
    case Compensation::kFree:
    case Compensation::kLinear:
      effective.sc_delay = std::nullopt;
      break;
  }
  if (options.sc_a && options.sc_b) effective.sc_delay = std::nullopt;
  return effective;
}

}  // namespace batchless
