// Networks as files: TOML that says stage after stage which layers it has and which values it reads.
//
//   name = "tiny"            letters, digits, '.', '_' and '-'
//   input = [3, 32, 32]      channels, height, width
//   classes = 10
//
//   [[stage]]
//   name = "conv1"
//   layers = [{ kind = "convolution", channels = 16, kernel = 3, padding = 1 }]
//
//   [[stage]]
//   name = "norm1"
//   layers = [{ kind = "group_norm", groups = 8 }, "relu"]
//
//   inputs    values that the stage reads; without it the result of the stage before, "input" at first
//   outputs   names of what it makes: its result, which has the stage's name unless it is given here,
//             and after it, where a later stage reads that too, the input of its last layer
//   layers    kinds of hwmodel/layer.h, in order, each with its fields: a text where none is given.
//             Several in one stage: a normalisation and a ReLU, these and a convolution, or a ReLU and a
//             convolution
//   name      of a layer's parameters: the stage's, and "STAGE.KIND" with one that comes before others
//             that have some, unless it is given
#pragma once

#include <string>
#include <string_view>

#include "batchless/hwmodel/network.h"

namespace batchless {

/// Whether it is meant to be a file, PATH.toml or PATH.onnx (onnx_file.h), and not the name of a network.
bool IsNetworkFile(std::string_view name);

/// Throws UsageError in one line with the argument, the file's line, and what is accepted there.
hwmodel::Network ReadNetworkFile(const std::string& argument, const std::string& path);

/// The network as such a file. Reads back as the same network.
std::string NetworkText(const hwmodel::Network& network);

}  // namespace batchless
