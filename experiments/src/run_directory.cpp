#include "run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "usage_error.h"

namespace batchless {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Refuse(const std::string& path, std::string_view why) {
  throw UsageError("--out", path, fmt::format("a folder for the run's files ({})", why));
}

// In the order of the list; a run without run.log_samples has no samples.csv.
constexpr std::array<std::string_view, 5> kSummed = {"config.toml", "metrics.csv", "samples.csv",
                                                     "manifest.json", "summary.json"};
constexpr std::int64_t kWhole = std::numeric_limits<std::int64_t>::max();

bool HasRow(const std::string& path) {
  std::ifstream file(path);
  std::string header;
  return std::getline(file, header) && file.peek() != std::ifstream::traits_type::eof();
}

}  // namespace

void RunDirectory::Check() const {
  std::error_code error;
  if (path_.empty()) Refuse(path_, "this is no name");
  if (fs::exists(path_, error) && !fs::is_directory(path_, error)) {
    Refuse(path_, "this is no folder");
  }
}

bool RunDirectory::HoldsRun() const {
  const std::array<std::string, 6> files = {config(),     metrics(),  samples(),
                                            checkpoint(), manifest(), summary()};
  return std::any_of(files.begin(), files.end(), Exists);
}

bool RunDirectory::HoldsRows() const { return HasRow(metrics()) || HasRow(samples()); }

bool RunDirectory::HoldsResults() const { return Exists(summary()) || HasRow(metrics()); }

void RunDirectory::Open() {
  // A second lock would wait for the first one.
  if (locked_) return;
  std::error_code error;
  const bool is_new = fs::create_directories(path_, error);
  if (error) Refuse(path_, error.message());
  if (is_new) SyncFolderOf(path_);
  if (access(path_.c_str(), W_OK) != 0) Refuse(path_, std::strerror(errno));
  const int number = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (number < 0) Refuse(path_, std::strerror(errno));
  locked_.emplace(number);
  // The system gives the lock back however this program ends.
  if (flock(number, LOCK_EX | LOCK_NB) != 0) {
    // A file system without locks has a reason of its own.
    const int why = errno;
    locked_.reset();
    Refuse(path_, why == EWOULDBLOCK ? "another run is at work in it" : std::strerror(why));
  }
}

void RunDirectory::WriteSums() const {
  std::string text;
  for (const std::string_view name : kSummed) {
    const std::string file = fmt::format("{}/{}", path_, name);
    if (!Exists(file)) continue;
    text += fmt::format("{}  {}\n", FileDigest(file, kWhole), name);
  }
  ReplaceFile(sums(), text);
}

void RunDirectory::RemoveEnd() const {
  // The digests first: they name the summary.
  for (const std::string& file : {sums(), summary()}) {
    std::error_code error;
    if (fs::remove(file, error)) SyncFolderOf(file);
    if (error) throw std::runtime_error(fmt::format("{}: {}", file, error.message()));
  }
}

void RunDirectory::CheckSums(std::string_view argument) const {
  if (!Exists(sums())) return;
  constexpr std::size_t kMaxBytes = 4096;
  const std::string text = ReadInput(argument, sums(), "digests of files", kMaxBytes);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t gap = line.find("  ");
    const std::string_view name =
        line.substr(gap == std::string_view::npos ? line.size() : gap + 2);
    RefuseIf(std::find(kSummed.begin(), kSummed.end(), name) == kSummed.end(), argument, sums(),
             "lines of a digest and a file's name");
    const std::string file = fmt::format("{}/{}", path_, name);
    RefuseIf(!Exists(file) || FileDigest(file, kWhole) != line.substr(0, gap), argument, file,
             "the file that the run left, whose digest is in SHA256SUMS");
  }
}

}  // namespace batchless
