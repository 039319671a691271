#include "weights_file.h"

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>
#include <string_view>

#include "npz.h"
#include "safetensors.h"
#include "usage_error.h"

namespace batchless {
namespace {

constexpr std::string_view kSafetensors = kWeightsExtensions[1];
constexpr std::size_t kMaxValues = std::size_t(1) << 31;

void WriteArchive(const std::string& path, std::span<const training::NamedTensor> tensors,
                  training::Precision precision) {
  NpzWriter archive(path);
  for (const training::NamedTensor& tensor : tensors) {
    const std::vector<std::size_t> shape(tensor.shape.begin(), tensor.shape.end());
    if (precision == training::Precision::kDouble) {
      archive.Add(tensor.name, tensor.values, shape);
    } else {
      archive.Add(tensor.name, std::vector<float>(tensor.values.begin(), tensor.values.end()),
                  shape);
    }
  }
  archive.Close();
}

std::vector<training::NamedTensor> ReadArchive(const std::string& path) {
  std::vector<training::NamedTensor> tensors;
  for (const std::string& tensor : NpzNames(path)) {
    try {
      NpzArray array = ReadNpz(path, tensor, kMaxValues);
      tensors.push_back(
          {tensor, {array.shape.begin(), array.shape.end()}, std::move(array.values)});
    } catch (const ArrayFileError& error) {
      throw ArrayFileError(fmt::format("{}: {}", tensor, error.what()));
    }
  }
  return tensors;
}

}  // namespace

void WriteWeights(OutputFile& file, std::span<const training::NamedTensor> tensors,
                  training::Precision precision) {
  try {
    if (file.extension() == kSafetensors) {
      WriteSafetensors(file.temporary_path(), tensors, precision);
    } else {
      WriteArchive(file.temporary_path(), tensors, precision);
    }
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("{}: {}", file.path(), error.what()));
  }
  file.Commit();
}

std::vector<training::NamedTensor> ReadTensors(std::string_view name, const std::string& path) {
  try {
    return path.ends_with(kSafetensors) ? ReadSafetensors(path, kMaxValues) : ReadArchive(path);
  } catch (const std::runtime_error& error) {
    throw UsageError(name, path, fmt::format("{} ({})", kWeightsFile, error.what()));
  }
}

void ReadWeights(std::string_view name, const std::string& path, training::Trainer& trainer) {
  const std::vector<training::NamedTensor> tensors = ReadTensors(name, path);
  Within(fmt::format("{}: {}", name, path), [&] { trainer.ImportWeights(tensors); });
}

}  // namespace batchless
