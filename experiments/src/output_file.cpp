#include "output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "durable_file.h"
#include "text_output.h"
#include "usage_error.h"
#include "values.h"

namespace batchless {
namespace {

namespace fs = std::filesystem;

// Whether nobody may write: root may all the same, and would take away what was put under
// protection.
bool IsReadOnly(const fs::path& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return false;
  return (status.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0 || access(path.c_str(), W_OK) != 0;
}

// The file that `path` stands for: renaming would replace a symbolic link, not what it leads to,
// which need not exist yet.
std::string Resolved(const std::string& path) {
  constexpr int kMaxLinks = 40;  // the system's own limit
  fs::path target = path;
  std::error_code error;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(fs::symlink_status(target, error)); ++i) {
    const fs::path next = fs::read_symlink(target, error);
    if (error) break;
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return target.string();
}

}  // namespace

OutputFile::OutputFile(std::string_view name, const std::string& path, std::string_view extensions)
    : path_(path) {
  const std::vector<std::string_view> accepted = SplitList(extensions);
  const std::string forms =
      fmt::format("a file whose name ends in {}", fmt::join(accepted, " or "));
  const auto refuse = [&](std::string_view why) {
    throw UsageError(name, path, fmt::format("{} ({})", forms, why));
  };
  extension_ = fs::path(path).extension().string();
  RefuseIf(std::find(accepted.begin(), accepted.end(), extension_) == accepted.end(), name, path,
           forms);

  std::error_code error;
  target_ = Resolved(path);
  const fs::file_status status = fs::status(target_, error);
  if (fs::is_directory(status)) refuse("this is a folder");
  if (fs::exists(status) && !fs::is_regular_file(status)) refuse("this is no regular file");
  if (fs::exists(status) && IsReadOnly(target_)) refuse("this file is read-only");
  const fs::path parent = fs::path(target_).parent_path();
  const fs::path folder = parent.empty() ? fs::path(".") : parent;
  if (!fs::is_directory(folder, error)) refuse("there is no such folder");
  if (IsReadOnly(folder)) refuse("the folder is read-only");

  int descriptor = -1;
  // Another run with the same process number, on another machine, may share the folder.
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary_path_ = fmt::format("{}.{}-{}.partial", target_, getpid(), attempt);
    guard_ = std::make_unique<DeletedWhenInterrupted>(temporary_path_);
    descriptor = open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) break;
    guard_.reset();
  }
  if (descriptor < 0) refuse(std::strerror(errno));
  close(descriptor);
}

OutputFile::~OutputFile() {
  if (!committed_) unlink(temporary_path_.c_str());
}

void OutputFile::Commit() {
  PutInPlace(temporary_path_, target_);
  committed_ = true;
}

void OutputFile::Write(std::string_view text) {
  TextOutput output(temporary_path_, path_);
  output.Print("{}", text);
  output.Close();
  Commit();
}

}  // namespace batchless
