// SGD with momentum, the optimizers that keep its velocity but for another gradient, rate or look-ahead, and
// linear rules in its place.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "optimizers/definition.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/sgdm.cpp"
#endif
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// v' = m v + s g, with s = 1 but where each gradient is compensated, or gated, by its own delay.
template <class L>
struct Sgdm {
  static constexpr int kStates = 1;

  const Numbers<L>& own;
  L momentum = L::Set(own[0]);
  L weight_decay = L::Set(own[1]);
  L share = L::Set(own[2]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L gradient = L::MulAdd(weight_decay, e.weight, e.gradient);
    e.states[0] = L::MulAdd(momentum, e.states[0], L::Mul(share, gradient));
    return {e.states[0], gradient, e.weight};
  }
};

// What the others below have in common: v' = m v + g, where each makes g of the gradient.
template <class L>
struct Momentum {
  static constexpr int kStates = 1;

  Momentum(const Numbers<L>& numbers) : own(numbers) {}

  HWY_INLINE L Decayed(const L& gradient, const Element<L>& e) const {
    return L::MulAdd(weight_decay, e.weight, gradient);
  }

  HWY_INLINE Step<L> StepBy(const L& gradient, Element<L>& e) const {
    e.states[0] = L::MulAdd(momentum, e.states[0], gradient);
    return {e.states[0], gradient, e.weight};
  }

  const Numbers<L>& own;
  L momentum = L::Set(own[0]);
  L weight_decay = L::Set(own[1]);
};

template <class L>
struct AdaptiveBraking : Momentum<L> {
  static constexpr int kSums = 3;

  L scale = L::Set(this->own[3]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    return this->StepBy(L::Mul(scale, this->Decayed(e.gradient, e)), e);
  }

  // g v, g g and v v.
  HWY_INLINE std::array<L, kSums> Terms(const Element<L>& e) const {
    const L gradient = this->Decayed(e.gradient, e);
    const L velocity = e.states[0];
    return {L::Mul(gradient, velocity), L::Mul(gradient, gradient), L::Mul(velocity, velocity)};
  }

  static void Use(const std::array<double, kSums>& sums, std::int64_t /*size*/, Numbers<L>& own) {
    const double norms = std::sqrt(sums[1] * sums[2]);
    const double cosine = norms > 0 ? sums[0] / norms : 0;
    own[3] = static_cast<typename L::Real>(1 - double{own[2]} * cosine);
  }
};

template <class L>
struct DcAsgd : Momentum<L> {
  static constexpr bool kReadsStale = true;

  L lambda = L::Set(this->own[2]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L square = L::Mul(e.gradient, e.gradient);
    const L corrected = L::MulAdd(L::Mul(lambda, square), L::Sub(e.weight, e.stale), e.gradient);
    return this->StepBy(this->Decayed(corrected, e), e);
  }
};

template <class L>
struct GapAware : Momentum<L> {
  static constexpr bool kReadsStale = true;
  static constexpr int kSums = 1;

  L per_step = L::Set(this->own[3]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L moved = L::Sub(e.weight, e.stale);
    const L gap = L::Sqrt(L::Mul(moved, moved));
    const L penalized = L::Div(e.gradient, L::MulAdd(per_step, gap, L::Set(1)));
    return this->StepBy(this->Decayed(penalized, e), e);
  }

  // v v.
  HWY_INLINE std::array<L, kSums> Terms(const Element<L>& e) const {
    return {L::Mul(e.states[0], e.states[0])};
  }

  static void Use(const std::array<double, kSums>& sums, std::int64_t size, Numbers<L>& own) {
    constexpr double kEpsilon = 1e-8;
    const double mean = sums[0] / static_cast<double>(size);
    const double step = double{own[2]} * (std::sqrt(mean) + kEpsilon);
    own[3] = static_cast<typename L::Real>(step > 0 ? 1 / step : 0);
  }
};

template <class L>
struct Pipemare : Momentum<L> {
  static constexpr int kStates = 2;

  L decay = L::Set(this->own[2]);
  L rest = L::Set(this->own[3]);
  L minus_delay = L::Set(this->own[4]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    return this->StepBy(this->Decayed(e.gradient, e), e);
  }

