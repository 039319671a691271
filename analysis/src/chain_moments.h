// The second moments of a rule under a Markov chain of delays, from the covariances of the core with the state
// alone (delay_operator.h has both). Older signals' covariances are those that they had when one of them was
// new, but for the regime since. Of k and k + j updates back, Pi the chain's transition, where moments grow by
// r an update:
//
//   r H_{k+1, k+1+j} = Pi' H_{k, k+j},   so that   H_{k, k+j} = r^-k (Pi')^k H_{0, j}
//
// What is left is linear but for r. Where r is above the radius^2, and nowhere else, moments that renew
// themselves under a noise that grows by r are covariances; their size has a pole at the radius^2.
#pragma once

#include <Eigen/Core>
#include <optional>

#include "delay_operator.h"

namespace batchless::analysis {

// 1 / the size of those moments at r, negative where they are no covariances: it rises through 0 at the
// radius^2, mostly along a line. `moments` become those at r; what they were at an r nearby, if not empty, is
// where their search starts.
double ChainMargin(const DelaySystem& system, const Regimes& regimes, double growth,
                   Eigen::VectorXd& moments);

// E[c_0^2] under unit noise in the gradient; nothing where the mean square is not stable.
std::optional<double> ChainVariance(const DelaySystem& system, const Regimes& regimes);

}  // namespace batchless::analysis
