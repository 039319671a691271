// A folder for files that a test writes; it is deleted at the end.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace batchless::test {

using Bytes = std::vector<std::uint8_t>;

// $TMPDIR, or else the memory where it has room, or else the system's place.
inline std::filesystem::path FolderOfFolders() {
  constexpr std::uintmax_t kEnoughBytes = std::uintmax_t{1} << 30;
  std::filesystem::path memory = "/dev/shm";
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(memory, error);
  const bool has_room = !error && space.available >= kEnoughBytes;
  if (std::getenv("TMPDIR") == nullptr && has_room && access(memory.c_str(), W_OK | X_OK) == 0) {
    return memory;
  }
  return std::filesystem::temp_directory_path();
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    static const std::filesystem::path kPlace = FolderOfFolders();
    std::string name = (kPlace / "batchless-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  TemporaryFolder(TemporaryFolder&&) = delete;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

  // Names of what lies in it, sorted.
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Writes the file, and the folders that it lies in.
  void Write(const std::string& name, std::span<const std::uint8_t> bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream file(path_ / name, std::ios::binary);
    for (const std::uint8_t byte : bytes) file.put(static_cast<char>(byte));
    if (!file.flush()) throw std::runtime_error("cannot write " + name);
  }

 private:
  std::filesystem::path path_;
};

// Where the real data sets are, if they are.
inline std::optional<std::filesystem::path> RealData() {
  const char* folder = std::getenv("BATCHLESS_DATA");
  if (folder == nullptr || *folder == '\0') return std::nullopt;
  return folder;
}

}  // namespace batchless::test
