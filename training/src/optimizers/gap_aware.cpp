#include <cmath>

#include "optimizers/definition.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/gap_aware.cpp"
#endif
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

template <class L>
struct GapAware {
  static constexpr int kStates = 1;
  static constexpr bool kReadsStale = true;
  static constexpr int kSums = 1;

  const Numbers<L>& own;
  L momentum = L::Set(own[0]);
  L weight_decay = L::Set(own[1]);
  L per_step = L::Set(own[3]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L moved = L::Sub(e.weight, e.stale);
    const L gap = L::Sqrt(L::Mul(moved, moved));
    const L penalized = L::Div(e.gradient, L::MulAdd(per_step, gap, L::Set(1)));
    const L gradient = L::MulAdd(weight_decay, e.weight, penalized);
    e.states[0] = L::MulAdd(momentum, e.states[0], gradient);
    return {e.states[0], gradient, e.weight};
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

OptimizerKernels GapAwareKernels() { return MakeKernels<GapAware>(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(GapAwareKernels);

void SetGapAware(const OptimizerSpec& /*spec*/, const UpdatePoint& point, UpdateNumbers& numbers) {
  numbers.own = {point.momentum, point.weight_decay, point.largest_rate};
}

}  // namespace

const OptimizerDefinition& GapAwareDefinition() {
  static const OptimizerDefinition definition{
      .row = {.name = "gap-aware",
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
  return definition;
}

}  // namespace batchless::training
#endif
