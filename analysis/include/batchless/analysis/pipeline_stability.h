// Stability of a pipeline on a quadratic whose blocks have delays of their own.
//
//   f = w' H w / 2, w in S blocks (one per stage);  g_s^(i) = sum_k H_{sk} w_hat_k^(i - D_k):
//   the delay belongs to the column, because stage k's forward weights are what is late.
//
// Every block runs the same rule with its own D_s in the coefficients. The spectral radius is that
// of the state matrix.
#pragma once

#include <Eigen/Core>
#include <string>
#include <vector>

#include "batchless/analysis/rule.h"

namespace batchless::analysis {

/// Largest state matrix that is solved; a larger one is refused with its size.
inline constexpr std::size_t kMaxStateDimension = 3000;

struct PipelineOptions {
  RuleSpec rule;
  double momentum = 0;
  double learning_rate = 1;
  Eigen::MatrixXd hessian;           ///< (n, n) symmetric
  std::vector<Delay> delays;         ///< one per stage
  std::vector<std::size_t> widths;   ///< weights per stage; sums to n

  bool IsValid(std::string* why) const;
};

struct PipelineSummary {
  double spectral_radius = 0;
  std::size_t state_dimension = 0;
};

/// One update as a matrix on (w_i, w_{i-1}, ..., v_i, v_{i-1}, ...).
Eigen::MatrixXd StateMatrix(const PipelineOptions& options);

PipelineSummary PipelineStability(const PipelineOptions& options);

}  // namespace batchless::analysis
