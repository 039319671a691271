#include <string>
#include <utility>
#include <vector>

#include "batchless/training/data_error.h"
#include "batchless/training/dataset.h"
#include "data/byte_dataset.h"
#include "data/data_file.h"

namespace batchless::training {
namespace {

constexpr std::size_t kImageBytes = 3 * 32 * 32;
constexpr std::size_t kRecordBytes = 1 + kImageBytes;
constexpr int kClasses = 10;
constexpr int kTrainFiles = 5;

void Append(const std::filesystem::path& file, std::vector<int>& labels,
            std::vector<std::uint8_t>& pixels) {
  const std::vector<std::uint8_t> bytes = ReadDataFile(file);
  const std::size_t records = bytes.size() / kRecordBytes;
  labels.reserve(labels.size() + records);
  pixels.reserve(pixels.size() + records * kImageBytes);
  for (std::size_t record = 0; record < records; ++record) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(record * kRecordBytes);
    if (*begin >= kClasses) {
      throw DataError(file, static_cast<std::int64_t>(record),
                      "the label is " + std::to_string(*begin) + ", not 0 to 9");
    }
    labels.push_back(*begin);
    pixels.insert(pixels.end(), begin + 1, begin + kRecordBytes);
  }
  if (const std::size_t rest = bytes.size() % kRecordBytes; rest != 0) {
    throw DataError(
        file, static_cast<std::int64_t>(records),
        "truncated, " + std::to_string(rest) + " of " + std::to_string(kRecordBytes) + " bytes");
  }
}

}  // namespace

std::shared_ptr<const Dataset> LoadCifar10(const std::filesystem::path& root, Split split) {
  const std::filesystem::path folder = root / "cifar-10-batches-bin";
  std::vector<int> labels;
  std::vector<std::uint8_t> pixels;
  if (split == Split::kTrain) {
    std::vector<std::filesystem::path> files;
    std::vector<std::filesystem::path> missing;
    for (int i = 1; i <= kTrainFiles; ++i) {
      std::filesystem::path file = folder / ("data_batch_" + std::to_string(i) + ".bin");
      std::error_code error;
      const bool is_there = i == 1 || std::filesystem::exists(file, error);
      if (is_there && !missing.empty()) {
        throw DataError(missing[0], "missing, but there is " + file.filename().string());
      }
      (is_there ? files : missing).push_back(std::move(file));
    }
    for (const std::filesystem::path& file : files) Append(file, labels, pixels);
  } else {
    Append(folder / "test_batch.bin", labels, pixels);
  }
  return std::make_shared<ByteDataset>(CifarShaped("cifar10", {0.4914F, 0.4822F, 0.4465F},
                                                   {0.2470F, 0.2435F, 0.2616F}, std::move(labels)),
                                       kCifarPadding, /*mirror=*/true, std::move(pixels));
}

}  // namespace batchless::training
