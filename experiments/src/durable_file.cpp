#include "durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "usage_error.h"

namespace batchless {
namespace {

[[noreturn]] void Fail(const std::string& path) {
  throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
}

void WriteAll(int descriptor, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Fail(path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::int64_t AddStart(const std::string& path, std::int64_t bytes, training::Sha256& digest) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  const std::int64_t done = AddNext(file, bytes, digest);
  if (!file.is_open() || file.bad()) Fail(path);
  return done;
}

}  // namespace

Descriptor::Descriptor(const std::string& path, int flags)
    : number_(open(path.c_str(), flags, 0666)) {
  if (number_ < 0) Fail(path);
}

Descriptor::~Descriptor() { close(number_); }

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

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

std::int64_t AddNext(std::istream& file, std::int64_t bytes, training::Sha256& digest) {
  std::vector<char> piece(1 << 20);
  std::int64_t done = 0;
  while (file && done < bytes) {
    file.read(piece.data(), std::min<std::int64_t>(bytes - done, std::ssize(piece)));
    digest.Update(std::string_view(piece.data(), static_cast<std::size_t>(file.gcount())));
    done += file.gcount();
  }
  return done;
}

std::string FileDigest(const std::string& path, std::int64_t bytes) {
  training::Sha256 digest;
  AddStart(path, bytes, digest);
  return digest.HexDigest();
}

AppendedFile::AppendedFile(std::string path, const FileStart& kept)
    : path_(std::move(path)), bytes_(kept.bytes) {
  const auto refuse = [&](std::string_view why) {
    throw UsageError("--resume", path_,
                     fmt::format("the file that the checkpoint goes with{}", why));
  };
  const auto refuse_as_short = [&] { refuse(fmt::format(", of at least {} bytes", kept.bytes)); };
  // Opened, one that is missing would be there.
  if (kept.bytes > 0 && access(path_.c_str(), F_OK) != 0) refuse_as_short();
  file_.emplace(path_, O_WRONLY | O_CREAT | O_CLOEXEC);
  if (AddStart(path_, kept.bytes, digest_) < kept.bytes) refuse_as_short();
  if (!kept.sha256.empty() && digest_.HexDigest() != kept.sha256) {
    refuse(fmt::format(" (the checksum of its first {} bytes is wrong)", kept.bytes));
  }
  if (ftruncate(file_->number(), kept.bytes) != 0 ||
      lseek(file_->number(), 0, SEEK_END) != kept.bytes) {
    Fail(path_);
  }
}

void AppendedFile::Append(std::string_view text) {
  digest_.Update(text);
  buffer_ += text;
  bytes_ += static_cast<std::int64_t>(text.size());
}

void AppendedFile::Flush() {
  // A flush that failed may have written a part.
  if (lseek(file_->number(), bytes_ - std::ssize(buffer_), SEEK_SET) < 0) Fail(path_);
  WriteAll(file_->number(), buffer_, path_);
  buffer_.clear();
}

void AppendedFile::Sync() {
  Flush();
  if (fsync(file_->number()) != 0) Fail(path_);
}

}  // namespace batchless
