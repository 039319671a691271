// Delays that vary from update to update, as data.
//
//   independent   update i takes a gradient d_i updates late, d_i ~ p, drawn anew at each update
//   Markov        the delays are the states of a chain: pi_ij is the probability of j after i
//   trace         d_0, ..., d_(L-1), repeated for ever
//
//   p_d    probability of delay d              M  the largest delay
//   dbar   mean delay, sum_d p_d d, real       L  length of a trace in updates
//
// Parameter servers and asynchronous reinforcement learning have such delays: each worker's gradient is
// as late as that worker is slow.
#pragma once

#include <optional>
#include <vector>

#include "batchless/analysis/rule.h"

namespace batchless::analysis {

/// Largest delay of a model, in updates.
inline constexpr Delay kMaxVaryingDelay = 1000;
/// Most states of a Markov chain, and updates of a trace.
inline constexpr std::size_t kMaxDelayStates = 65;
inline constexpr std::size_t kMaxTraceLength = 100'000;
/// Probabilities may sum to 1 within this; they are divided by their sum.
inline constexpr double kProbabilityTolerance = 1e-6;
/// A geometric distribution is cut where the rest has less probability than this.
inline constexpr double kGeometricRest = 1e-6;

struct DelayModel {
  enum class Kind { kIndependent, kMarkov, kTrace };

  Kind kind = Kind::kIndependent;
  /// Different delays in ascending order; states of the chain; the trace itself.
  std::vector<Delay> delays;
  /// Share of the updates that each of them takes, sums to 1. Of a chain: its stationary distribution.
  std::vector<double> shares;
  /// pi_ij of a chain, row by row; else empty.
  std::vector<std::vector<double>> transition;

  double mean() const;
  Delay largest() const;
  /// The one delay that a distribution has where it has no other.
  std::optional<Delay> only() const;
};

/// Each throws InvalidArgument naming `delays`, or `largest_delay`.
/// All delays from `low` to `high` alike.
DelayModel UniformDelays(Delay low, Delay high);
/// p_d = P (1 - P)^d up to `largest`, by default the first delay past which less than kGeometricRest is
/// left, scaled to sum to 1.
DelayModel GeometricDelays(double probability, std::optional<Delay> largest = std::nullopt);
DelayModel IndependentDelays(const std::vector<Delay>& delays,
                             const std::vector<double>& probabilities);
/// Every state has to be reachable from every other.
DelayModel MarkovDelays(std::vector<Delay> delays, std::vector<std::vector<double>> transition);
DelayModel TraceDelays(std::vector<Delay> trace);

}  // namespace batchless::analysis

// Example
//   const DelayModel uniform = UniformDelays(0, 8);
//   CHECK(uniform.mean() == Approx(4));
//   CHECK(uniform.largest() == 8);
//   // A worker that is slow tends to stay slow.
//   const DelayModel chain = MarkovDelays({1, 7}, {{0.9, 0.1}, {0.3, 0.7}});
//   CHECK(chain.shares[0] == Approx(0.75));
