// Tensors by their names, in PyTorch's order, as the blocks of stages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/training/stage.h"
#include "batchless/training/trainer.h"

namespace batchless::training {

// "(3, 2)".
std::string ShapeText(const std::vector<std::int64_t>& shape);

// Into the tensor's place in `block`. Throws analysis::InvalidArgument naming the tensor for another shape and
// for numbers that are not finite.
template <class Real>
void PackNamed(const ParameterTensor& tensor, const NamedTensor& given, Real* block);

// One stage's, in its order.
template <class Real>
struct StageBlocks {
  AlignedBuffer<Real> parameters;
  AlignedBuffer<Real> state;
};

// By stage of the network, those of these layouts. Throws analysis::InvalidArgument also naming a tensor that
// is missing or unknown; what PyTorch's modules keep beside them is passed over.
template <class Real>
std::vector<StageBlocks<Real>> PackStages(const hwmodel::Network& network,
                                          std::span<const StageLayout* const> stages,
                                          std::span<const NamedTensor> tensors);

}  // namespace batchless::training
