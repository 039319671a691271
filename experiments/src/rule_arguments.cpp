#include "rule_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "batchless/analysis/argument.h"
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

// d that the rule has at a delay: 0 where it has no compensation, none where both coefficients are given in d's
// place. With one of them d makes the other.
std::optional<double> ScDelayOf(const RuleSpec& spec, analysis::Delay delay) {
  const RuleOptions& options = spec.options;
  if (options.sc_a && options.sc_b) return std::nullopt;
  switch (spec.rule.compensation) {
    case Compensation::kNone:
      return 0;
    case Compensation::kNesterov:
      return 1;
    case Compensation::kSpike:
      return options.sc_delay.value_or(options.sc_delay_scale * static_cast<double>(delay));
    case Compensation::kFree:
    case Compensation::kLinear:
      break;
  }
  return std::nullopt;
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
            "Rule, required: " + analysis::ListOf(NamesOf(rules))),
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
  RuleSpec spec{Find(rule_.Text(analysis::ListOf(NamesOf(rules_)))), {}};
  ForEachGiven([&](const RuleNumber& number) {
    number.set(spec.options, number.argument.Number(number.range));
  });
  ReadCoefficients(spec.options);
  analysis::Validate(spec);
  return spec;
}

std::vector<RuleSpec> RuleArguments::All() const {
  std::vector<RuleSpec> specs;
  for (const std::string_view name : SplitList(rule_.Text(analysis::ListOf(NamesOf(rules_))))) {
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

RowDelays ReadDelays(const Argument& delay, const DelaysArguments* delays) {
  if (delays != nullptr && delays->given()) return {.varying = delays->Read(delay)};
  return {.each = delay.IntegerList(kDelayRange)};
}

RulePoint RulePointArguments::Single(const IntegerRange& range,
                                     const DelaysArguments* delays) const {
  RulePoint point{rule_.Single()};
  if (delays != nullptr && delays->given()) {
    point.varying = delays->Read(delay_);
  } else {
    point.delay = delay_.Integer(range);
  }
  point.momentum = MomentumOf(point.rule, momentum_);
  if (point.varying) analysis::Validate(point.AtVaryingDelays());
  return point;
}

std::vector<RulePoint> RulePointArguments::All(std::size_t times, const char* names,
                                               const DelaysArguments* delays) const {
  const std::vector<RuleSpec> rules = rule_.All();
  const RowDelays taken = ReadDelays(delay_, delays);
  const std::vector<double> none = {std::numeric_limits<double>::quiet_NaN()};
  const std::vector<double> momenta =
      HaveNoMomentum(rules, momentum_) ? none : momentum_.NumberList(kMomentumRange);
  CheckRows({rules.size(), taken.each.size(), momenta.size(), times}, names);
  std::vector<RulePoint> points;
  for (const auto& [rule, delay] : Combinations(names, rules, taken.each)) {
    for (const double momentum : rule.is_linear() ? none : momenta) {
      points.push_back({rule, delay, momentum, taken.varying});
      if (taken.varying) analysis::Validate(points.back().AtVaryingDelays());
    }
  }
  return points;
}

bool IsConvex(const Argument& over) {
  constexpr std::array<std::string_view, 2> kFunctions = {"quadratic", "convex"};
  return over.given() && over.Choice(kFunctions) == 1;
}

double MomentumOf(const RuleSpec& spec, const Argument& momentum) {
  return HaveNoMomentum({spec}, momentum) ? std::numeric_limits<double>::quiet_NaN()
                                          : momentum.Number(kMomentumRange);
}

bool HaveNoMomentum(const std::vector<RuleSpec>& specs, const Argument& momentum) {
  const bool none =
      std::all_of(specs.begin(), specs.end(), [](const RuleSpec& s) { return s.is_linear(); });
  if (none) momentum.Refuse("nothing with rule linear, which has no momentum");
  return none;
}

Json DescribeRule(const analysis::RuleSpec& spec, analysis::Delay delay) {
  // As --horizon takes it, which does not depend on m.
  RuleSpec given = spec;
  given.rule.predicts_geometrically = false;
  Json object;
  object["rule"] = spec.rule.name;
  object["delay"] = delay;
  object["horizon"] = analysis::ComputeCoefficients<double>(given, 0.0, delay).horizon;
  object["sc_delay"] = OrNull(ScDelayOf(spec, delay));
  if (spec.options.sc_a) object["sc_a"] = *spec.options.sc_a;
  if (spec.options.sc_b) object["sc_b"] = *spec.options.sc_b;
  if (spec.is_linear()) {
    object["numerator"] = spec.options.numerator;
    object["denominator"] = spec.options.denominator;
  }
  return object;
}

Json DescribeGivenRule(const analysis::RuleSpec& spec) {
  const analysis::RuleOptions& options = spec.options;
  Json object;
  object["rule"] = spec.rule.name;
  object["horizon"] = OrNull(options.horizon);
  object["horizon_scale"] = options.horizon_scale;
  object["sc_delay"] = OrNull(options.sc_delay);
  object["sc_delay_scale"] = options.sc_delay_scale;
  object["sc_a"] = OrNull(options.sc_a);
  object["sc_b"] = OrNull(options.sc_b);
  if (spec.is_linear()) {
    object["numerator"] = options.numerator;
    object["denominator"] = options.denominator;
  }
  return object;
}

Json Describe(const RulePoint& point) {
  Json object;
  if (point.varying) {
    const bool own = point.varying->compensation == analysis::DelayCompensation::kOwn;
    const analysis::DelayModel& model = point.varying->model;
    const Json at_mean = DescribeRule(analysis::AtMeanDelay(point.rule, model.mean()), 0);
    object["rule"] = point.rule.rule.name;
    object["delays"] = point.varying->text;
    object["compensate"] = kCompensateChoices[own ? 1 : 0];
    object["mean_delay"] = model.mean();
    object["largest_delay"] = model.largest();
    object["horizon"] = own ? Json() : at_mean["horizon"];
    object["sc_delay"] = own ? Json() : at_mean["sc_delay"];
  } else {
    object = DescribeRule(point.rule, point.delay);
  }
  object["momentum"] = point.momentum;
  return object;
}

std::string RuleText(const RulePoint& point) {
  const std::string_view rule = point.rule.rule.name;
  if (!point.varying) return fmt::format("{}, delay {}", rule, point.delay);
  const bool own = point.varying->compensation == analysis::DelayCompensation::kOwn;
  return fmt::format("{}, delays {}, mean {:.6g}{}", rule, point.varying->text,
                     point.varying->model.mean(), own ? ", each by its own" : "");
}

std::string PointText(const RulePoint& point) {
  const std::string text = RuleText(point);
  return point.rule.is_linear() ? text : fmt::format("{}, momentum {}", text, point.momentum);
}

}  // namespace batchless
