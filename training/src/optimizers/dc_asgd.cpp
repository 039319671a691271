#include "optimizers/definition.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/dc_asgd.cpp"
#endif
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

template <class L>
struct DcAsgd {
  static constexpr int kStates = 1;
  static constexpr bool kReadsStale = true;

  const Numbers<L>& own;
  L momentum = L::Set(own[0]);
  L weight_decay = L::Set(own[1]);
  L lambda = L::Set(own[2]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L square = L::Mul(e.gradient, e.gradient);
    const L corrected = L::MulAdd(L::Mul(lambda, square), L::Sub(e.weight, e.stale), e.gradient);
    const L gradient = L::MulAdd(weight_decay, e.weight, corrected);
    e.states[0] = L::MulAdd(momentum, e.states[0], gradient);
    return {e.states[0], gradient, e.weight};
  }
};

OptimizerKernels DcAsgdKernels() { return MakeKernels<DcAsgd>(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(DcAsgdKernels);

void SetDcAsgd(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  numbers.own = {point.momentum, point.weight_decay, spec.Value("delay_compensation")};
}

}  // namespace

const OptimizerDefinition& DcAsgdDefinition() {
  static const OptimizerDefinition definition{
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
  return definition;
}

}  // namespace batchless::training
#endif
