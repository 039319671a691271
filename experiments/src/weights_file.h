// Weights as a .npz archive with PyTorch's names, shapes and order: `torch.from_numpy` of each array
// is a state_dict.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/training/trainer.h"
#include "output_file.h"

namespace batchless {

// In 32 bits where that is the trainer's precision, so that reading them back loses nothing. Throws
// std::runtime_error.
void WriteWeights(OutputFile& file, std::span<const training::NamedTensor> tensors,
                  training::Precision precision);

// The tensors of the file; as below.
std::vector<training::NamedTensor> ReadTensors(std::string_view name, const std::string& path);

// Replaces the trainer's weights by those of the file; `name` is what errors call it. Throws
// UsageError in one line that names file and tensor.
void ReadWeights(std::string_view name, const std::string& path, training::Trainer& trainer);

}  // namespace batchless
