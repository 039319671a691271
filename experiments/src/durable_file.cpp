#include "durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "usage_error.h"

namespace batchless {
namespace {

constexpr std::size_t kFlushBytes = 1 << 16;

[[noreturn]] void Fail(const std::string& path) {
  throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : number_(open(path.c_str(), flags, 0666)) {
    if (number_ < 0) Fail(path);
  }
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

void WriteAll(int descriptor, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Fail(path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

void ReplaceFile(const std::string& path, std::string_view content) {
  ReplaceFile(path, [&](const Append& append) { append(content); });
}

void ReplaceFile(const std::string& path, const std::function<void(const Append&)>& write) {
  const std::string partial = path + ".partial";
  try {
    {
      const Descriptor file(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
      write([&](std::string_view text) { WriteAll(file.number(), text, path); });
    }
    PutInPlace(partial, path);
  } catch (...) {
    unlink(partial.c_str());
    throw;
  }
}

void PutInPlace(const std::string& finished, const std::string& path) {
  {
    const Descriptor file(finished, O_RDONLY | O_CLOEXEC);
    if (fsync(file.number()) != 0) Fail(path);
  }
  if (std::rename(finished.c_str(), path.c_str()) != 0) Fail(path);
  SyncFolderOf(path);
}

void SyncFolderOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const Descriptor folder(parent.empty() ? "." : parent.string(), O_RDONLY | O_CLOEXEC);
  // Some file systems keep names without being asked, and know no such request.
  if (fsync(folder.number()) != 0 && errno != EINVAL) Fail(path);
}

AppendedFile::AppendedFile(std::string path, std::int64_t kept_bytes)
    : path_(std::move(path)),
      bytes_(kept_bytes),
      descriptor_(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) Fail(path_);
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0) Fail(path_);
  if (status.st_size < kept_bytes) {
    close(descriptor_);
    throw UsageError(
        "--resume", path_,
        fmt::format("the file that the checkpoint goes with, of at least {} bytes", kept_bytes));
  }
  if (ftruncate(descriptor_, kept_bytes) != 0 || lseek(descriptor_, 0, SEEK_END) != kept_bytes) {
    close(descriptor_);
    Fail(path_);
  }
}

AppendedFile::~AppendedFile() { close(descriptor_); }

void AppendedFile::Append(std::string_view text) {
  buffer_ += text;
  bytes_ += static_cast<std::int64_t>(text.size());
  if (buffer_.size() >= kFlushBytes) Flush();
}

void AppendedFile::Flush() {
  WriteAll(descriptor_, buffer_, path_);
  buffer_.clear();
}

void AppendedFile::Sync() {
  Flush();
  if (fsync(descriptor_) != 0) Fail(path_);
}

}  // namespace batchless
