#include "batchless/analysis/spectral_radius.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "batchless/analysis/argument.h"
#include "linear_solver.h"
#include "not_finite.h"
#include "point_solver.h"
#include "track_group.h"

namespace batchless::analysis {
namespace {

/// Runs the walk over all tracks; errors come back negative where a point is not finished.
void Walk(std::span<const Track> tracks, const TrackValues& values, Simd simd) {
  const std::size_t points = tracks.front().rates.size();
  const Walker walker = WalkerOf(simd);
  TrackGroup group;
  group.points = points;
  group.wants_radius = !values.radius.empty();
  for (std::size_t first = 0; first < tracks.size(); first += walker.lanes) {
    group.used = std::min(walker.lanes, tracks.size() - first);
    for (std::size_t lane = 0; lane < walker.lanes; ++lane) {
      const std::size_t i = first + std::min(lane, group.used - 1);
      const Characteristic<double>& p = tracks[i].polynomial;
      group.n[lane] = p.n;
      group.m[lane] = p.momentum;
      group.mu[lane] = p.one_minus_momentum;
      group.kappa[lane] = p.kappa;
      group.beta[lane] = p.beta;
      group.gamma[lane] = p.gamma;
      group.kappa_size[lane] = p.kappa_size;
      group.beta_size[lane] = p.beta_size;
      group.rates[lane] = tracks[i].rates.data();
      group.log_radius[lane] = values.log_radius.data() + i * points;
      group.log_error[lane] = values.log_radius_error.data() + i * points;
      group.radius[lane] = group.wants_radius ? values.radius.data() + i * points : nullptr;
      group.error[lane] = group.wants_radius ? values.error_bound.data() + i * points : nullptr;
    }
    walker.walk(group);
  }
}

/// The walk, and every point whose error comes back below `least` solved by itself.
void Evaluate(std::span<const Track> tracks, const TrackValues& values, Simd simd, double least) {
  if (tracks.empty()) return;
  Walk(tracks, values, simd);
  std::fill(values.precision.begin(), values.precision.end(), Precision::kDouble);
  const std::size_t points = tracks.front().rates.size();
  for (std::size_t at = 0; at < tracks.size() * points; ++at) {
    if (!(values.log_radius_error[at] < least)) continue;
    const Track& track = tracks[at / points];
    const SpectralRadius exact =
        SolvePoint(*track.spec, track.momentum, track.delay, track.rates[at % points]);
    values.log_radius[at] = exact.log_radius;
    values.log_radius_error[at] = exact.log_radius_error;
    if (!values.radius.empty()) {
      values.radius[at] = exact.radius;
      values.error_bound[at] = exact.error_bound;
    }
    if (!values.precision.empty()) values.precision[at] = exact.precision;
  }
}

}  // namespace

double SpectralRadius::half_life_updates() const {
  if (!stable()) return kNaN;
  return std::log(2.0) / -log_radius;
}

SpectralRadius ComputeSpectralRadius(const RuleSpec& spec, double momentum, Delay delay,
                                     double rate) {
  Validate(spec, momentum, delay, rate);
  if (spec.is_linear()) return SolveLinearPoint(spec, delay, rate);
  return SolvePoint(spec, momentum, delay, rate);
}

int RootsOutsideUnitCircle(const RuleSpec& spec, double momentum, Delay delay, double rate) {
  Validate(spec, momentum, delay, rate);
  if (spec.is_linear()) return CountLinearOutsideUnitCircle(spec, delay, rate).outside;
  return CountOutsideUnitCircle(MakeCharacteristic<double>(spec, momentum, delay), rate).outside;
}

const char* Name(Simd simd) {
  // In the order of the enumeration.
  constexpr std::array kNames = {"best", "avx512", "avx2", "scalar"};
  return kNames.at(static_cast<std::size_t>(simd));
}

void EvaluateTracks(std::span<const Track> tracks, const TrackValues& values, Simd simd) {
  Evaluate(tracks, values, simd, 0);
}

void EvaluateTracksInDouble(std::span<const Track> tracks, std::span<double> log_radius,
                            std::span<double> scratch) {
  // Certified bounds are far above this.
  Evaluate(tracks, {log_radius, scratch, {}, {}, {}}, Simd::kBest, -TrackGroup::kUncertified / 2);
}

}  // namespace batchless::analysis
