// How convolutions order their weights.
#pragma once

#include "batchless/training/backend.h"

namespace batchless::training {

// OIhwBiBo, which is OIhw in blocks of one channel; where the output is in blocks and the input is not, all of
// its channels are one of Bi: OhwiBo.
inline ParameterTensor BlockedWeights(const ConvolutionShape& shape) {
  const hwmodel::Layer& layer = shape.layer;
  const std::int64_t out_block = shape.output_block;
  const std::int64_t in = RoundUp(layer.input.channels, shape.input_block);
  const std::int64_t in_block = shape.input_block < out_block ? in : shape.input_block;
  const std::int64_t k = layer.kernel;
  ParameterTensor weight;
  weight.shape = {layer.output.channels, layer.input.channels, k, k};
  weight.sizes = {layer.output.channels, layer.input.channels, k, k};
  weight.stored_size = RoundUp(layer.output.channels, out_block) * in * k * k;
  weight.order = {.out_block = out_block,
                  .in_block = in_block,
                  .out_outer = out_block * in * k * k,
                  .in_outer = k * k * in_block * out_block,
                  .height = k * in_block * out_block,
                  .width = in_block * out_block,
                  .in_inner = out_block,
                  .out_inner = 1};
  return weight;
}

}  // namespace batchless::training
