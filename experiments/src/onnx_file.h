// Networks as ONNX models, written and read: what viewers show and frameworks run.
//
//   layer                  operators
//   convolution            Conv, square and not dilated, one group
//   linear                 Flatten, Gemm with transB and a bias
//   group_norm             GroupNormalization of operator set 21; read, too, as torch.onnx writes it before
//                          (Reshape, InstanceNormalization, Reshape, Mul, Add)
//   batch_norm             BatchNormalization
//   local_response_norm    LRN of an odd size; even windows lie otherwise there
//   relu, gelu             Relu, Gelu by tanh
//   squared_relu           Relu, Mul of it by itself
//   max_pool, average_pool MaxPool, GlobalAveragePool
//   dropout                Dropout
//   sum                    Add; with a stride MaxPool of one pixel and, for more channels, Pad before it
//   embedding, position    Gather, Add
//   layer_norm, rms_norm   LayerNormalization, RMSNormalization of operator set 23
//   token_linear           Transpose of its weight, MatMul, Add
//   tied_linear            the same by the weight of the embedding's Gather
//   attention              Split, Attention of operator set 23, causal
//
// The loss is not written, and added where a model is read; its input is the model's output, which may
// have a Softmax behind it. The text of a node (doc_string) names its stage; a node without one is a stage
// of its own. Parameters have PyTorch's names, here and there. Without values they are inputs of the
// graph; neither values nor what they start with (standard_deviation) are read.
//
// Source: ONNX operator sets 17 to 23 (onnx.ai).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/network.h"
#include "batchless/training/trainer.h"

namespace batchless {

/// Whether it is meant to be a model, PATH.onnx.
bool IsOnnxFile(std::string_view name);

/// Throws UsageError in one line with the argument, the file, the node and what is accepted there.
hwmodel::Network ReadOnnxNetwork(const std::string& argument, const std::string& path);

/// A layer's parameters in the order of its operator's inputs: what its name goes on with, and the shape.
struct OnnxParameter {
  std::string_view suffix;
  std::vector<std::int64_t> shape;
};
std::vector<OnnxParameter> OnnxParameters(const hwmodel::Layer& layer);

/// Throws analysis::InvalidArgument naming the stage whose layer acts on channels here and whose operator acts on
/// another dimension: ONNX has tokens as (N, T, d), images as (N, C, H, W).
void RefuseOtherDimensions(const hwmodel::Network& network);

/// The model's bytes, with the values of its parameters where weights are given. Throws
/// analysis::InvalidArgument naming a tensor that is missing, has another shape or is none of the
/// network's, and for a layer that no operator is there.
std::string OnnxModel(
    const hwmodel::Network& network,
    const std::optional<std::span<const training::NamedTensor>>& weights = std::nullopt);

}  // namespace batchless
