#include <algorithm>
#include <cmath>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/training/data_error.h"
#include "batchless/training/dataset.h"
#include "batchless/training/sha256.h"
#include "data/jpeg.h"

namespace batchless::training {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxSide = 4096;
// The usual evaluation resizes the shorter side to 256 and takes the middle 224.
constexpr double kMiddle = 224.0 / 256.0;

// The random crop of Szegedy et al., Going Deeper with Convolutions, arXiv 1409.4842, with
// torchvision's numbers: part of the area, aspect, attempts.
constexpr double kLeastArea = 0.08;
constexpr double kMostAspect = 4.0 / 3.0;
constexpr int kAttempts = 10;

constexpr const char* kLeftOut = "hidden files and those that are no .jpg or .jpeg are left out";

bool IsHidden(const fs::directory_entry& entry) {
  return entry.path().filename().string().starts_with('.');
}

// Entries of a folder for which `accepts` holds, in the order of their names.
template <class Accepts>
std::vector<std::string> Names(const fs::path& folder, Accepts accepts) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    if (accepts(*i)) names.push_back(i->path().filename().string());
  }
  if (error) throw DataError(folder, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> ClassNames(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw DataError(folder, "there is no such folder");
  std::vector<std::string> names = Names(folder, [](const fs::directory_entry& entry) {
    std::error_code ignored;
    return entry.is_directory(ignored) && !IsHidden(entry);
  });
  if (names.empty()) throw DataError(folder, "there is no folder of a class in it");
  return names;
}

bool IsPicture(const fs::directory_entry& entry) {
  std::error_code ignored;
  std::string extension = entry.path().extension().string();
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  // Hidden ones are what some systems keep beside a picture, under its name.
  return entry.is_regular_file(ignored) && !IsHidden(entry) &&
         (extension == ".jpg" || extension == ".jpeg");
}

class ImageFolder final : public Dataset {
 public:
  ImageFolder(int size, int classes, std::vector<int> labels, std::string digest,
              std::vector<fs::path> files, std::int64_t left_out)
      : Dataset({"imagefolder",
                 {3, size, size},
                 classes,
                 {0.485F, 0.456F, 0.406F},
                 {0.229F, 0.224F, 0.225F},
                 std::move(labels),
                 std::move(digest),
                 0,
                 0,
                 left_out}),
        files_(std::move(files)) {}

 private:
  void DoRead(std::int64_t sample, std::span<std::uint8_t> pixels) const override {
    const Photograph photograph = DecodeJpeg(files_[static_cast<std::size_t>(sample)]);
    ResizePart(photograph, MiddleBox(photograph, kMiddle), shape().width, false, pixels);
  }

  void DoReadAugmented(std::int64_t sample, CounterRandom& random,
                       std::span<std::uint8_t> pixels) const override {
    const Photograph photograph = DecodeJpeg(files_[static_cast<std::size_t>(sample)]);
    const Box box = RandomBox(photograph, random);
    const bool mirrored = random.Below(2) == 1;
    ResizePart(photograph, box, shape().width, mirrored, pixels);
  }

  // A square in the middle, with `part` of the shorter side.
  static Box MiddleBox(const Photograph& photograph, double part) {
    const double side = part * std::min(photograph.width, photograph.height);
    return {(photograph.width - side) / 2, (photograph.height - side) / 2, side, side};
  }

  static Box RandomBox(const Photograph& photograph, CounterRandom& random) {
    const double area = static_cast<double>(photograph.width) * photograph.height;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const double part = area * (kLeastArea + (1 - kLeastArea) * random.Uniform());
      const double aspect = std::exp((2 * random.Uniform() - 1) * std::log(kMostAspect));
      const int width = static_cast<int>(std::lround(std::sqrt(part * aspect)));
      const int height = static_cast<int>(std::lround(std::sqrt(part / aspect)));
      if (width < 1 || width > photograph.width || height < 1 || height > photograph.height) {
        continue;
      }
      const std::uint32_t left =
          random.Below(static_cast<std::uint32_t>(photograph.width - width + 1));
      const std::uint32_t top =
          random.Below(static_cast<std::uint32_t>(photograph.height - height + 1));
      return {static_cast<double>(left), static_cast<double>(top), static_cast<double>(width),
              static_cast<double>(height)};
    }
    return MiddleBox(photograph, 1);
  }

  std::vector<fs::path> files_;
};

}  // namespace

std::shared_ptr<const Dataset> OpenImageFolder(const fs::path& root, Split split, int size) {
  analysis::CheckInteger("size", size, 1, kMaxSide);
  // A label has to mean the same in both splits.
  const std::vector<std::string> classes = ClassNames(root / "train");
  const fs::path folder = root / (split == Split::kTrain ? "train" : "val");
  for (const std::string& name : ClassNames(folder)) {
    if (!std::binary_search(classes.begin(), classes.end(), name)) {
      throw DataError(folder / name, "there is no such class in " + (root / "train").string());
    }
  }

  std::vector<int> labels;
  std::vector<fs::path> files;
  std::int64_t left_out = 0;
  Sha256 sha256;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const fs::path class_folder = folder / classes[label];
    std::error_code error;
    if (!fs::is_directory(class_folder, error)) continue;
    std::int64_t others = 0;
    const std::vector<std::string> names =
        Names(class_folder, [&](const fs::directory_entry& entry) {
          if (IsPicture(entry)) return true;
          ++others;
          return false;
        });
    // Nobody can learn a class without pictures; a validation may be without one, but loses none.
    if (names.empty() && (split == Split::kTrain || others > 0)) {
      throw DataError(class_folder,
                      "there is no picture of this class in it: " + std::to_string(others) +
                          " of " + std::to_string(others) + " files are none (" + kLeftOut + ")");
    }
    left_out += others;
    for (const std::string& name : names) {
      const fs::path& file = files.emplace_back(class_folder / name);
      labels.push_back(static_cast<int>(label));
      const std::uintmax_t bytes = fs::file_size(file, error);
      if (error) throw DataError(file, error.message());
      sha256.Update(classes[label] + "/" + name + " " + std::to_string(label) + " " +
                    std::to_string(bytes) + "\n");
    }
  }
  if (files.empty()) throw DataError(folder, "there is no picture in the folders of its classes");

  return std::make_shared<ImageFolder>(size, static_cast<int>(classes.size()), std::move(labels),
                                       sha256.HexDigest(), std::move(files), left_out);
}

}  // namespace batchless::training
