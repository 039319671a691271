// How the vector backend's convolutions order their weights.
#pragma once

#include "batchless/training/backend.h"

namespace batchless::training {

// OIhwBiBo, and OhwiBo where the input is not in blocks.
inline ParameterTensor BlockedWeights(const ConvolutionShape& shape) {
  const hwmodel::Layer& layer = shape.layer;
  const std::int64_t block = shape.output_block;
  const std::int64_t in = RoundUp(layer.input.channels, shape.input_block);
  const std::int64_t k = layer.kernel;
  ParameterTensor weight;
  weight.shape = {layer.output.channels, layer.input.channels, k, k};
  weight.sizes = {layer.output.channels, layer.input.channels, k, k};
  weight.stored_size = RoundUp(layer.output.channels, block) * in * k * k;
  weight.order.out_block = block;
  weight.order.out_outer = block * in * k * k;
  weight.order.out_inner = 1;
  if (shape.input_block == 1) {
    weight.order.height = k * in * block;
    weight.order.width = in * block;
    weight.order.in_outer = block;
  } else {
    weight.order.in_block = block;
    weight.order.in_outer = k * k * block * block;
    weight.order.height = k * block * block;
    weight.order.width = block * block;
    weight.order.in_inner = block;
  }
  return weight;
}

}  // namespace batchless::training
