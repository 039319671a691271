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
#include <utility>

#include "durable_file.h"
#include "usage_error.h"

namespace batchless {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Refuse(const std::string& path, std::string_view why) {
  throw UsageError("--out", path, fmt::format("a folder for the run's files ({})", why));
}

}  // namespace

RunDirectory::RunDirectory(std::string path) : path_(std::move(path)) {}

RunDirectory::~RunDirectory() {
  if (descriptor_ >= 0) close(descriptor_);
}

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
  return std::any_of(files.begin(), files.end(), [](const std::string& file) {
    std::error_code error;
    return fs::exists(file, error);
  });
}

bool RunDirectory::HoldsResults() const {
  std::error_code error;
  if (fs::exists(summary(), error)) return true;
  std::ifstream log(metrics());
  std::string line;
  for (int lines = 0; std::getline(log, line); ++lines) {
    if (lines > 0) return true;
  }
  return false;
}

void RunDirectory::Open() {
  std::error_code error;
  const bool is_new = fs::create_directories(path_, error);
  if (error) Refuse(path_, error.message());
  if (is_new) SyncFolderOf(path_);
  if (access(path_.c_str(), W_OK) != 0) Refuse(path_, std::strerror(errno));
  descriptor_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) Refuse(path_, std::strerror(errno));
  // The system gives the lock back however this program ends.
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) Refuse(path_, "another run is at work in it");
}

}  // namespace batchless
