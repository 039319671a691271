// What weights are read at, and one update of them, as rows of a state matrix. Of `width` weights the columns
// from `begin` on are w, v and w_{i-1}, or the numbers of the rule `linear`:
//
//   s_1' = s_2 - d_1 s_1 - n_0 eta g,  ...,  s_P' = -d_P s_1 - n_(P-1) eta g,   w = s_1
//
// which is w_{i+1} = -sum_k d_k w_{i+1-k} - eta sum_j n_j g_{i-j} with P numbers. Weights that were w_0
// before the start have s_k = -(d_k + ... + d_P) w_0 there, and s_1 = w_0.
//
// Source: this project; the observer's canonical form of N/D.
#pragma once

#include <Eigen/Core>

#include "batchless/analysis/rule.h"

namespace batchless::analysis {

/// Fills the rows from `begin` on: s_1 of `width` weights, then s_2 of them and so on. `gradient` has a row
/// of eta g over the state for each weight. The rule has to be valid.
inline void LinearUpdate(const RuleSpec& rule, const Eigen::MatrixXd& gradient, Eigen::Index begin,
                         Eigen::Index width, Eigen::MatrixXd& matrix) {
  const auto& d = rule.options.denominator;
  const auto& n = rule.options.numerator;
  const auto order = static_cast<Eigen::Index>(d.size()) - 1;
  // N is written from its own highest power, which is below z^{P-1} where it has fewer coefficients.
  const Eigen::Index missing = order - static_cast<Eigen::Index>(n.size());
  double left = 1;  // D(1) without the coefficients to come, the last of which makes it 0
  for (Eigen::Index k = 0; k < order; ++k) {
    const Eigen::Index row = begin + k * width;
    auto rows = matrix.middleRows(row, width);
    if (k >= missing) rows = -n[static_cast<std::size_t>(k - missing)] * gradient;
    const double coefficient = k + 1 < order ? d[static_cast<std::size_t>(k) + 1] : -left;
    left += coefficient;
    rows.middleCols(begin, width).diagonal().array() -= coefficient;
    if (k + 1 < order) rows.middleCols(row + width, width).diagonal().array() += 1;
  }
}

/// Fills the rows of w and v, or of the rule `linear`; `gradient` has a row of g over the state for each weight.
inline void OwnUpdate(const RuleSpec& rule, const Coefficients<double>& c, double momentum,
                      double eta, const Eigen::MatrixXd& gradient, Eigen::Index begin,
                      Eigen::Index width, Eigen::MatrixXd& matrix) {
  if (rule.is_linear()) {
    LinearUpdate(rule, eta * gradient, begin, width, matrix);
    return;
  }
  const Eigen::MatrixXd identity = Eigen::MatrixXd::Identity(width, width);
  Eigen::MatrixXd velocity = gradient;
  velocity.middleCols(begin + width, width) += momentum * identity;
  Eigen::MatrixXd weight = -eta * (c.a * velocity + c.b * gradient);
  weight.middleCols(begin, width) += identity;
  matrix.middleRows(begin, width) = weight;
  matrix.middleRows(begin + width, width) = velocity;
}

/// w_hat_i over a state of `dimension` numbers.
inline Eigen::MatrixXd PredictionRows(const RuleSpec& rule, double horizon, double eta,
                                      Eigen::Index begin, Eigen::Index width,
                                      Eigen::Index dimension) {
  const Eigen::MatrixXd identity = Eigen::MatrixXd::Identity(width, width);
  Eigen::MatrixXd rows = Eigen::MatrixXd::Zero(width, dimension);
  rows.middleCols(begin, width) = identity;
  if (rule.rule.prediction == Prediction::kVelocity) {
    rows.middleCols(begin + width, width) -= eta * horizon * identity;
  } else if (rule.rule.prediction == Prediction::kWeight) {
    rows.middleCols(begin, width) += horizon * identity;
    rows.middleCols(begin + 2 * width, width) -= horizon * identity;
  }
  return rows;
}

}  // namespace batchless::analysis
