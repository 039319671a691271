#include "data_sets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "batchless/training/data_error.h"
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

// The script beside the program: in the build folder or below the installation's prefix.
fs::path FindScript() {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  for (fs::path folder = program.parent_path();; folder = folder.parent_path()) {
    fs::path script = folder / "share/batchless/fetch_archives.py";
    if (fs::exists(script)) return script;
    if (folder == folder.root_path()) break;
  }
  throw std::runtime_error(program.string() +
                           ": there is no share/batchless/fetch_archives.py beside the program");
}

// Runs a Python script and waits for it. It shares the standard error, where it shows its progress;
// what it prints says why it failed.
void RunScript(const std::vector<std::string>& arguments) {
  const char* chosen = std::getenv("PYTHON");
  std::string python = chosen != nullptr && *chosen != 0 ? chosen : "python3";
  std::string isolated = "-I";
  std::vector<char*> words = {python.data(), isolated.data()};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);

  std::array<int, 2> ends = {};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error(fmt::format("{}: {}", python, std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, python.c_str(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string said;
  std::array<char, 4096> piece = {};
  for (ssize_t count = 0; (count = read(ends[0], piece.data(), piece.size())) > 0;) {
    said.append(piece.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  if (error != 0) {
    throw std::runtime_error(fmt::format("{}: {}; data fetch runs Python, which PYTHON names",
                                         python, std::strerror(error)));
  }
  int status = 0;
  waitpid(process, &status, 0);
  if (status == 0) return;
  while (said.ends_with('\n')) said.pop_back();
  throw std::runtime_error(said.empty() ? fmt::format("{}: it failed", arguments.front())
                                        : OneLine(said));
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
  std::vector<std::string> arguments = {FindScript(), base, work,
                                        set.is_tar ? unpacked : unpacked / set.folder,
                                        set.is_tar ? "--unpack" : "--copy"};
  for (const Archive& archive : set.archives) {
    arguments.insert(arguments.end(), {std::string(archive.file), std::to_string(archive.bytes),
                                       std::string(archive.sha256)});
  }
  fs::create_directories(work);
  fs::remove_all(unpacked);
  fs::create_directories(unpacked / set.folder);
  try {
    RunScript(arguments);
  } catch (...) {
    // What came stays for the next attempt, empty folders do not.
    std::error_code ignored;
    for (const fs::path& folder : {unpacked / set.folder, unpacked, work}) {
      fs::remove(folder, ignored);
    }
    throw;
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
