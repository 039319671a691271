#include <utility>

#include "optimizers/definition.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/sgdm.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// v' = m v + s g, with s = 1 but where each gradient is compensated by its own delay.
template <class L>
struct Sgdm {
  static constexpr int kStates = 1;

  explicit Sgdm(const Numbers<L>& own)
      : momentum(L::Set(own[0])), weight_decay(L::Set(own[1])), share(L::Set(own[2])) {}

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L gradient = L::MulAdd(weight_decay, e.weight, e.gradient);
    e.states[0] = L::MulAdd(momentum, e.states[0], L::Mul(share, gradient));
    return {e.states[0], gradient, e.weight};
  }

  L momentum;
  L weight_decay;
  L share;
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

}  // namespace

const OptimizerDefinition& SgdmDefinition() {
  static const OptimizerKernels kernels = HWY_DYNAMIC_DISPATCH(SgdmKernels)();
  static const OptimizerDefinition definition{
      .row = {.name = "sgdm",
              .title = "SGDM",
              .equation = "g += wd w; v' = m v + g; w' = w - eta v'",
              .source = "SGD with momentum in PyTorch's convention",
              .reduces_to = "SGD at m = 0",
              .arrays = {"velocity"}},
      .set = SetSgdm,
      .kernels = &kernels};
  return definition;
}

}  // namespace batchless::training
#endif
