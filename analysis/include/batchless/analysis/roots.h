// All roots of p(z) for small problems: eigenvalues of the companion matrix (Eigen), then polished.
#pragma once

#include <complex>
#include <vector>

#include "batchless/analysis/characteristic.h"

namespace batchless::analysis {

/// Largest delay for which AllRoots answers: the companion matrix costs D^3 operations.
inline constexpr Delay kMaxRootsDelay = 1000;

/// All roots that are not divided-out zeros, by falling modulus. Throws InvalidArgument.
std::vector<std::complex<double>> AllRoots(const RuleSpec& spec, double momentum, Delay delay,
                                           double rate);

}  // namespace batchless::analysis
