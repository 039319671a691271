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

OptimizerKernels SgdmKernels() { return MakeKernels<Sgdm>(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(SgdmKernels);

void SetSgdm(const OptimizerSpec& /*spec*/, const UpdatePoint& point, UpdateNumbers& numbers) {
  const double share = point.compensates_each ? std::exchange(numbers.a, 1.0) : 1;
  numbers.own = {point.momentum, point.weight_decay, share};
}

void SetCgad(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  const double gate = std::exp(-spec.Value("age_decay") * static_cast<double>(point.delay));
  numbers.b *= gate;
  numbers.own = {point.momentum, point.weight_decay, gate};
}

}  // namespace

const OptimizerDefinition& SgdmDefinition() {
  static const OptimizerDefinition definition{
      .row = {.name = "sgdm",
              .title = "SGDM",
              .equation = "g += wd w; v' = m v + g; w' = w - eta v'",
              .source = "SGD with momentum in PyTorch's convention",
              .reduces_to = "SGD at m = 0",
              .arrays = {"velocity"}},
      .set = SetSgdm,
      .kernels = HWY_DYNAMIC_DISPATCH(SgdmKernels)()};
  return definition;
}

const OptimizerDefinition& CgadDefinition() {
  static const OptimizerDefinition definition{
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
  return definition;
}

}  // namespace batchless::training
#endif
