#include "weights_file.h"

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>

#include "batchless/analysis/argument.h"
#include "npz.h"
#include "usage_error.h"

namespace batchless {

void WriteWeights(OutputFile& file, std::span<const training::NamedTensor> tensors,
                  training::Precision precision) {
  try {
    NpzWriter archive(file.temporary_path());
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
  } catch (const NpzError& error) {
    throw std::runtime_error(fmt::format("{}: {}", file.path(), error.what()));
  }
  file.Commit();
}

std::vector<training::NamedTensor> ReadTensors(std::string_view name, const std::string& path) {
  constexpr std::size_t kMaxValues = std::size_t(1) << 31;
  std::vector<training::NamedTensor> tensors;
  try {
    for (const std::string& tensor : NpzNames(path)) {
      try {
        NpzArray array = ReadNpz(path, tensor, kMaxValues);
        tensors.push_back(
            {tensor, {array.shape.begin(), array.shape.end()}, std::move(array.values)});
      } catch (const NpzError& error) {
        throw NpzError(fmt::format("{}: {}", tensor, error.what()));
      }
    }
  } catch (const NpzError& error) {
    throw UsageError(name, path, fmt::format("an .npz archive of weights ({})", error.what()));
  }
  return tensors;
}

void ReadWeights(std::string_view name, const std::string& path, training::Trainer& trainer) {
  const std::vector<training::NamedTensor> tensors = ReadTensors(name, path);
  try {
    trainer.ImportWeights(tensors);
  } catch (const analysis::InvalidArgument& error) {
    throw UsageError::FromLine(fmt::format("{}: {}: {}", name, path, error.what()));
  }
}

}  // namespace batchless
