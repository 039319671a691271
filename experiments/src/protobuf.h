// The wire format of Protocol Buffers, as much of it as files of ONNX need: fields, each a number and a
// varint, four or eight bytes, or a text of known length, which messages in messages are.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace batchless {

class ProtobufError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ProtobufWriter {
 public:
  ProtobufWriter& Integer(int field, std::int64_t value);
  ProtobufWriter& Float(int field, float value);
  ProtobufWriter& Text(int field, std::string_view value);
  ProtobufWriter& Message(int field, const ProtobufWriter& value) {
    return Text(field, value.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(std::uint64_t value);

  std::string bytes_;
};

struct ProtobufField {
  int number = 0;
  std::uint64_t value = 0;  // of a varint, or the bits of a number of fixed width
  bool is_text = false;
  std::string_view text{};  // in the message that was read

  std::int64_t integer() const { return static_cast<std::int64_t>(value); }
  float real() const { return std::bit_cast<float>(static_cast<std::uint32_t>(value)); }
};

// The fields of a message one after the other. Throws ProtobufError where it is none.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  // Nothing behind the last one.
  std::optional<ProtobufField> Next();
  bool at_end() const { return rest_.empty(); }
  // Without its tag, as packed fields have them.
  std::uint64_t Varint();

 private:
  std::string_view Take(std::uint64_t bytes);

  std::string_view rest_;
};

// A repeated field of integers, of which each may be one of them or many, packed.
void AppendIntegers(const ProtobufField& field, std::vector<std::int64_t>& values);

}  // namespace batchless
