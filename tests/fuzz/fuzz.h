// What the fuzz targets share. libFuzzer calls a target's LLVMFuzzerTestOneInput with one input after
// another; a crash, a leak, a hang, an allocation that the input's size does not justify or an exception
// that is no refusal ends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

namespace batchless::fuzz {

// The input as text.
inline std::string_view Text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A folder in memory, where there is such a place, for readers that want a file.
inline const std::filesystem::path& Folder() {
  static const std::filesystem::path kFolder = [] {
    const bool has_shm = std::filesystem::is_directory("/dev/shm");
    std::string name = has_shm ? "/dev/shm/batchless-fuzz-XXXXXX" : "/tmp/batchless-fuzz-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    static std::string made = name;
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(made, ignored);
    });
    return std::filesystem::path(name);
  }();
  return kFolder;
}

// The path of a file of that name with that content, in the place of the one before.
inline std::string FileOf(const std::string& name, std::string_view content) {
  const std::filesystem::path path = Folder() / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  if (!file.flush()) std::abort();
  return path.string();
}

// Ends the process where a property does not hold.
inline void Require(bool holds) {
  if (!holds) std::abort();
}

// Calls the reader, which may refuse its input: std::runtime_error and std::invalid_argument that say why.
// Returns whether it took it.
inline bool Accepts(const std::function<void()>& read) {
  // What names of files and the like bring in becomes one line where the program prints it.
  try {
    read();
    return true;
  } catch (const std::runtime_error& error) {
    Require(*error.what() != '\0');
  } catch (const std::invalid_argument& error) {
    Require(*error.what() != '\0');
  }
  return false;
}

}  // namespace batchless::fuzz
