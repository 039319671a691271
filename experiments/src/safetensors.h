// The format of Hugging Face's safetensors: eight bytes with the length of a header, the header, the
// values. The header is JSON, {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...},
// padded with spaces so that the values begin at a multiple of eight; offsets count from there.
//
// What is read has to be complete: every byte of the values belongs to one tensor.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "batchless/training/trainer.h"

namespace batchless {

// Replaces the file's content: all tensors in 32 bits or, with kDouble, in 64. Both throw ArrayFileError.
void WriteSafetensors(const std::string& path, std::span<const training::NamedTensor> tensors,
                      training::Precision precision);

// The tensors in the order of their values; floating-point numbers of 16 bits (F16, BF16), 32 and 64,
// integers and truth values. One of more than `max_values` is refused before it is read.
std::vector<training::NamedTensor> ReadSafetensors(const std::string& path, std::size_t max_values);

}  // namespace batchless
