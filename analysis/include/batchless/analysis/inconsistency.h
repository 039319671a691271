// Stability where a backward reads other weights than its forward did.
//
//   g^(i) = F w_hat^(i - D) + B w_bar^(i - d),   F + B = Hessian,   all of size (n, n) or (n)
//
//   F, B   parts of the linearised gradient that come from the weights of forward and backward
//   D, d   delays of forward and backward, one per weight (a delay belongs to a column)
//   w_hat  predicted weights of the rule; w_bar  weights that the backward reads:
//     current    the weights as they are, w
//     stashed    what the forward read, w_hat with the delay D (weight stashing)
//     corrected  w - (D - d) delta, delta' = gamma delta + (1 - gamma)(w' - w),
//                gamma = kCorrectionDecay^{1/(D - d)}  (PipeMare's T2; decay recalled)
//
// Two models. The discrepancy model has one weight, F = lambda + Delta, B = -Delta:
//   p(z) = z^{tau_f} (z - 1) + eta (lambda + Delta) - eta Delta z^{tau_f - tau_b}
// without momentum. The second is a network: two linear layers W2 W1 of one hidden unit learn
// diag(1, r) with white inputs under pipelined backpropagation. At the minimum W2 W1 = diag(1, 0)
// what is left over, r, lets an error of W2 in the backward reach W1. Linearised there, in the
// direction b of W1 and d of W2 that belong to the singular value r,
//   g_b = b_fwd - r d_bwd,   g_d = d_fwd - r b_fwd
// (eigenvalues 1 - r and 1 + r; the other direction has no discrepancy). The layers are neighbouring
// stages: delays D and D - 2.
//
// Sources: Yang et al., PipeMare, arXiv 1910.05124 (discrepancy model, T2; recalled); the
// network's versions, Kosson et al., arXiv 2003.11666 (recalled); its linearisation is this project's.
#pragma once

#include <Eigen/Core>
#include <vector>

#include "batchless/analysis/rule.h"

namespace batchless::analysis {

inline constexpr double kCorrectionDecay = 0.135;
/// Longest delay of either pass: eigenvalues of a state matrix are computed a hundred times.
inline constexpr Delay kMaxInconsistentDelay = 200;
/// Largest size of Delta / lambda.
inline constexpr double kMaxDiscrepancy = 100;

enum class BackwardWeights { kCurrent, kStashed, kCorrected };

struct InconsistentModel {
  Eigen::MatrixXd forward;             ///< F
  Eigen::MatrixXd backward;            ///< B
  std::vector<Delay> forward_delays;   ///< D
  std::vector<Delay> backward_delays;  ///< d
};

/// lambda = 1. Throws InvalidArgument for delays that are out of range or d > D, and a discrepancy
/// above kMaxDiscrepancy in size.
InconsistentModel DiscrepancyModel(double discrepancy, Delay forward_delay, Delay backward_delay);

/// r in [0, 1), D even and at least 2. Throws InvalidArgument.
InconsistentModel FactorisationModel(double ratio, Delay delay);

/// One update as a matrix, of dimension n (4 + D + d) summed over the weights. Of each weight the
/// state has w, v, w before, delta, then the last D values of w_hat and d of w_bar.
Eigen::MatrixXd InconsistentStateMatrix(const InconsistentModel& model, const RuleSpec& rule,
                                        BackwardWeights backward, double momentum,
                                        double learning_rate);

/// Largest modulus of its eigenvalues; near a multiple one good to the root of a rounding only.
/// Throws InvalidArgument, and std::runtime_error where the iteration does not converge.
double InconsistentSpectralRadius(const InconsistentModel& model, const RuleSpec& rule,
                                  BackwardWeights backward, double momentum, double learning_rate);

/// sup { eta : every rate from kFirstRate up to eta is stable }, to 1e-6, infinity above kLastRate. Where
/// kFirstRate itself is not stable, from a tenth, a hundredth or a thousandth of it; 0 where none of these
/// is stable.
double InconsistentCriticalRate(const InconsistentModel& model, const RuleSpec& rule,
                                BackwardWeights backward, double momentum);
inline constexpr double kFirstRate = 1e-4;
inline constexpr double kLeastRate = 1e-7;
inline constexpr double kLastRate = 100;

}  // namespace batchless::analysis

// Example
//   // Without a discrepancy it is SGD under a delay: stable below 2 sin(pi / (4 D + 2)).
//   const RuleSpec sgdm{FindRule("sgdm"), {}};
//   const auto critical = [&](double discrepancy) {
//     return InconsistentCriticalRate(DiscrepancyModel(discrepancy, /*forward_delay=*/4, 0), sgdm,
//                                     BackwardWeights::kCurrent, /*momentum=*/0);
//   };
//   CHECK(critical(0) == Approx(2 * std::sin(std::numbers::pi / 18)).epsilon(1e-5));
//   CHECK(critical(1) < critical(0));
