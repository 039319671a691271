#include "batchless/analysis/rule.h"

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"

namespace batchless::analysis {
namespace {

constexpr std::string_view kKosson = "Kosson et al., arXiv 2003.11666 (recalled)";

constexpr std::array<Rule, 12> kRules = {{
    {
        .name = "sgdm",
        .title = "SGDM",
        .equation = "v' = m v + g; w' = w - eta v'; w_hat = w",
        .source = "SGD with momentum in PyTorch's convention",
        .reduces_to = "SGD at m = 0",
    },
    {
        .name = "nesterov",
        .title = "Nesterov",
        .equation = "v' = m v + g; w' = w - eta (m v' + g); w_hat = w",
        .source = "Nesterov momentum in PyTorch's convention",
        .reduces_to =
            "sc with d = 1 at every delay; SGD at m = 0; on a quadratic the roots of lwp-v "
            "and lwp-w with T = m",
        .compensation = Compensation::kNesterov,
    },
    {
        .name = "sc",
        .title = "SC",
        .equation = "v' = m v + g; w' = w - eta (a v' + b g), a = m^d, b = (1 - m^d)/(1 - m), "
                    "d = D; w_hat = w",
        .source = kKosson,
        .reduces_to = "sgdm at d = 0; nesterov at d = 1; SGD at m = 0",
        .compensation = Compensation::kSpike,
    },
    {
        .name = "lwp-v",
        .title = "LWPv",
        .equation = "v' = m v + g; w' = w - eta v'; w_hat = w - eta T v, T = D",
        .source = kKosson,
        .reduces_to = "sgdm at T = 0; on a quadratic the roots of lwp-w with the same T",
        .prediction = Prediction::kVelocity,
    },
    {
        .name = "lwp-w",
        .title = "LWPw",
        .equation = "v' = m v + g; w' = w - eta v'; w_hat = w + T (w - w_previous), T = D",
        .source = kKosson,
        .extra_memory = "1: the previous weight",
        .reduces_to = "sgdm at T = 0; on a quadratic the roots of lwp-v with the same T",
        .also =
            "asynchronous Nesterov (Ajanthan et al., arXiv 2505.01099; secondary reading): T = m = "
            "gamma at the rate eta (1 - gamma)",
        .prediction = Prediction::kWeight,
    },
    {
        .name = "lwp-v+sc",
        .title = "LWPv+SC",
        .equation = "v' = m v + g; w' = w - eta (a v' + b g), a = m^d, b = (1 - m^d)/(1 - m), "
                    "d = D; w_hat = w - eta T v, T = D",
        .source = kKosson,
        .reduces_to = "sc at T = 0; lwp-v at d = 0; sgdm at both",
        .compensation = Compensation::kSpike,
        .prediction = Prediction::kVelocity,
    },
    {
        .name = "lwp-w+sc",
        .title = "LWPw+SC",
        .equation = "v' = m v + g; w' = w - eta (a v' + b g), a = m^d, b = (1 - m^d)/(1 - m), "
                    "d = D; w_hat = w + T (w - w_previous), T = D",
        .source = kKosson,
        .extra_memory = "1: the previous weight",
        .reduces_to = "sc at T = 0; lwp-w at d = 0; sgdm at both",
        .compensation = Compensation::kSpike,
        .prediction = Prediction::kWeight,
    },
    {
        .name = "msnag",
        .title = "geometric prediction",
        .equation =
            "v' = m v + g; w' = w - eta v'; w_hat = w - eta T v, T = (m - m^{n+1})/(1 - m), "
            "n = D",
        .source = "FTPipe (Eliad et al., USENIX ATC 2021), from its authors' code (recalled)",
        .reduces_to = "sgdm at n = 0; lwp-v with T = m at n = 1, with T = n at m = 1; SGD at m = 0",
        .prediction = Prediction::kVelocity,
        .predicts_geometrically = true,
    },
    {
        .name = "free",
        .title = "free (a, b, T)",
        .equation = "v' = m v + g; w' = w - eta (a v' + b g); w_hat = w - eta T v, "
                    "a = 1, b = 0, T = 0 unless given",
        .source = "this project: the common form of the rules above",
        .reduces_to =
            "sgdm at a = 1, b = 0, T = 0; every rule without weight-form prediction; lwp-w "
            "at D = 1 with a = 2 - 1/m, b = 1/m",
        .also =
            "error feedback for one step of delay, w' = w - eta (2 v' - v): a = 2 - 1/m, b = 1/m",
        .compensation = Compensation::kFree,
        .prediction = Prediction::kVelocity,
    },
    {
        .name = "spectrain",
        .title = "SpecTrain",
        .equation = "v' = m v + g; w' = w - eta v'; forward and backward at w - eta T v, T the "
                    "updates from each to its micro-batch's last backward; with stashed weights "
                    "(version 2) the forward alone, T = D",
        .source = "Chen et al., arXiv 1809.02839, both versions as in its authors' repository",
        .extra_memory = "1: the backward's prediction",
        .reduces_to =
            "lwp-v where all stages have one delay, or weights are stashed; sgdm without delays",
        .prediction = Prediction::kVelocity,
        .predicts_to_last_backward = true,
    },
    {
        .name = "xpipe",
        .title = "XPipe",
        .equation =
            "v' = m v + g; w' = w - eta v'; forward at w - eta T v, T = round((P + M - "
            "floor(r/2) - 2)/M), backward at T = round((M + floor(r/2) - 1)/M), halves to the "
            "even number, for stage r of P and M micro-batches an update",
        .source =
            "XPipe, arXiv 1911.04610 (recalled), as the authors of AMDP (arXiv 2605.29664) have "
            "coded it: there with adam and without the corrections of its bias",
        .extra_memory = "1: the backward's prediction",
        .reduces_to =
            "spectrain on 1f1b, but for the backwards of odd stages, which look an update "
            "less ahead",
        .prediction = Prediction::kVelocity,
        .predicts_by_place = true,
    },
    {
        .name = "linear",
        .title = "linear (N/D)",
        .equation =
            "w(z) = -eta N(z)/D(z) g(z), D monic with a root at 1, deg N < deg D; w_hat = w",
        .source = "this project: every causal linear rule",
        .extra_memory = "2 deg D - 2: earlier weights and gradients",
        .reduces_to = "sgdm at N = z, D = (z - 1)(z - m); at a delay every rule of this list",
        .also = "shifted momentum, v_i = m v_{i-D-1} + g_i (Giladi et al., arXiv 1909.12340; "
                "secondary reading): N = z^{D+1}, D = (z - 1)(z^{D+1} - m). EMA-Nesterov, which "
                "looks T "
                "updates ahead along an exponential mean of the steps, gamma its decay (arXiv "
                "2605.25395, abstract): N = z ((1 + T (1 - gamma)) z - gamma - T (1 - gamma)), "
                "D = (z - 1)(z - m)(z - gamma)",
        .compensation = Compensation::kLinear,
    },
}};
constexpr std::size_t kOfOneDelay = 9;

bool TakesCoefficients(const Rule& rule) {
  return rule.compensation != Compensation::kNone && rule.compensation != Compensation::kLinear;
}
bool TakesCompensationDelay(const Rule& rule) { return rule.compensation == Compensation::kSpike; }
bool TakesHorizon(const Rule& rule) {
  return rule.prediction != Prediction::kNone && !rule.predicts_by_schedule();
}
bool TakesHorizonScale(const Rule& rule) {
  return TakesHorizon(rule) && rule.compensation != Compensation::kFree;
}

// An option that the rule has no use for is refused: silently ignored it would look as if it had
// made no difference.
template <class Takes>
void CheckOption(const Rule& rule, std::string_view option, const std::optional<double>& value,
                 double low, double high, Takes takes) {
  if (!value) return;
  CheckNumber(option, *value, low, high);
  if (takes(rule)) return;
  std::vector<std::string_view> names;
  for (const Rule& candidate : kRules) {
    if (takes(candidate)) names.push_back(candidate.name);
  }
  throw InvalidArgument(
      option, *value,
      "nothing with rule " + std::string(rule.name) + "; rules that take it: " + ListOf(names));
}

// Every rule takes a scale of 1.
template <class Takes>
void CheckScale(const Rule& rule, std::string_view option, double scale, Takes takes) {
  if (scale != 1) CheckOption(rule, option, scale, 0, kMaxScale, takes);
}

void CheckPolynomial(std::string_view option, const std::vector<double>& coefficients) {
  RefuseIf(coefficients.empty(), option, "nothing",
           "the coefficients of rule linear, highest power first");
  for (const double c : coefficients) CheckNumber(option, c, -kMaxCoefficient, kMaxCoefficient);
}

// A list as it is written on the command line.
std::string ListText(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ",") + ToText(value);
  return text;
}

void ValidateLinear(const RuleOptions& options) {
  constexpr std::string_view kNumerator = "numerator", kDenominator = "denominator";
  const std::vector<double>& n = options.numerator;
  const std::vector<double>& d = options.denominator;
  CheckPolynomial(kNumerator, n);
  CheckPolynomial(kDenominator, d);
  if (d.size() < 2 || d.size() > kMaxOrder + 1) {
    throw InvalidArgument(kDenominator, std::to_string(d.size()) + " coefficients",
                          "2 to " + std::to_string(kMaxOrder + 1));
  }
  RefuseIf(d.front() != 1, kDenominator, d.front(), "1 as the first coefficient");
  double sum = 0, size = 0;
  for (const double c : d) {
    sum += c;
    size += std::abs(c);
  }
  if (!(std::abs(sum) <= kRootAtOneTolerance * size)) {
    throw InvalidArgument(kDenominator, ListText(d),
                          "coefficients that sum to 0 (here " + ToText(sum) +
                              "): without a root at 1 weights do not rest where gradients are 0");
  }
  std::size_t leading = 0;
  while (leading < n.size() && n[leading] == 0) ++leading;
  if (leading == n.size()) {
    throw InvalidArgument(kNumerator, ListText(n), "at least one coefficient that is not 0");
  }
  if (n.size() - leading >= d.size()) {
    throw InvalidArgument(kNumerator, ListText(n),
                          "at most " + std::to_string(d.size() - 1) +
                              " coefficients, fewer than the denominator's: an improper rule would "
                              "need a gradient before it is there");
  }
}

}  // namespace

