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

constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::size_t kMaxValues = std::size_t(1) << 31;

}  // namespace

void WriteTensors(OutputFile& file, std::span<const training::NamedTensor> tensors,
                  training::Precision precision) {
  try {
    const auto write = file.extension() == kSafetensors ? WriteSafetensors : WriteNpz;
    write(file.temporary_path(), tensors, precision);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("{}: {}", file.path(), error.what()));
  }
  file.Commit();
}

std::vector<training::NamedTensor> ReadTensors(std::string_view name, const std::string& path) {
  try {
    return path.ends_with(kSafetensors) ? ReadSafetensors(path, kMaxValues)
                                        : ReadNpz(path, kMaxValues);
  } catch (const std::runtime_error& error) {
    throw UsageError(name, path, fmt::format("{} ({})", kWeightsFile, error.what()));
  }
}

void ReadWeights(std::string_view name, const std::string& path, training::Trainer& trainer) {
  const std::vector<training::NamedTensor> tensors = ReadTensors(name, path);
  Within(fmt::format("{}: {}", name, path), [&] { trainer.ImportWeights(tensors); });
}

}  // namespace batchless
