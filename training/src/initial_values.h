// The values that parameters start with.
#pragma once

#include <cstdint>
#include <vector>

#include "batchless/training/parameter_tensor.h"

namespace batchless::training {

// In PyTorch's order. `number`: the tensor's place in the network, which with the seed decides its
// random values.
template <class Real>
std::vector<Real> InitialValues(const ParameterTensor& tensor, std::uint64_t seed,
                                std::uint64_t number);

}  // namespace batchless::training
