#include <algorithm>
#include <cmath>

#include "optimizers/definition.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/pipemare.cpp"
#endif
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

template <class L>
struct Pipemare {
  static constexpr int kStates = 2;

  const Numbers<L>& own;
  L momentum = L::Set(own[0]);
  L weight_decay = L::Set(own[1]);
  L decay = L::Set(own[2]);
  L rest = L::Set(own[3]);
  L minus_delay = L::Set(own[4]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L gradient = L::MulAdd(weight_decay, e.weight, e.gradient);
    e.states[0] = L::MulAdd(momentum, e.states[0], gradient);
    return {e.states[0], gradient, e.weight};
  }

  HWY_INLINE L Backward(const L& old, const L& updated, Element<L>& e) const {
    L& change = e.states[1];
    change = L::MulAdd(decay, change, L::Mul(rest, L::Sub(updated, old)));
    return L::MulAdd(minus_delay, change, updated);
  }
};

OptimizerKernels PipemareKernels() { return MakeKernels<Pipemare>(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(PipemareKernels);

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

}  // namespace

const OptimizerDefinition& PipemareDefinition() {
  static const OptimizerDefinition definition{
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
  return definition;
}

}  // namespace batchless::training
#endif
