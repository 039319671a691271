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

#include "usage_error.h"

namespace batchless {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Refuse(const std::string& path, std::string_view why) {
  throw UsageError("--out", path, fmt::format("a folder for the run's files ({})", why));
}

}  // namespace

RunDirectory::RunDirectory(const std::string& path) : path_(path) {
  std::error_code error;
  if (path.empty()) Refuse(path, "this is no name");
  if (fs::exists(path, error) && !fs::is_directory(path, error)) Refuse(path, "this is no folder");
}

RunDirectory::~RunDirectory() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool RunDirectory::HoldsRun() const {
  const std::array<std::string, 6> files = {config(),     metrics(),  samples(),
                                            checkpoint(), manifest(), summary()};
  return std::any_of(files.begin(), files.end(), [](const std::string& file) {
    std::error_code error;
    return fs::exists(file, error);
  });
}

void RunDirectory::Open() {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) Refuse(path_, error.message());
  if (access(path_.c_str(), W_OK) != 0) Refuse(path_, std::strerror(errno));
  descriptor_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) Refuse(path_, std::strerror(errno));
  // The system gives the lock back however this program ends.
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) Refuse(path_, "another run is at work in it");
}

}  // namespace batchless
