// NumPy's .npz: a zip archive with one .npy member for each array.
//
// Written without compression, as numpy.savez does, at once into the file and with 64-bit sizes
// where a member needs them. Read with or without compression, up to the archive's own checksums.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "array_file.h"

namespace batchless {

class NpzWriter {
 public:
  // Replaces the file's content.
  explicit NpzWriter(const std::string& path);
  ~NpzWriter();
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;

  // `values` row-major with the product of `shape` as their number.
  void Add(const std::string& name, std::span<const double> values,
           std::span<const std::size_t> shape);
  void Add(const std::string& name, std::span<const float> values,
           std::span<const std::size_t> shape);
  // Finishes the archive; a file that was not closed is not one.
  void Close();

 private:
  void AddBytes(const std::string& name, std::string_view type, std::span<const std::byte> bytes,
                std::span<const std::size_t> shape);

  void* archive_ = nullptr;
};

struct NpzArray {
  std::vector<std::size_t> shape;
  std::vector<double> values;  // row-major
};

// The array `name`, of 32- or 64-bit floating-point numbers or integers, converted to double.
// An array of more than `max_values` is refused before it is read. Throws ArrayFileError.
NpzArray ReadNpz(const std::string& path, const std::string& name, std::size_t max_values);

// The one array of a .npy file, as above; of integers of any size.
NpzArray ReadNpy(const std::string& path, std::size_t max_values);

// Names of all arrays, in the order of the file. Throws ArrayFileError.
std::vector<std::string> NpzNames(const std::string& path);

}  // namespace batchless
