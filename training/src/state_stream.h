// Numbers and texts of a saved state, as they lie in memory.
#pragma once

#include <bit>
#include <cstdint>
#include <istream>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace batchless::training {

static_assert(std::endian::native == std::endian::little);

inline void RefuseStateIf(bool is_damaged) {
  if (is_damaged) throw std::runtime_error("the trainer's state is damaged");
}

inline void Write(std::ostream& to, const void* data, std::size_t bytes) {
  to.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

inline void WriteText(std::ostream& to, std::string_view text) {
  const auto size = static_cast<std::uint64_t>(text.size());
  Write(to, &size, sizeof size);
  Write(to, text.data(), text.size());
}

inline void Read(std::istream& from, void* data, std::size_t bytes) {
  from.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
  if (!from) throw std::runtime_error("the trainer's state ends too early");
}

inline std::string ReadText(std::istream& from) {
  constexpr std::uint64_t kMaxText = 1 << 20;
  std::uint64_t size = 0;
  Read(from, &size, sizeof size);
  RefuseStateIf(size > kMaxText);
  std::string text(size, '\0');
  Read(from, text.data(), text.size());
  return text;
}

}  // namespace batchless::training
