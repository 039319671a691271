#include "text_output.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace batchless {

TextOutput::TextOutput() : name_("standard output"), stream_(stdout) {}

TextOutput::TextOutput(const std::string& path, std::string name)
    : name_(std::move(name)), stream_(std::fopen(path.c_str(), "wb")) {
  if (stream_ == nullptr) Fail();
}

TextOutput::~TextOutput() {
  if (stream_ != nullptr && stream_ != stdout) std::fclose(stream_);
}

void TextOutput::Fail() const {
  throw std::runtime_error(fmt::format("{}: {}", name_, std::strerror(errno)));
}

void TextOutput::Append(fmt::string_view format, fmt::format_args arguments) {
  fmt::vformat_to(std::back_inserter(buffer_), format, arguments);
  if (buffer_.size() >= kFlushBytes) Flush();
}

void TextOutput::Flush() {
  if (std::fwrite(buffer_.data(), 1, buffer_.size(), stream_) != buffer_.size()) Fail();
  buffer_.clear();
}

void TextOutput::Close() {
  Flush();
  std::FILE* stream = stream_ == stdout ? stdout : std::exchange(stream_, nullptr);
  if ((stream == stdout ? std::fflush(stream) : std::fclose(stream)) != 0) Fail();
}

TextOutput& TextOutput::Standard() {
  static TextOutput output;
  return output;
}

std::string JsonText(const Json& object, int indent) {
  return object.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json ParseJson(const std::string& text) {
  constexpr int kMostBrackets = 100;
  int open = 0;
  bool is_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') is_string = !is_string;
    if (is_string && c == '\\') ++i;
    if (is_string) continue;
    if (c == '[' || c == '{') ++open;
    if (c == ']' || c == '}') --open;
    if (open > kMostBrackets) return Json(Json::value_t::discarded);
  }
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string Utf8(std::string_view text) {
  return Json::parse(JsonText(Json(text))).get<std::string>();
}

}  // namespace batchless
