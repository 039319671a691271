#include "safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>

#include "array_file.h"
#include "text_output.h"
#include "usage_error.h"

namespace batchless {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are written as they lie in memory");

constexpr std::size_t kLengthBytes = 8;
// As the format's own library refuses it.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

// Five bits of exponent, ten of fraction (IEEE 754).
double OfHalf(std::uint16_t bits) {
  const double sign = (bits >> 15) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

// The upper half of a number of 32 bits.
double OfBrainFloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr std::array<ElementType, 8> kTensorTypes{{
    {"F64", 8, ToDoubles<double>},
    {"F32", 4, ToDoubles<float>},
    {"F16", 2, ToDoubles<std::uint16_t, OfHalf>},
    {"BF16", 2, ToDoubles<std::uint16_t, OfBrainFloat>},
    {"I64", 8, ToDoubles<std::int64_t>},
    {"I32", 4, ToDoubles<std::int32_t>},
    {"U8", 1, ToDoubles<std::uint8_t>},
    {"BOOL", 1, ToDoubles<std::uint8_t>},
}};

struct Entry {
  std::string name;
  const ElementType* type;
  std::vector<std::int64_t> shape;
  std::uint64_t begin;
  std::uint64_t end;
};

std::vector<std::uint64_t> Naturals(const Json& tensor, const char* key) {
  const auto found = tensor.find(key);
  if (found == tensor.end() || !found->is_array() ||
      !std::all_of(found->begin(), found->end(),
                   [](const Json& x) { return x.is_number_unsigned(); })) {
    throw ArrayFileError(fmt::format("no '{}' of natural numbers", key));
  }
  return found->get<std::vector<std::uint64_t>>();
}

Entry ParseEntry(const std::string& name, const Json& tensor, std::size_t max_values) {
  if (!tensor.is_object() || !tensor.contains("dtype") || !tensor["dtype"].is_string()) {
    throw ArrayFileError("no 'dtype'");
  }
  const auto dtype = tensor["dtype"].get<std::string>();
  const ElementType& type = TypeNamed(kTensorTypes, dtype);
  Entry entry{name, &type, {}, 0, 0};
  // Extents may be 0: the others are bounded one by one, so that no product wraps.
  std::uint64_t count = 1;
  for (const std::uint64_t extent : Naturals(tensor, "shape")) {
    if (extent > max_values || count * extent > max_values) {
      throw ArrayFileError(fmt::format("more than {} numbers", max_values));
    }
    count *= extent;
    entry.shape.push_back(static_cast<std::int64_t>(extent));
  }
  const std::vector<std::uint64_t> offsets = Naturals(tensor, "data_offsets");
  if (offsets.size() != 2 || offsets[1] < offsets[0] ||
      offsets[1] - offsets[0] != count * type.bytes) {
    throw ArrayFileError("a size that is not that of its shape");
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  return entry;
}

// Entries that follow each other without holes through all bytes of the values.
std::vector<Entry> ParseHeader(const std::string& header, std::uint64_t value_bytes,
                               std::size_t max_values) {
  const Json json = ParseJson(header);
  if (!json.is_object()) throw ArrayFileError("a header that is no JSON object");
  std::vector<Entry> entries;
  for (const auto& [name, tensor] : json.items()) {
    if (name == kMetadata) continue;
    try {
      entries.push_back(ParseEntry(name, tensor, max_values));
    } catch (const ArrayFileError& error) {
      throw ArrayFileError(fmt::format("{}: {}", OneLine(name), error.what()));
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end) {
      throw ArrayFileError(
          fmt::format("{}: its values do not follow those before it", OneLine(entry.name)));
    }
    end = entry.end;
  }
  if (end != value_bytes) {
    throw ArrayFileError(
        fmt::format("values of {} bytes, of which the header names {}", value_bytes, end));
  }
  return entries;
}

template <class Real>
void WriteValues(std::ofstream& file, const std::vector<double>& values) {
  const std::vector<Real> converted(values.begin(), values.end());
  const std::span<const std::byte> bytes = std::as_bytes(std::span(converted));
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

void WriteSafetensors(const std::string& path, std::span<const training::NamedTensor> tensors,
                      training::Precision precision) {
  const bool is_double = precision == training::Precision::kDouble;
  // Readers of PyTorch's weights ask for it.
  Json header = {{kMetadata, {{"format", "pt"}}}};
  std::uint64_t end = 0;
  for (const training::NamedTensor& tensor : tensors) {
    const std::uint64_t begin = end;
    end += tensor.values.size() * (is_double ? sizeof(double) : sizeof(float));
    header[tensor.name] = {{"dtype", is_double ? "F64" : "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  const std::uint64_t length = text.size();
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&length), kLengthBytes);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const training::NamedTensor& tensor : tensors) {
    is_double ? WriteValues<double>(file, tensor.values) : WriteValues<float>(file, tensor.values);
  }
  file.close();
  if (!file) {
    throw ArrayFileError(fmt::format("it could not be written{}{}", errno == 0 ? "" : ": ",
                                     errno == 0 ? "" : std::strerror(errno)));
  }
}

std::vector<training::NamedTensor> ReadSafetensors(const std::string& path,
                                                   std::size_t max_values) {
  FileReader file(path);
  const std::uint64_t file_bytes = file.left();
  std::uint64_t length = 0;
  file.Read(&length, kLengthBytes);
  if (length > kMaxHeaderBytes || length > file.left()) {
    throw ArrayFileError(fmt::format("a header of {} bytes in a file of {}", length, file_bytes));
  }
  std::string header(length, '\0');
  file.Read(header.data(), length);
  std::vector<training::NamedTensor> tensors;
  for (Entry& entry : ParseHeader(header, file.left(), max_values)) {
    std::vector<char> bytes(entry.end - entry.begin);
    file.Read(bytes.data(), bytes.size());
    tensors.push_back({std::move(entry.name), std::move(entry.shape), entry.type->convert(bytes)});
  }
  return tensors;
}

}  // namespace batchless
