// Linear mitigation rules of delayed SGD with momentum: one definition for analyzer and trainer.
//
// Update with spike compensation (SC), forward weights with linear weight prediction (LWP):
//
//   v_{i+1} = m v_i + g_i
//   w_{i+1} = w_i - eta (a v_{i+1} + b g_i)
//   velocity form (LWPv):  w_hat = w_k - eta T v_k             k = max(0, i - D)
//   weight form   (LWPw):  w_hat = w_k + T (w_k - w_{k-1})     w_{-1} = w_0
//
//   m    momentum in [0, 1]               D    delay in updates, an integer >= 0
//   a,b  compensation coefficients        T    prediction horizon in updates, real >= 0
//   eta  learning rate                    g_i  gradient at w_hat
//
// Every named rule is a pair (compensation, prediction). The compensation has a delay d of its own
// and  a = m^d,  b = (1 - m^d) / (1 - m)  (b = d at m = 1); d = 0 gives a = 1, b = 0, which is
// SGDM, and d = 1 is Nesterov. SC_D takes d = D because that is the choice which restores the
// undelayed impulse response exactly from the moment the late gradient arrives; T = D predicts the
// weights that the gradient will be applied to. A scale of 2 on either is overcompensation.
//
// The rule `msnag` predicts in velocity form the weights after n updates without gradients, by what is
// left of the velocity: T = m + m^2 + ... + m^n = (m - m^{n+1})/(1 - m), n = D. T is n at m = 1.
//
// The rule `free` has no defaults made from the delay: a = 1, b = 0 and T = 0 (velocity form)
// unless they are given, so without options it is SGDM.
//
// The rule `spectrain` is SGDM whose passes both predict, in velocity form, to the step of their
// micro-batch's last backward; with one delay D for all stages that is lwp-v. The rule `xpipe` is the same
// with horizons from the place of the stage in its pipeline.
//
// The rule `linear` is any causal linear rule, given by its coefficients and without a momentum:
//
//   w(z) = -eta C(z) g(z),   C = N/D,   D(z) = z^P + d_1 z^(P-1) + ... + d_P,  D(1) = 0,
//   w_{i+1} = -sum_k d_k w_{i+1-k} - eta sum_j n_j g_{i-j},   N(z) = n_0 z^(P-1) + ... + n_(P-1)
//
// with g_i taken at w_{i-D}. Weights before the start are w_0 and gradients before it 0.
//
// Source: Kosson et al., Pipelined Backpropagation at Scale, arXiv 2003.11666 (recalled).
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace batchless::analysis {

/// Delay of a gradient in updates.
using Delay = std::int64_t;

/// Which delay d the compensation coefficients a = m^d, b = (1 - m^d)/(1 - m) are made for.
enum class Compensation {
  kNone,      ///< d = 0: a = 1, b = 0.
  kNesterov,  ///< d = 1 whatever the gradient's delay.
  kSpike,     ///< d = scale * D, or a value of its own.
  kFree,      ///< a and b are given; 1 and 0 where they are not.
  kLinear,    ///< none of these: the whole rule is a quotient of polynomials.
};

/// From which state the forward weights are extrapolated over the horizon T.
enum class Prediction {
  kNone,
  kVelocity,  ///< w - eta T v
  kWeight,    ///< w + T (w - w_previous)
};

/// One row of the table of rules.
struct Rule {
  std::string_view name;      ///< name on the command line
  std::string_view title;     ///< name in figures and reports
  std::string_view equation;  ///< update and forward weights
  std::string_view source;
  std::string_view extra_memory = "none";  ///< beside weights and velocity, per parameter
  std::string_view reduces_to;             ///< what it equals, and when
  std::string_view also = {};  ///< other names that it has in the literature, and with what options
  Compensation compensation = Compensation::kNone;
  Prediction prediction = Prediction::kNone;
  /// Both passes predict, to the step of their micro-batch's last backward (SpecTrain); else only
  /// forwards do, over T.
  bool predicts_to_last_backward = false;
  /// Both passes predict, by the place of their stage in the pipeline (XPipe).
  bool predicts_by_place = false;
  /// T is the geometric sum m + ... + m^n; the options that set a horizon set n.
  bool predicts_geometrically = false;

  /// Whether horizons follow from a schedule, of each pass its own.
  bool predicts_by_schedule() const { return predicts_to_last_backward || predicts_by_place; }
};

/// Largest accepted size of a, b, d and T. With kMaxScale times the largest delay it bounds every
/// coefficient, so that no product of two of them with a rate overflows a double.
inline constexpr double kMaxCoefficient = 1e8;
/// Largest accepted multiple of the delay.
inline constexpr double kMaxScale = 10;

/// All rules, in the order in which they are listed to users.
std::span<const Rule> AllRules();
/// Those of them that a momentum and a delay make a linear rule: neither spectrain and xpipe, whose
/// horizons follow from a schedule, nor linear.
std::span<const Rule> Rules();
/// The rule `linear`, which has coefficients in place of one.
const Rule& LinearRule();

/// The rule of that name. Throws InvalidArgument (argument.h) naming the nearest valid name.
const Rule& FindRule(std::string_view name);

struct RuleSpec;
/// Throws InvalidArgument for the rule `linear` where only rules of a momentum make sense.
void RefuseLinear(const RuleSpec& spec);

/// A rule together with whatever departs from its defaults.
struct RuleOptions {
  /// d of the spike compensation, updates; default sc_delay_scale * D.
  std::optional<double> sc_delay;
  /// T (n for the rule `msnag`), updates; default horizon_scale * D, and 0 for the rule `free`.
  std::optional<double> horizon;
  /// Free coefficients; either replaces the one that the rule would compute.
  std::optional<double> sc_a;
  std::optional<double> sc_b;
  double sc_delay_scale = 1;
  double horizon_scale = 1;
  /// N and D of the rule `linear`, highest power first; D is monic with a root at 1.
  std::vector<double> numerator;
  std::vector<double> denominator;
};

/// Largest degree of D.
inline constexpr std::size_t kMaxOrder = 64;
/// D(1) may be this far from 0, relative to the sum of the sizes of its coefficients: what is left
/// when they are rounded to doubles. The last coefficient is taken to make up for it.
inline constexpr double kRootAtOneTolerance = 1e-12;

struct RuleSpec {
  Rule rule;
  RuleOptions options;

  bool is_linear() const { return rule.compensation == Compensation::kLinear; }
};

/// A spec of the rule `linear`.
RuleSpec LinearSpec(std::vector<double> numerator, std::vector<double> denominator);

/// Throws InvalidArgument where an option is out of range (a and b: up to kMaxCoefficient in size,
/// either sign; d and T: 0 to kMaxCoefficient; scales: 0 to kMaxScale) or does not belong to the
/// rule. Named as members are: sc_delay, horizon, sc_a, sc_b, sc_delay_scale,
/// horizon_scale. The rule `linear` needs numerator and denominator
/// and takes nothing else: D of degree 1 to kMaxOrder, monic, with a root at 1; N not 0 and of a
/// lower degree; coefficients up to kMaxCoefficient in size.
void Validate(const RuleSpec& spec);

/// Coefficients of a rule at one (m, D).
template <class Real>
struct Coefficients {
  Real a;
  Real b;
  Real horizon;
};

/// a = m^d and b = (1 - m^d)/(1 - m), to full relative accuracy for every m in [0, 1] and d >= 0.
template <class Real>
void SpikeCoefficients(const Real& momentum, const Real& d, Real& a, Real& b) {
  using std::exp;
  using std::expm1;
  using std::log;
  using std::log1p;
  const Real one_minus_m = 1 - momentum;
  if (d == 0) {
    a = 1;
    b = 0;
  } else if (d == 1) {
    a = momentum;
    b = 1;
  } else if (one_minus_m == 0) {
    a = 1;
    b = d;
  } else if (momentum == 0) {
    a = 0;
    b = 1;
  } else {
    // log m from 1 - m, which is exact where m is near 1 and log m is small.
    const Real log_m = momentum > Real(0.5) ? Real(log1p(-one_minus_m)) : Real(log(momentum));
    a = exp(d * log_m);
    b = -expm1(d * log_m) / one_minus_m;
  }
}

/// Coefficients of `spec` for momentum m and delay D; `spec` has to be valid.
/// Real is double, long double or a Boost.Multiprecision number.
template <class Real>
Coefficients<Real> ComputeCoefficients(const RuleSpec& spec, const Real& momentum, Delay delay) {
  const RuleOptions& options = spec.options;
  Real compensation_delay = 0;
  if (spec.rule.compensation == Compensation::kNesterov) {
    compensation_delay = 1;
  } else if (spec.rule.compensation == Compensation::kSpike) {
    compensation_delay = options.sc_delay ? Real(*options.sc_delay)
                                          : Real(Real(options.sc_delay_scale) * Real(delay));
  }
  Coefficients<Real> c{Real(1), Real(0), Real(0)};
  SpikeCoefficients(momentum, compensation_delay, c.a, c.b);
  if (options.sc_a) c.a = Real(*options.sc_a);
  if (options.sc_b) c.b = Real(*options.sc_b);
  if (spec.rule.prediction != Prediction::kNone) {
    if (options.horizon) {
      c.horizon = Real(*options.horizon);
    } else if (spec.rule.compensation != Compensation::kFree) {
      c.horizon = Real(options.horizon_scale) * Real(delay);
    }
  }
  if (spec.rule.predicts_geometrically) {
    Real left = 1;  // m^n
    Real sum = 0;   // 1 + m + ... + m^{n-1}
    SpikeCoefficients(momentum, c.horizon, left, sum);
    c.horizon = momentum * sum;
  }
  return c;
}

}  // namespace batchless::analysis

// Example
//   RuleSpec spec{FindRule("lwp-w+sc"), {}};
//   spec.options.horizon_scale = 2;  // overcompensates
//   Validate(spec);
//   const auto [a, b, horizon] = ComputeCoefficients<double>(spec, 0.9, 4);
//   CHECK(a == Approx(std::pow(0.9, 4)));
//   CHECK(b == Approx((1 - a) / (1 - 0.9)));
//   CHECK(horizon == 2 * 4);
