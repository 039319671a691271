#include "data_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "batchless/training/data_error.h"
#include "batchless/training/sha256.h"
#include "child_process.h"
#include "progress_bar.h"
#include "usage_error.h"

namespace batchless {
namespace {

namespace fs = std::filesystem;
using training::Dataset;
using training::Split;

constexpr std::array<Archive, 1> kCifar10 = {{
    {"cifar-10-binary.tar.gz", 170'052'171,
     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
}};
constexpr std::array<Archive, 4> kMnist = {{
    {"train-images-idx3-ubyte.gz", 9'912'422,
     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
    {"train-labels-idx1-ubyte.gz", 28'881,
     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
    {"t10k-images-idx3-ubyte.gz", 1'648'877,
     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
    {"t10k-labels-idx1-ubyte.gz", 4'542,
     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
}};
constexpr std::array<OfficialSet, 2> kSets = {{
    {"cifar10", "https://www.cs.toronto.edu/~kriz", "cifar-10-batches-bin", kCifar10, true,
     training::LoadCifar10, "a0181da372c0d63a5920fdbea2ec3f83ecbc552d378218e1cb473cf634941a3b",
     "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
    {"mnist", "https://ossci-datasets.s3.amazonaws.com/mnist", "mnist", kMnist, false,
     training::LoadMnist, "baedb0edd00a28e97b281c967f6c7514bedfea1d17b30334caccd6ec0d75cf98",
     "ad39c4e3d6eb0920f4ea84533a577cc5afbb47c5e8034d374d0605316c8923f3"},
}};

std::string FileDigest(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  training::Sha256 sha256;
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    sha256.Update(std::string_view(buffer.data(), static_cast<std::size_t>(file.gcount())));
  }
  if (!file.eof()) throw std::runtime_error(path.string() + ": cannot be read");
  return sha256.HexDigest();
}

// 0 where there is no such file.
std::uint64_t FileBytes(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

void RunTool(const std::vector<std::string>& words, const std::string& what,
             const std::function<void()>& on_wait) {
  const ChildOutcome outcome = RunChild(words, on_wait);
  if (outcome.exit_code == 0) return;
  if (outcome.exit_code == 127) {
    throw std::runtime_error(fmt::format("{}: there is no program {}", what, words[0]));
  }
  std::string error = OneLine(outcome.error.substr(0, outcome.error.find('\n')));
  if (error.empty()) error = fmt::format("{} ended with {}", words[0], outcome.exit_code);
  throw std::runtime_error(fmt::format("{}: {}", what, error));
}

// Takes up a download where it was left; the file has its name once its digest is right.
void Download(const std::string& url, const Archive& archive, const fs::path& folder) {
  const fs::path file = folder / archive.file;
  if (fs::exists(file)) return;
  fs::path partial = file;
  partial += ".partial";
  if (FileBytes(partial) < archive.bytes) {
    ProgressBar bar(fmt::format("bytes of {}", archive.file), archive.bytes);
    RunTool({"curl", "--fail", "--location", "--silent", "--show-error", "--retry", "3",
             "--continue-at", "-", "--output", partial.string(), url},
            url, [&] { bar.Update(std::min(FileBytes(partial), archive.bytes)); });
  }
  const std::string digest = FileDigest(partial);
  if (digest != archive.sha256) {
    fs::remove(partial);
    throw std::runtime_error(
        fmt::format("{}: its SHA-256 is {}, expected {}", url, digest, archive.sha256));
  }
  fs::rename(partial, file);
}

bool IsImageFolder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "train", ignored) && fs::is_directory(folder / "val", ignored);
}

FoundSet ReadImageFolder(const fs::path& folder) {
  FoundSet found{folder, training::OpenImageFolder(folder, Split::kTrain, 224),
                 training::OpenImageFolder(folder, Split::kValidation, 224)};
  for (const Dataset* split : {found.train.get(), found.validation.get()}) {
    ProgressBar bar("images", static_cast<std::size_t>(split->size()));
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(split->shape().size()));
    for (std::int64_t i = 0; i < split->size(); ++i) {
      split->Read(i, pixels);
      bar.Update(static_cast<std::size_t>(i));
    }
  }
  return found;
}

}  // namespace

std::span<const OfficialSet> OfficialSets() { return kSets; }

FoundSet ReadOfficialSet(const OfficialSet& set, const fs::path& root) {
  FoundSet found{root / set.folder, set.load(root, Split::kTrain),
                 set.load(root, Split::kValidation)};
  found.is_official = found.train->digest() == set.train_digest &&
                      found.validation->digest() == set.validation_digest;
  return found;
}

std::vector<FoundSet> ReadSets(const fs::path& root) {
  std::vector<FoundSet> sets;
  std::error_code error;
  for (const OfficialSet& set : kSets) {
    if (fs::exists(root / set.folder, error)) sets.push_back(ReadOfficialSet(set, root));
  }
  std::vector<fs::path> folders = {root};
  for (fs::directory_iterator i(root, error), end; !error && i != end; i.increment(error)) {
    folders.push_back(i->path());
  }
  if (error) throw training::DataError(root, error.message());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    if (IsImageFolder(folder)) sets.push_back(ReadImageFolder(folder));
  }
  return sets;
}

FoundSet FetchSet(const OfficialSet& set, const fs::path& root, const std::string& mirror) {
  const std::string base = mirror.empty() ? std::string(set.url) : mirror;
  const fs::path work = root / fmt::format(".{}.partial", set.name);
  // What is unpacked in here replaces the archives in `work`.
  const fs::path unpacked = work / "unpacked";
  fs::create_directories(work);
  for (const Archive& archive : set.archives) {
    Download(fmt::format("{}{}{}", base, base.ends_with('/') ? "" : "/", archive.file), archive,
             work);
  }
  fs::remove_all(unpacked);
  fs::create_directories(unpacked / set.folder);
  for (const Archive& archive : set.archives) {
    const fs::path file = work / archive.file;
    if (set.is_tar) {
      RunTool({"tar", "-xf", file.string(), "-C", unpacked.string()}, file.string(), [] {});
    } else {
      fs::copy_file(file, unpacked / set.folder / archive.file);
    }
  }
  FoundSet found = ReadOfficialSet(set, unpacked);
  if (!found.is_official) {
    throw std::runtime_error(
        fmt::format("{}: not the content of the official set", (unpacked / set.folder).string()));
  }
  fs::rename(unpacked / set.folder, root / set.folder);
  fs::remove_all(work);
  found.path = root / set.folder;
  return found;
}

}  // namespace batchless
