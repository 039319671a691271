#include "optimizers/definition.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/ema_nesterov.cpp"
#endif
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

template <class L>
struct EmaNesterov {
  static constexpr int kStates = 2;

  const Numbers<L>& own;
  L momentum = L::Set(own[0]);
  L weight_decay = L::Set(own[1]);
  L decay = L::Set(own[2]);
  L state_share = L::Set(own[3]);
  L gradient_share = L::Set(own[4]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L gradient = L::MulAdd(weight_decay, e.weight, e.gradient);
    L& velocity = e.states[0];
    L& mean = e.states[1];
    velocity = L::MulAdd(momentum, velocity, gradient);
    const L step = L::MulAdd(state_share, velocity, L::Mul(gradient_share, gradient));
    mean = L::MulAdd(decay, mean, step);
    return {velocity, gradient, e.weight};
  }

  HWY_INLINE L Along(const Element<L>& e) const { return e.states[1]; }
};

OptimizerKernels EmaNesterovKernels() { return MakeKernels<EmaNesterov>(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(EmaNesterovKernels);

void SetEmaNesterov(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  const double decay = spec.Value("mean_decay");
  numbers.own = {point.momentum, point.weight_decay, decay, (1 - decay) * numbers.a,
                 (1 - decay) * numbers.b};
}

}  // namespace

const OptimizerDefinition& EmaNesterovDefinition() {
  static const OptimizerDefinition definition{
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
  return definition;
}

}  // namespace batchless::training
#endif
