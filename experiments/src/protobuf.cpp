#include "protobuf.h"

#include <cstring>

namespace batchless {
namespace {

enum WireType : unsigned { kVarint = 0, kEightBytes = 1, kLength = 2, kFourBytes = 5 };

constexpr unsigned kTypeBits = 3;
constexpr unsigned kSevenBits = 7;

std::uint64_t Fixed(std::string_view bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

constexpr std::uint64_t Tag(int field, WireType type) {
  return static_cast<std::uint64_t>(field) << kTypeBits | type;
}

}  // namespace

void ProtobufWriter::Varint(std::uint64_t value) {
  for (; value >= 1U << kSevenBits; value >>= kSevenBits) {
    bytes_ += static_cast<char>((value & 0x7f) | 0x80);
  }
  bytes_ += static_cast<char>(value);
}

ProtobufWriter& ProtobufWriter::Integer(int field, std::int64_t value) {
  Varint(Tag(field, kVarint));
  Varint(static_cast<std::uint64_t>(value));
  return *this;
}

ProtobufWriter& ProtobufWriter::Float(int field, float value) {
  Varint(Tag(field, kFourBytes));
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

ProtobufWriter& ProtobufWriter::Text(int field, std::string_view value) {
  Varint(Tag(field, kLength));
  Varint(value.size());
  bytes_ += value;
  return *this;
}

std::uint64_t ProtobufReader::Varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += kSevenBits) {
    const auto byte = static_cast<unsigned char>(Take(1).front());
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  throw ProtobufError("a number that does not end");
}

std::string_view ProtobufReader::Take(std::uint64_t bytes) {
  if (bytes > rest_.size()) throw ProtobufError("a message that ends too early");
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::optional<ProtobufField> ProtobufReader::Next() {
  if (rest_.empty()) return std::nullopt;
  const std::uint64_t tag = Varint();
  ProtobufField field{.number = static_cast<int>(tag >> kTypeBits & 0x1fffffff)};
  switch (tag & ((1U << kTypeBits) - 1)) {
    case kVarint:
      field.value = Varint();
      break;
    case kEightBytes:
      field.value = Fixed(Take(8));
      break;
    case kLength:
      field.is_text = true;
      field.text = Take(Varint());
      break;
    case kFourBytes:
      field.value = Fixed(Take(4));
      break;
    default:
      throw ProtobufError("a field of an unknown type");
  }
  return field;
}

void AppendIntegers(const ProtobufField& field, std::vector<std::int64_t>& values) {
  if (!field.is_text) {
    values.push_back(field.integer());
    return;
  }
  for (ProtobufReader packed(field.text); !packed.at_end();) {
    values.push_back(static_cast<std::int64_t>(packed.Varint()));
  }
}

}  // namespace batchless
