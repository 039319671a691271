// Certified spectral radius of a rule at one point or along many rows, any delay at the same price.
//
//   rho = max |z| over the roots of p(z) of characteristic.h; stable iff rho < 1.
//
// The number of roots outside |z| = r is an exact count in O(1) operations (src/root_kernel-inl.h); the
// dominant root is found by Newton's method on log z, and certified by two counts: no root outside
// log r = s + delta, at least one outside s - delta. Points where double precision does not give
// the tolerances below are finished in long double and then in 50-digit arithmetic.
//
// The rule `linear`, of polynomials of any degree, is counted by arcs instead (src/linear_polynomial.h)
// and has no momentum: what is given for one is not read.
#pragma once

#include <span>

#include "batchless/analysis/characteristic.h"

namespace batchless::analysis {

/// Which arithmetic gave a value.
enum class Precision : unsigned char {
  kDouble = 0,
  kLongDouble = 1,
  kFiftyDigits = 2,
};

struct SpectralRadius {
  double log_radius = 0;        ///< ln rho; -infinity where every root is 0
  double log_radius_error = 0;  ///< certified: |log_radius - ln rho| <= this
  double radius = 0;            ///< rho
  double error_bound = 0;       ///< certified: |radius - rho| <= this
  Precision precision = Precision::kDouble;

  /// rho < 1, by the certificate: the whole bound is.
  bool stable() const { return log_radius + log_radius_error < 0; }
  /// -ln 2 / ln rho in updates; NaN where not stable, 0 where rho = 0.
  double half_life_updates() const;
};

/// Bounds that every value meets, in whichever precision that takes; where rho is exactly 1 the
/// logarithm's is absolute, and far smaller.
inline constexpr double kRadiusTolerance = 1e-13;     ///< of rho: absolute up to 1, relative above
inline constexpr double kLogRadiusTolerance = 1e-11;  ///< relative, of ln rho

/// rho at one point. Throws InvalidArgument by name for bad m, D, x or options.
SpectralRadius ComputeSpectralRadius(const RuleSpec& spec, double momentum, Delay delay,
                                     double rate);

/// Number of roots with |z| > 1 (exact where no root is within rounding of the circle).
int RootsOutsideUnitCircle(const RuleSpec& spec, double momentum, Delay delay, double rate);

/// Instruction sets for rows of points. kBest is the widest that this machine runs.
enum class Simd { kBest, kAvx512, kAvx2, kScalar };
bool IsAvailable(Simd simd);
const char* Name(Simd simd);

/// A row of points: one polynomial, rates in any order (nearby neighbours are faster).
struct Track {
  Characteristic<double> polynomial;
  RuleSpec const* spec = nullptr;  ///< to compute coefficients again in higher precision
  double momentum = 0;
  Delay delay = 0;
  std::span<const double> rates;
};

/// Where the values of tracks go: each span holds (tracks, points) values, row-major. The last three
/// may be empty.
struct TrackValues {
  std::span<double> log_radius;
  std::span<double> log_radius_error;
  std::span<double> radius;
  std::span<double> error_bound;
  std::span<Precision> precision;
};

/// Values along tracks of equal length. Single-threaded. A value depends on its own track only, so
/// neither the grouping of tracks nor the thread count changes a bit of it.
void EvaluateTracks(std::span<const Track> tracks, const TrackValues& values,
                    Simd simd = Simd::kBest);

/// The same without the climb to higher precision: certified values of ln rho as doubles give them,
/// for pictures and for searches that sample around cusps. Only points that are not certified are
/// solved one by one. `scratch` is as long as `log_radius`.
void EvaluateTracksInDouble(std::span<const Track> tracks, std::span<double> log_radius,
                            std::span<double> scratch);

}  // namespace batchless::analysis

// Example
//   const RuleSpec sgdm{FindRule("sgdm"), {}};
//   const double momentum = 0, rate = 0.25;
//   const Delay delay = 0;
//   const SpectralRadius rho = ComputeSpectralRadius(sgdm, momentum, delay, rate);
//   CHECK(std::abs(rho.radius - (1 - rate)) <= rho.error_bound);
//   CHECK(rho.stable());
//   CHECK(rho.half_life_updates() == Approx(std::log(0.5) / std::log(1 - rate)));
