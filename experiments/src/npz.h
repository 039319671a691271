// NumPy's .npz: a zip archive with one .npy member for each array.
//
// Written without compression, as numpy.savez does, at once into the file and with 64-bit sizes
// where a member needs them. Read with or without compression, up to the archive's own checksums.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "array_file.h"
#include "batchless/training/trainer.h"

namespace batchless {

// Replaces the file's content: all arrays in 32 bits or, with kDouble, in 64. All throw ArrayFileError.
void WriteNpz(const std::string& path, std::span<const training::NamedTensor> arrays,
              training::Precision precision);

// All arrays in the order of the file, or the one called `name`, of 32- or 64-bit floating-point numbers or
// integers, converted to double. One of more than `max_values` is refused before it is read.
std::vector<training::NamedTensor> ReadNpz(const std::string& path, std::size_t max_values);
training::NamedTensor ReadNpz(const std::string& path, const std::string& name,
                              std::size_t max_values);

// The one array of a .npy file, as above, without a name; of integers of any size.
training::NamedTensor ReadNpy(const std::string& path, std::size_t max_values);

}  // namespace batchless
