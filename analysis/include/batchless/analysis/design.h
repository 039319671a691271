// The best linear rule of a given order under a delay: all coefficients free.
//
//   w(z) = -C(z) g(z),  C = N/D,  largest curvature 1, least 1/K
//   minimise rho over N, D:  z^delay D(z) + x N(z) != 0 for |z| >= rho and every x in [1/K, 1]
//
//   cost      ln(half-life) + S ln(loss): S = 0 is the fastest rule, a larger S trades speed for a
//             smaller loss where gradients are noisy. A rule slowed by e has a half-life of 1/e and a
//             loss of e: for S >= 1 the cost has no minimum, and near 1 a flat one, so S ends at 0.9
//   loss      mean over ln x of x V(x) / 2, V the stationary variance of noise.h: what white noise of
//             variance 1 in the gradients adds to the objective
//
//   order P   2: two leads, C = b (1 + beta u)(1 + gamma u) / (z u (u + mu)), u = z - 1
//             P > 2: D of degree P with a root at 1, N of degree P - 1
//
// Search. Minimise t cost + phi(N, D, s) for growing t, s = ln rho, with the barrier
//
//   phi = -sum over curvatures x and steps k of log(1 - k^2),
//
// k the reflection coefficients of p(e^s zeta) by the step-down recursion of Schur and Cohn: all below
// 1 in size exactly where every root is inside |z| = rho, and smooth where roots meet, which a root is
// not. Newton's method with gradients by the recursion backwards; along eigenvectors of the Hessian the
// sizes of its eigenvalues count, since saddles abound. Every step stays where all roots are inside.
// Starts are the best rule of a lower order with a pole and a zero added that cancel, for four first
// values of t, which lead to optima of their own. The list of starts and the number of operations are
// fixed, so the result is the same in every run. The problem is not convex: what is found is a local
// optimum, an upper bound of the best half-life, certified over the whole spectrum.
//
// Source: this project; the step-down recursion is Schur's and Cohn's.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "batchless/analysis/spectral_radius.h"

namespace batchless::analysis {

inline constexpr int kMinDesignOrder = 2;
inline constexpr int kMaxDesignOrder = 8;
inline constexpr Delay kMaxDesignDelay = 128;
inline constexpr double kMaxDesignNoise = 0.9;
inline constexpr std::string_view kWhyMaxDesignNoise =
    "; from 1 on ever slower rules cost ever less, and none is the best";
inline constexpr double kMinDesignCondition = 1.5;
inline constexpr double kMaxDesignCondition = 1e6;

struct DesignOptions {
  Delay delay = 0;          ///< at most kMaxDesignDelay
  double condition = 1000;  ///< kMinDesignCondition to kMaxDesignCondition
  int order = 3;            ///< kMinDesignOrder to kMaxDesignOrder
  double noise = 0;         ///< S, 0 to kMaxDesignNoise
};

/// Throws InvalidArgument with the name of the first member that is out of range.
void Validate(const DesignOptions& options);

struct Design {
  /// N and D, highest power first, for a learning rate and a largest curvature of 1.
  std::vector<double> numerator, denominator;
  /// Over all curvatures of [1/K, 1], none left out.
  SpectralRadius worst;
  double half_life_updates = 0;
  /// |half_life_updates - exact| for these coefficients is at most this.
  double half_life_error_updates = 0;
  /// MeanStationaryLoss of these coefficients.
  double stationary_loss = 0;
  /// Evaluations of barrier and loss, which are what the search takes time for.
  std::size_t evaluations = 0;

  /// N(1) / D'(1): what a constant gradient moves the weights by at each update, in learning rates;
  /// 1 / (1 - m) for SGDM.
  double drift() const;
};

/// Mean over 33 curvatures, evenly spaced in their logarithm from 1/K to 1, of x V(x) / 2 for a rule
/// N/D that is stable at all of them, highest powers first.
double MeanStationaryLoss(std::span<const double> numerator, std::span<const double> denominator,
                          Delay delay, double condition);

/// Throws InvalidArgument.
Design DesignRule(const DesignOptions& options);

}  // namespace batchless::analysis

// Example
//   const Design design = DesignRule({.delay = 1, .condition = 10, .order = 2});
//   CHECK(design.denominator.size() == 4);  // z u (u + mu)
//   CHECK(design.worst.radius < 1);
//   CHECK(design.half_life_updates == Approx(-std::log(2) / std::log(design.worst.radius)));
