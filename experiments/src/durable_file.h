// Files that survive the end of the program at any moment.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "batchless/training/sha256.h"

namespace batchless {

// An open file or folder, closed with this object. Throws std::runtime_error where it cannot be opened.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags);
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

// Whether there is something by that name; not where the system does not say.
bool Exists(const std::string& path);

// Puts `content` in the place of the file: written beside it as PATH.partial, brought to the disk and
// renamed, so that the file is the old one or the new one whenever the program ends. Throws
// std::runtime_error in one line.
void ReplaceFile(const std::string& path, std::string_view content);

// The same with content that comes in pieces: `write` hands each one to `append`.
using Append = std::function<void(std::string_view)>;
void ReplaceFile(const std::string& path, const std::function<void(const Append&)>& write);

// Brings the content of `finished` to the disk, then renames it, then brings the name to the disk.
void PutInPlace(const std::string& finished, const std::string& path);

// Brings the name `path` to the disk: it is in the folder around it.
void SyncFolderOf(const std::string& path);

// Adds the next `bytes` to the digest, or all where there are fewer. Returns how many those were.
std::int64_t AddNext(std::istream& file, std::int64_t bytes, training::Sha256& digest);

// SHA-256 of a file's first `bytes`, of all where it has fewer. Throws std::runtime_error.
std::string FileDigest(const std::string& path, std::int64_t bytes);

// How much of a file is known, and the SHA-256 of that; an empty one is not compared.
struct FileStart {
  std::int64_t bytes = 0;
  std::string sha256;
};

// A file that only grows, and whose end may be cut off when it is opened. Writes are collected; what
// has not been synced may be missing after the end of the program. Throws std::runtime_error.
class AppendedFile {
 public:
  // Creates the file where there is none. Throws UsageError where it does not begin with `kept`, which
  // stays.
  AppendedFile(std::string path, const FileStart& kept);

  void Append(std::string_view text);
  // Hands everything to the system; what fails can be tried again.
  void Flush();
  // Brings everything to the disk.
  void Sync();
  // What was kept and appended.
  std::int64_t bytes() const { return bytes_; }
  FileStart content() const { return {bytes_, digest_.HexDigest()}; }

 private:
  std::string path_;
  std::string buffer_;
  std::int64_t bytes_;
  training::Sha256 digest_;
  std::optional<Descriptor> file_;
};

}  // namespace batchless
