#include <cmath>

#include "optimizers/definition.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/adaptive_braking.cpp"
#endif
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

template <class L>
struct AdaptiveBraking {
  static constexpr int kStates = 1;
  static constexpr int kSums = 3;

  const Numbers<L>& own;
  L momentum = L::Set(own[0]);
  L weight_decay = L::Set(own[1]);
  L scale = L::Set(own[3]);

  HWY_INLINE L Decayed(const Element<L>& e) const {
    return L::MulAdd(weight_decay, e.weight, e.gradient);
  }

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L gradient = L::Mul(scale, Decayed(e));
    e.states[0] = L::MulAdd(momentum, e.states[0], gradient);
    return {e.states[0], gradient, e.weight};
  }

  // g v, g g and v v.
  HWY_INLINE std::array<L, kSums> Terms(const Element<L>& e) const {
    const L gradient = Decayed(e);
    const L velocity = e.states[0];
    return {L::Mul(gradient, velocity), L::Mul(gradient, gradient), L::Mul(velocity, velocity)};
  }

  static void Use(const std::array<double, kSums>& sums, std::int64_t /*size*/, Numbers<L>& own) {
    const double norms = std::sqrt(sums[1] * sums[2]);
    const double cosine = norms > 0 ? sums[0] / norms : 0;
    own[3] = static_cast<typename L::Real>(1 - double{own[2]} * cosine);
  }
};

OptimizerKernels AdaptiveBrakingKernels() { return MakeKernels<AdaptiveBraking>(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(AdaptiveBrakingKernels);

void SetAdaptiveBraking(const OptimizerSpec& spec, const UpdatePoint& point,
                        UpdateNumbers& numbers) {
  numbers.own = {point.momentum, point.weight_decay, spec.Value("braking"), 1};
}

}  // namespace

const OptimizerDefinition& AdaptiveBrakingDefinition() {
  static const OptimizerDefinition definition{
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
  return definition;
}

}  // namespace batchless::training
#endif
