// Weights with PyTorch's names, shapes and order: a .npz archive, of which `torch.from_numpy` of each
// array is a state_dict, or, where the name ends so, .safetensors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/training/trainer.h"
#include "output_file.h"

namespace batchless {

constexpr std::string_view kWeightsExtensions = ".npz,.safetensors";
// What errors call such a file.
constexpr std::string_view kWeightsFile = "weights, .npz or .safetensors";

// In 32 bits where that is the trainer's precision, so that reading them back loses nothing. Throws
// std::runtime_error.
void WriteTensors(OutputFile& file, std::span<const training::NamedTensor> tensors,
                  training::Precision precision);

// The tensors of the file; as below.
std::vector<training::NamedTensor> ReadTensors(std::string_view name, const std::string& path);

// Replaces the trainer's weights by those of the file; `name` is what errors call it. Throws
// UsageError in one line that names file and tensor.
void ReadWeights(std::string_view name, const std::string& path, training::Trainer& trainer);

}  // namespace batchless
