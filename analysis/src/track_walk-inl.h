// Walks tracks of points, one track a lane, each point starting from its neighbour's root.

#if defined(BATCHLESS_ANALYSIS_TRACK_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATCHLESS_ANALYSIS_TRACK_WALK_INL_H_
#undef BATCHLESS_ANALYSIS_TRACK_WALK_INL_H_
#else
#define BATCHLESS_ANALYSIS_TRACK_WALK_INL_H_
#endif

#include <hwy/highway.h>

#include "root_kernel-inl.h"
#include "track_group.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::analysis {
namespace HWY_NAMESPACE {

/// L is a lane type with kLanes, Load and Store beside the kernel's arithmetic. Everything is
/// masked lane by lane, so a track's values do not depend on the tracks that run beside it.
template <class L>
HWY_NOINLINE void WalkTracks(const TrackGroup& group) {
  using Kernel = RootKernel<L>;
  using V = typename L::V;
  using M = typename L::M;
  constexpr std::size_t kLanes = L::kLanes;
  static_assert(kLanes <= TrackGroup::kMaxLanes);

  typename Kernel::Polynomial k;
  k.n = L::Load(group.n);
  k.m = L::Load(group.m);
  k.mu = L::Load(group.mu);
  k.kappa = L::Load(group.kappa);
  k.beta = L::Load(group.beta);
  k.gamma = L::Load(group.gamma);
  k.kappa_size = L::Load(group.kappa_size);
  k.beta_size = L::Load(group.beta_size);
  const V zero = L::Set(0), one = L::Set(1);
  const M closed_form = L::Lt(k.n, L::Set(0.5));
  const bool any_closed = L::Any(closed_form);
  const bool all_closed = !L::Any(L::Not(closed_form));

  typename Kernel::Root root;
  root.s = root.p = root.q = root.delta = zero;
  root.theta = L::Set(9);
  root.certified = L::Lt(one, zero);
  V previous_x = one;

  alignas(64) double buffer[kLanes];
  for (std::size_t j = 0; j < group.points; ++j) {
    for (std::size_t i = 0; i < kLanes; ++i) buffer[i] = group.rates[i][j];
    k.x = L::Load(buffer);

    if (!all_closed) {
      // d zeta / d ln x = 1 / G'. A lane without a root to start from stays out (theta > 4).
      const V step = L::Log(k.x / previous_x) / (root.p * root.p + root.q * root.q);
      const M known = root.certified;
      const M on_axis = L::Or(L::Not(L::Lt(zero, root.theta)), L::Not(L::Lt(root.theta, L::Pi())));
      root.s = L::Select(known, root.s + root.p * step, zero);
      const V theta = L::Select(on_axis, root.theta, L::Abs(root.theta - root.q * step));
      root.theta = L::Select(known, theta, L::Set(9));
      Kernel::Refine(k, root);
      const M lost = L::And(L::Not(root.certified), L::Not(closed_form));
      if (L::Any(lost)) Kernel::Search(k, lost, root, 4);
    }
    previous_x = k.x;
    V s = root.s, delta = root.delta;
    M certified = root.certified;
    if (any_closed) {
      typename Kernel::Root quadratic;
      Kernel::Quadratic(k, quadratic);
      s = L::Select(closed_form, quadratic.s, s);
      delta = L::Select(closed_form, quadratic.delta, delta);
      certified =
          L::Or(L::And(closed_form, quadratic.certified), L::And(L::Not(closed_form), certified));
    }

    const V radius = L::Exp(s);
    const V error = radius * (delta + L::Unit());
    const M good = L::And(
        certified, L::And(L::Lt(error, L::Set(TrackGroup::kRadiusGoal) * L::Max(one, radius)),
                          L::Lt(delta, L::Abs(s) * L::Set(TrackGroup::kLogGoal))));
    group.Put(group.log_radius, j, L::Store(s, buffer), kLanes);
    const V marked = L::Select(certified, zero - delta, L::Set(-TrackGroup::kUncertified));
    group.Put(group.log_error, j, L::Store(L::Select(good, delta, marked), buffer), kLanes);
    if (group.wants_radius) {
      group.Put(group.radius, j, L::Store(radius, buffer), kLanes);
      group.Put(group.error, j, L::Store(error, buffer), kLanes);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace batchless::analysis
HWY_AFTER_NAMESPACE();

#endif  // BATCHLESS_ANALYSIS_TRACK_WALK_INL_H_
