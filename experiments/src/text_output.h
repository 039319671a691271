// Text to a file or to standard output, with every write checked.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace batchless {

// Keys stay in the order in which they were put in.
using Json = nlohmann::ordered_json;

// Null where there is no value.
template <class Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

class TextOutput {
 public:
  // The file `path`, whose content is replaced; errors call it `name`. Throws std::runtime_error.
  TextOutput(const std::string& path, std::string name);
  ~TextOutput();
  TextOutput(const TextOutput&) = delete;
  TextOutput& operator=(const TextOutput&) = delete;

  template <class... Arguments>
  void Print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    Append(format, fmt::make_format_args(arguments...));
  }

  // Throws std::runtime_error where something could not be written, a full disk for instance.
  void Close();
  // Forgets what is not written yet.
  void Discard() { buffer_.clear(); }

  // Standard output, which Close leaves open.
  static TextOutput& Standard();

 private:
  static constexpr std::size_t kFlushBytes = 1 << 16;

  TextOutput();
  // Formatting costs the compiler a second wherever it is not behind a call.
  void Append(fmt::string_view format, fmt::format_args arguments);
  void Flush();
  [[noreturn]] void Fail() const;

  std::string name_;
  std::FILE* stream_;
  fmt::memory_buffer buffer_;
};

// To standard output: what a command prints is there when it has ended without a failure, long texts before.
template <class... Arguments>
void PrintText(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  TextOutput::Standard().Print(format, std::forward<Arguments>(arguments)...);
}

// As JSON, on one line where there is no indent. What JSON has no number for (infinities, NaN) is null. The
// names of files and folders that it holds need not be UTF-8, which JSON has to be: U+FFFD stands for what is
// none. Every JSON is written by this.
std::string JsonText(const Json& object, int indent = -1);

// What a user's file says; discarded where that is no JSON, or lies within more brackets than anything here
// needs: the library goes through them by recursion.
Json ParseJson(const std::string& text);

// The text with U+FFFD for what is not UTF-8: tables and pages have to be it, too.
std::string Utf8(std::string_view text);

}  // namespace batchless
