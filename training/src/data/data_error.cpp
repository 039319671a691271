#include "batchless/training/data_error.h"

namespace batchless::training {
namespace {

std::string Message(const std::filesystem::path& file, std::optional<std::int64_t> record,
                    const std::string& reason) {
  std::string text = file.string() + ": ";
  if (record) text += "record " + std::to_string(*record) + ": ";
  text += reason;
  // Names of files may hold anything.
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return text;
}

}  // namespace

DataError::DataError(const std::filesystem::path& file, std::optional<std::int64_t> record,
                     const std::string& reason)
    : std::runtime_error(Message(file, record, reason)),
      file_(file),
      record_(record),
      reason_(reason) {}

}  // namespace batchless::training
