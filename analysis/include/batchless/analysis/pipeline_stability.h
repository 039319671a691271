// Stability of a pipeline on a quadratic whose blocks have delays of their own.
//
//   f = w' H w / 2, w in S blocks (one per stage);  g_s^(i) = sum_k H_{sk} w_hat_k^(i - D_k):
//   the delay belongs to the column, because stage k's forward weights are what is late.
//
//   v_s' = m v_s + g_s;   w_s' = w_s - eta (a_s v_s' + b_s g_s)
//   w_hat_s = w_s,  w_s - eta T_s v_s  or  w_s + T_s (w_s - w_s,previous)
//
// Every block runs the same rule with its own D_s in the coefficients a_s, b_s, T_s. The rule `spectrain`
// is velocity form with the T_s that its schedule says; its backwards' predictions do not matter here,
// where gradients are linear in the forward's weights alone. The rule `linear` is the same N/D in all stages,
// and its momentum is not read; D(z) takes the place of (z - 1)(z - m) below, and psi = N z^-D.
//
// The state's dominant eigenvalue z, by what is cheapest for a part of the Hessian that no entry joins
// to the rest:
//
//   one delay      scalar problems, one for each eigenvalue of the part: certified (spectral_radius.h)
//   small state    all eigenvalues of the state matrix
//   otherwise      the nonlinear eigenvalue problem of the weights alone,
//                  M(z) w = 0,  M(z) = (z - 1)(z - m) I + eta H diag(psi_k(z)),
//                  psi = lead f z^-D,  lead = (a + b) z - b m,
//                  f = 1,  1 + T (z - 1)/lead (velocity form)  or  1 + T (1 - 1/z) (weight form)
//
// by Newton's method from first-order roots around points of the upper half circle wherever the loop has
// a gain of about 1. That every root is found is not proven: by a count of the roots outside (the test's,
// by the principle of the argument), 70 stages far beyond the edge of stability are known where it returns
// one a little below the dominant one. Near a multiple root the radius is good to about the square root of a
// rounding only.
//
// Source: the schedule and the rules, Kosson et al., arXiv 2003.11666 (recalled); the state matrix
// is this project's.
#pragma once

#include <Eigen/Core>
#include <limits>
#include <vector>

#include "batchless/analysis/rule.h"

namespace batchless::analysis {

/// Largest state that is written down as a matrix, and largest whose eigenvalues are all computed.
inline constexpr std::size_t kMaxStateDimension = 3000;
inline constexpr std::size_t kDenseStateDimension = 250;
/// Most weights in all.
inline constexpr std::size_t kMaxPipelineWeights = 1000;
/// Most that depend on each other under several delays: a radius takes seconds, a search some hundred.
inline constexpr std::size_t kMaxCoupledWeights = 200;
inline constexpr std::size_t kMaxCoupledWeightsOfOptimum = 70;

struct PipelineOptions {
  RuleSpec rule;
  double momentum = 0;
  double learning_rate = 1;         ///< eta, in [0, kMaxRate]
  Eigen::MatrixXd hessian;          ///< (n, n) symmetric
  std::vector<Delay> delays;        ///< one per stage
  std::vector<std::size_t> widths;  ///< weights per stage, each at least 1; sums to n
  /// T of each stage's forward, updates, with the rules spectrain and xpipe; else empty.
  std::vector<double> horizons = {};

  /// The rule with what is its own at a stage.
  RuleSpec RuleOf(std::size_t stage) const;
};

/// Throws InvalidArgument with the name of the first member that is out of range.
void Validate(const PipelineOptions& options);

/// Eigenvalues of a Hessian, rising. Throws InvalidArgument where it is no symmetric matrix.
Eigen::VectorXd HessianEigenvalues(const Eigen::MatrixXd& hessian);

struct PipelineSummary {
  double spectral_radius = 0;
  std::size_t state_dimension = 0;
};

/// Rows of the state matrix: sum over stages of width * (2 + D, and 1 more for the weight form; the degree of
/// D(z) in place of 2 for the rule `linear`).
std::size_t StateDimension(const PipelineOptions& options);

/// One update as a matrix. The state holds the stages one after another, each as
///   w_i, v_i, (weight form only) w_{i-1}, w_hat_{i-1}, w_hat_{i-2}, ..., w_hat_{i-D}
/// or s_1 to s_P of rule_state.h before the predictions,
/// with `width` numbers to each entry. Remembering predictions, not weights and velocities, is what
/// keeps it small. A start at w_0 has v_0 = 0 and w_0 in every other place. Throws InvalidArgument,
/// also above kMaxStateDimension.
Eigen::MatrixXd StateMatrix(const PipelineOptions& options);

/// Above kDenseStateDimension coupled roots come from a search, which at times overlooks the largest: with tens
/// of weights, where half-lives jump from one point to the next. Throws InvalidArgument where the options are
/// not valid or more than kMaxCoupledWeights weights are coupled, and std::runtime_error where the eigenvalue
/// iteration does not converge.
PipelineSummary PipelineStability(const PipelineOptions& options);

/// All but the radius are NaN where nothing that was tried is stable.
struct PipelineOptimum {
  double half_life_updates = std::numeric_limits<double>::quiet_NaN();
  double momentum = std::numeric_limits<double>::quiet_NaN();
  double learning_rate = std::numeric_limits<double>::quiet_NaN();
  double spectral_radius = 0;  ///< the least that was found
};

/// The least spectral radius over momentum and learning rate: the simplex method of Nelder and Mead in
/// ln(1 - m) and ln(eta), from the best values for the mean of the delays and for the largest, each
/// under one delay for all, on the roots known so far; then steps by the slopes of the largest of all. A local
/// optimum: to about 0.1 % in half-life against other starts, 1 % with many coupled weights. Momentum
/// and learning rate of `options` are not read. Throws as PipelineStability does, above
/// kMaxCoupledWeightsOfOptimum, and for the rule `linear`.
PipelineOptimum FindPipelineOptimum(PipelineOptions options);

}  // namespace batchless::analysis

// Example
//   PipelineOptions options;
//   options.rule = {FindRule("sgdm"), {}};
//   options.learning_rate = 0.1;
//   options.hessian = Eigen::MatrixXd::Identity(2, 2);  // two weights that do not meet
//   options.delays = {2, 0};
//   options.widths = {1, 1};
//   const double slowest = ComputeSpectralRadius(options.rule, 0, 2, 0.1).radius;
//   CHECK(PipelineStability(options).spectral_radius == Approx(std::max(slowest, 0.9)));