  HWY_INLINE L Backward(const L& old, const L& updated, Element<L>& e) const {
    L& change = e.states[1];
    change = L::MulAdd(decay, change, L::Mul(rest, L::Sub(updated, old)));
    return L::MulAdd(minus_delay, change, updated);
  }
};

template <class L>
struct EmaNesterov : Momentum<L> {
  static constexpr int kStates = 2;

  L decay = L::Set(this->own[2]);
  L state_share = L::Set(this->own[3]);
  L gradient_share = L::Set(this->own[4]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const Step<L> step = this->StepBy(this->Decayed(e.gradient, e), e);
    L& mean = e.states[1];
    mean = L::MulAdd(decay, mean, L::MulAdd(state_share, step.u, L::Mul(gradient_share, step.p)));
    return step;
  }

  HWY_INLINE L Along(const Element<L>& e) const { return e.states[1]; }
};

// With E(z) = D(z)/(z - 1) = z^2 + e1 z + e2 a step is q(z) = N(z)/E(z) g(z), in the transposed form
// that needs no older weights or gradients:
//
//   q = n0 g + s1,   s1' = n1 g - e1 q + s2,   s2' = n2 g - e2 q
template <class L>
struct Linear {
  static constexpr int kStates = 2;

  const Numbers<L>& own;
  L n0 = L::Set(own[0]);
  L n1 = L::Set(own[1]);
  L n2 = L::Set(own[2]);
  L minus_e1 = L::Set(own[3]);
  L minus_e2 = L::Set(own[4]);
  L weight_decay = L::Set(own[5]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L gradient = L::MulAdd(weight_decay, e.weight, e.gradient);
    L& s1 = e.states[0];
    L& s2 = e.states[1];
    const L q = L::MulAdd(n0, gradient, s1);
    s1 = L::MulAdd(n1, gradient, L::MulAdd(minus_e1, q, s2));
    s2 = L::MulAdd(n2, gradient, L::Mul(minus_e2, q));
    return {q, gradient, e.weight};
  }
};

