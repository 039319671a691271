// An optimizer of the user's own, beside those of the table: it trains on every schedule, under every
// rule and in every precision, and its arrays are in checkpoints, as theirs are.
//
//   options.optimizer.optimizer = MakeOptimizer(
//       {.name = "lion", .arrays = {"mean"}},
//       [](const OptimizerSpec& spec, const UpdatePoint& point) -> OwnNumbers<double> { ... },
//       [](const auto& numbers, auto& w) { ... });
//
// The first function is asked once for each update of a stage, for what does not depend on the weight.
// The second says for each weight what u, p and w0 of optimizer.h are, and changes the states. Neither
// captures anything: several threads call them, in no order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "batchless/analysis/rule.h"
#include "batchless/training/optimizer.h"

namespace batchless::training {

/// Most arrays beside the weights, and most numbers that an update hands to every weight.
inline constexpr int kMaxStates = 2;
inline constexpr int kMaxOwnNumbers = 8;

/// How far the look-ahead by velocity goes in each pass, in updates.
struct Horizons {
  double forward = 0;
  double backward = 0;
};

/// Where an update is in the run.
struct UpdatePoint {
  double rate = 0;
  double largest_rate = 0;  ///< of the schedule
  double momentum = 0;
  double weight_decay = 0;
  analysis::Delay delay = 0;  ///< of the forward's weights, updates
  /// Whether a is what the gradient adds to the velocity, not what the weight takes of it
  /// (random_delay.h); with the optimizer sgdm alone.
  bool compensates_each = false;
  std::int64_t samples = 0;  ///< seen before it
  std::int64_t update = 1;   ///< its number, from 1, after those of the past
  PastUpdates past = {};
  PastUpdates past_of_vectors = {};
  std::optional<Horizons> horizons = std::nullopt;  ///< in place of the rule's look-ahead
};

template <class Real>
using OwnNumbers = std::array<Real, kMaxOwnNumbers>;

/// What an optimizer makes of one weight: u, p and w0 of w_new = w0 - eta (a u + b p).
template <class Real>
struct WeightUpdate {
  Real gradient = 0;
  Real weight = 0;
  std::array<Real, kMaxStates> states{};  ///< 0 at first; in the order of Optimizer::arrays
  Real u = 0;
  Real p = 0;
  Real w0 = 0;  ///< the weight, where nothing is said
};

/// Makes u, p and w0 of `size` weights that follow each other.
template <class Real>
using OwnLoop = void (*)(const OwnNumbers<Real>& numbers, std::int64_t size, const Real* gradient,
                         const Real* weights, Real* first_state, Real* second_state, Real* u,
                         Real* p, Real* w0);

// No two of the arrays overlap, so that compilers can make vectors of the loop.
template <class Step, class Real>
void LoopOver(const OwnNumbers<Real>& numbers, std::int64_t size, const Real* __restrict gradient,
              const Real* __restrict weights, Real* __restrict first_state,
              Real* __restrict second_state, Real* __restrict u, Real* __restrict p,
              Real* __restrict w0) {
  for (std::int64_t i = 0; i < size; ++i) {
    WeightUpdate<Real> w{.gradient = gradient[i],
                         .weight = weights[i],
                         .states = {first_state[i], second_state[i]},
                         .w0 = weights[i]};
    Step{}(numbers, w);
    first_state[i] = w.states[0];
    second_state[i] = w.states[1];
    u[i] = w.u;
    p[i] = w.p;
    w0[i] = w.w0;
  }
}

struct OwnFunctions {
  OwnNumbers<double> (*numbers)(const OptimizerSpec&, const UpdatePoint&) = nullptr;
  std::tuple<OwnLoop<float>, OwnLoop<double>> loops{};
};

/// As the one below, from functions that are all there.
Optimizer MakeOptimizer(Optimizer row, const OwnFunctions& functions);

/// Throws analysis::InvalidArgument, by the row's field, where it asks for what such an optimizer cannot
/// have: a name of the table, more than kMaxStates arrays, arrays beside tensors, backward weights of its
/// own, another optimizer for vectors. What the row's texts view has to outlive it, as literals do.
template <class Numbers, class Step>
Optimizer MakeOptimizer(Optimizer row, Numbers numbers, Step /*step*/) {
  return MakeOptimizer(std::move(row),
                       {numbers, {&LoopOver<Step, float>, &LoopOver<Step, double>}});
}

}  // namespace batchless::training

// Example
//   const Optimizer momentum = MakeOptimizer(
//       {.name = "momentum", .arrays = {"velocity"}},
//       [](const OptimizerSpec&, const UpdatePoint& point) -> OwnNumbers<double> {
//         return {point.momentum};
//       },
//       [](const auto& numbers, auto& w) {
//         w.states[0] = numbers[0] * w.states[0] + w.gradient;
//         w.u = w.states[0];
//         w.p = w.gradient;
//       });
//   OptimizerSpec spec{momentum, {}};
//   Validate(spec);