std::span<const Rule> AllRules() { return kRules; }

std::span<const Rule> Rules() { return AllRules().first(kOfOneDelay); }

const Rule& LinearRule() { return kRules.back(); }

RuleSpec LinearSpec(std::vector<double> numerator, std::vector<double> denominator) {
  RuleSpec spec{LinearRule(), {}};
  spec.options.numerator = std::move(numerator);
  spec.options.denominator = std::move(denominator);
  return spec;
}

const Rule& FindRule(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Rule& rule : kRules) {
    if (rule.name == name) return rule;
    // Only a pipeline has what it takes.
    if (!rule.predicts_by_schedule()) names.push_back(rule.name);
  }
  throw InvalidArgument("rule", name, OneOf(name, names));
}

void RefuseLinear(const RuleSpec& spec) {
  if (spec.is_linear()) throw InvalidArgument("rule", spec.rule.name, "a rule of a momentum");
}

void Validate(const RuleSpec& spec) {
  const Rule& rule = spec.rule;
  const RuleOptions& options = spec.options;
  constexpr double kMost = kMaxCoefficient;
  CheckOption(rule, "sc_delay", options.sc_delay, 0, kMost, TakesCompensationDelay);
  CheckOption(rule, "horizon", options.horizon, 0, kMost, TakesHorizon);
  CheckOption(rule, "sc_a", options.sc_a, -kMost, kMost, TakesCoefficients);
  CheckOption(rule, "sc_b", options.sc_b, -kMost, kMost, TakesCoefficients);
  CheckScale(rule, "sc_delay_scale", options.sc_delay_scale, TakesCompensationDelay);
  CheckScale(rule, "horizon_scale", options.horizon_scale, TakesHorizonScale);
  if (spec.is_linear()) {
    ValidateLinear(options);
    return;
  }
  for (const auto& [option, given] : {std::pair("numerator", &options.numerator),
                                      std::pair("denominator", &options.denominator)}) {
    if (given->empty()) continue;
    throw InvalidArgument(
        option, ListText(*given),
        "nothing with rule " + std::string(rule.name) + "; rules that take it: linear");
  }
  if (!options.sc_a || !options.sc_b) return;
  constexpr std::string_view kAccepted = "nothing together with both coefficients, a and b";
  if (options.sc_delay) throw InvalidArgument("sc_delay", *options.sc_delay, kAccepted);
  RefuseIf(options.sc_delay_scale != 1, "sc_delay_scale", options.sc_delay_scale, kAccepted);
}

}  // namespace batchless::analysis