OptimizerKernels SgdmKernels() { return MakeKernels<Sgdm>(); }
OptimizerKernels AdaptiveBrakingKernels() { return MakeKernels<AdaptiveBraking>(); }
OptimizerKernels DcAsgdKernels() { return MakeKernels<DcAsgd>(); }
OptimizerKernels GapAwareKernels() { return MakeKernels<GapAware>(); }
OptimizerKernels PipemareKernels() { return MakeKernels<Pipemare>(); }
OptimizerKernels EmaNesterovKernels() { return MakeKernels<EmaNesterov>(); }
OptimizerKernels LinearKernels() { return MakeKernels<Linear>(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(SgdmKernels);
HWY_EXPORT(AdaptiveBrakingKernels);
HWY_EXPORT(DcAsgdKernels);
HWY_EXPORT(GapAwareKernels);
HWY_EXPORT(PipemareKernels);
HWY_EXPORT(EmaNesterovKernels);
HWY_EXPORT(LinearKernels);

void SetSgdm(const OptimizerSpec& /*spec*/, const UpdatePoint& point, UpdateNumbers& numbers) {
  const double share = point.compensates_each ? std::exchange(numbers.a, 1.0) : 1;
  numbers.own = {point.momentum, point.weight_decay, share};
}

void SetCgad(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  const double gate = std::exp(-spec.Value("age_decay") * static_cast<double>(point.delay));
  numbers.b *= gate;
  numbers.own = {point.momentum, point.weight_decay, gate};
}

void SetAdaptiveBraking(const OptimizerSpec& spec, const UpdatePoint& point,
                        UpdateNumbers& numbers) {
  numbers.own = {point.momentum, point.weight_decay, spec.Value("braking"), 1};
}

void SetDcAsgd(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  numbers.own = {point.momentum, point.weight_decay, spec.Value("delay_compensation")};
}

void SetGapAware(const OptimizerSpec& /*spec*/, const UpdatePoint& point, UpdateNumbers& numbers) {
  numbers.own = {point.momentum, point.weight_decay, point.largest_rate};
}

void SetPipemare(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  const auto delay = static_cast<double>(point.delay);
  const double annealed = spec.Value("annealing_samples");
  const double left =
      annealed > 0 ? 1 - std::min(static_cast<double>(point.samples) / annealed, 1.0) : 0;
  if (delay > 1) numbers.rate = point.rate / std::pow(delay, left);
  // Backwards read the newest weights: tau_f - tau_b is the forward's delay.
  const double decay = delay > 0 ? std::pow(spec.Value("discrepancy_decay"), 1 / delay) : 1;
  numbers.own = {point.momentum, point.weight_decay, decay, 1 - decay, -delay};
}

void SetEmaNesterov(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  const double decay = spec.Value("mean_decay");
  numbers.own = {point.momentum, point.weight_decay, decay, (1 - decay) * numbers.a,
                 (1 - decay) * numbers.b};
}

void SetLinear(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  const analysis::RuleOptions& rule = spec.by_delay.at(point.delay).options;
  const auto degree = static_cast<std::ptrdiff_t>(rule.denominator.size()) - 1;
  // N and E in falling powers from z^2; a factor z in both changes nothing.
  std::array<double, kMaxLinearOrder> n{};
  std::copy_backward(rule.numerator.begin(), rule.numerator.end(), n.begin() + degree);
  std::array<double, kMaxLinearOrder> e{};
  double sum = 0;
  for (std::ptrdiff_t k = 0; k < degree; ++k) e[k] = sum += rule.denominator[k];
  numbers.own = {n[0], n[1], n[2], -e[1], -e[2], point.weight_decay};
}

}  // namespace

OptimizerDefinition SgdmDefinition() {
  return {.row = {.name = "sgdm",
                  .title = "SGDM",
                  .equation = "g += wd w; v' = m v + g; w' = w - eta v'",
                  .source = "SGD with momentum in PyTorch's convention",
                  .reduces_to = "SGD at m = 0",
                  .arrays = {"velocity"}},
          .set = SetSgdm,
          .kernels = HWY_DYNAMIC_DISPATCH(SgdmKernels)()};
}

OptimizerDefinition CgadDefinition() {
  return {
      .row = {.name = "cgad",
              .title = "gated by age",
              .equation = "as sgdm with the gate e^{-alpha D} before each gradient: "
                          "v' = m v + e^{-alpha D}(g + wd w)",
              .source = "CGAD, arXiv 2605.09126 (secondary reading, without its factor "
                        "gamma(D); the default is this project's)",
              .reduces_to = "sgdm without delay, or at alpha = 0; without weight decay and under "
                            "one delay, sgdm at the rate e^{-alpha D} eta",
              .arrays = {"velocity"},
              .hyperparameters = {{.name = "age_decay",
                                   .initial = 0.01,
                                   .help = "alpha of cgad's gate, for each update of delay"}}},
      .set = SetCgad,
      .kernels = SgdmDefinition().kernels};
}

OptimizerDefinition AdaptiveBrakingDefinition() {
  return {
      .row = {.name = "adaptive-braking",
              .title = "Adaptive Braking",
              .equation = "g += wd w; g = (1 - rho cos(g, v)) g; v' = m v + g; w' = w - eta v'; "
                          "cos over each tensor",
              .source = "Venigalla et al., Adaptive Braking (recalled)",
              .reduces_to = "sgdm at rho = 0",
              .arrays = {"velocity"},
              .hyperparameters = {{.name = "braking",
                                   .initial = 1,
                                   .high = 100,
                                   .help = "rho of adaptive-braking"}}},
      .set = SetAdaptiveBraking,
      .kernels = HWY_DYNAMIC_DISPATCH(AdaptiveBrakingKernels)()};
}

OptimizerDefinition DcAsgdDefinition() {
  return {
      .row = {.name = "dc-asgd",
              .title = "DC-ASGD",
              .equation = "g += lambda g g (w - w_stale) + wd w; v' = m v + g; w' = w - eta v'; "
                          "w_stale are the raw weights at the forward",
              .source = "Zheng et al., arXiv 1609.08326 (recalled)",
              .reduces_to = "sgdm at lambda = 0, and without delay",
              .arrays = {"velocity"},
              .hyperparameters = {{.name = "delay_compensation",
                                   .initial = 0.04,
                                   .high = 1e6,
                                   .help = "lambda of dc-asgd"}},
              .keeps_forward_weights = true},
      .set = SetDcAsgd,
      .kernels = HWY_DYNAMIC_DISPATCH(DcAsgdKernels)()};
}

OptimizerDefinition GapAwareDefinition() {
  return {.row = {.name = "gap-aware",
                  .title = "Gap-Aware",
                  .equation =
                      "g = g / (1 + |w - w_stale| / (eta_max (rms(v) + 1e-8))) + wd w; v' = m v + "
                      "g; w' = w - eta v'; rms over a tensor, eta_max the schedule's lr, w_stale "
                      "the raw weights at the forward",
                  .source = "Barkai et al., arXiv 1909.10802 (recalled)",
                  .reduces_to = "sgdm without delay",
                  .arrays = {"velocity"},
                  .keeps_forward_weights = true},
          .set = SetGapAware,
          .kernels = HWY_DYNAMIC_DISPATCH(GapAwareKernels)()};
}

OptimizerDefinition PipemareDefinition() {
  return {
      .row = {.name = "pipemare",
              .title = "PipeMare",
              .equation =
                  "as sgdm with eta / max(D, 1)^p, p = 1 - min(samples/K, 1) (T1); backwards "
                  "read w' - D delta, delta' = gamma delta + (1 - gamma)(w' - w), "
                  "gamma = d^(1/D) (T2); a first phase without delays (T3)",
              .source = "Yang et al., PipeMare, arXiv 1910.05124 (recalled)",
              .reduces_to =
                  "sgdm without delay; with K = 0 no T1, with d = 1 no T2, in one phase no T3",
              .also =
                  "T1 alone is what Ajanthan et al., arXiv 2505.01099, compare with as PipeMare: "
                  "eta / (versions - 1)^p",
              .arrays = {"velocity", "mean change"},
              .hyperparameters = {{.name = "annealing_samples",
                                   .initial = 0,
                                   .high = 1e15,
                                   .help = "K of pipemare's rates, samples; 0: no such rates"},
                                  {.name = "discrepancy_decay",
                                   .initial = 0.135,
                                   .help = "d of pipemare's backward weights; 1: the newest"}},
              .sets_backward_weights = true},
      .set = SetPipemare,
      .kernels = HWY_DYNAMIC_DISPATCH(PipemareKernels)()};
}

OptimizerDefinition EmaNesterovDefinition() {
  return {
      .row = {.name = "ema-nesterov",
              .title = "EMA-Nesterov",
              .equation = "as sgdm; e' = gamma e + (1 - gamma)(a v' + b g), a and b of the rule; "
                          "look-aheads in velocity form go along e': w_hat = w' - eta T e'",
              .source =
                  "arXiv 2605.25395 (abstract); with lwp-v's horizon, which is this project's",
              .reduces_to = "sgdm with a rule that does not predict; lwp-v at gamma = 0; with "
                            "weights stashed under one delay, linear with the quotient of "
                            "batchless rules",
              .arrays = {"velocity", "mean step"},
              .hyperparameters = {{.name = "mean_decay",
                                   .initial = 0.99,
                                   .high_is_open = true,
                                   .help = "gamma of ema-nesterov's mean of the steps"}}},
      .set = SetEmaNesterov,
      .kernels = HWY_DYNAMIC_DISPATCH(EmaNesterovKernels)()};
}

OptimizerDefinition LinearDefinition() {
  return {
      .row = {.name = "linear",
              .title = "Linear",
              .equation = "g += wd w; w(z) = -eta N(z)/D(z) g(z), D of degree 3 at most, a "
                          "quotient for each delay from optimizer.file",
              .source = "this project; batchless design finds the fastest ones",
              .reduces_to = "sgdm at N = z, D = (z - 1)(z - m); under a delay of all stages alike "
                            "with stashed weights, lwp-w+sc for that rule's quotient",
              .arrays = {"first delayed sum", "second delayed sum"},
              .momentum = "",
              .takes_quotients = true},
      .set = SetLinear,
      .kernels = HWY_DYNAMIC_DISPATCH(LinearKernels)()};
}

}  // namespace batchless::training
#endif
