// A data file that cannot be read as what it should be: truncated, of another format, missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

namespace batchless::training {

/// `what()` is one line, "FILE: REASON" or "FILE: record N: REASON". A library that reads data ends
/// with this and nothing else, whatever the file holds.
class DataError : public std::runtime_error {
 public:
  DataError(const std::filesystem::path& file, const std::string& reason)
      : DataError(file, std::nullopt, reason) {}
  /// `record` counts the samples of the file from 0.
  DataError(const std::filesystem::path& file, std::optional<std::int64_t> record,
            const std::string& reason);

  const std::filesystem::path& file() const { return file_; }
  const std::optional<std::int64_t>& record() const { return record_; }
  const std::string& reason() const { return reason_; }

 private:
  std::filesystem::path file_;
  std::optional<std::int64_t> record_;
  std::string reason_;
};

}  // namespace batchless::training

// Example
//   const DataError error("a.bin", /*record=*/3, "a label of 11");
//   CHECK(error.record() == 3);
//   CHECK(std::string(error.what()) == "a.bin: record 3: a label of 11");
