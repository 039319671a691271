// What readers of files of arrays share: errors, bytes, and kinds of numbers as doubles.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/analysis/argument.h"
#include "usage_error.h"

namespace batchless {

// Thrown where a file is not what it should be, or cannot be written; the text does not name the file.
class ArrayFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A file from its beginning on.
class FileReader {
 public:
  explicit FileReader(const std::string& path) : file_(path, std::ios::binary | std::ios::ate) {
    if (const std::string why = WhyUnreadable(path); !why.empty()) throw ArrayFileError(why);
    if (!file_) throw ArrayFileError("it cannot be read");
    left_ = static_cast<std::uint64_t>(file_.tellg());
    file_.seekg(0);
  }

  void Read(void* to, std::size_t size) {
    if (size > left_ || !file_.read(static_cast<char*>(to), static_cast<std::streamsize>(size))) {
      throw ArrayFileError("it ends too early");
    }
    left_ -= size;
  }

  std::uint64_t left() const { return left_; }

 private:
  std::ifstream file_;
  std::uint64_t left_ = 0;
};

template <class Element>
double OfNumber(Element element) {
  return static_cast<double>(element);
}

// Elements one behind the other, in the machine's order of bytes.
template <class Element, double (*kConvert)(Element) = OfNumber<Element>>
std::vector<double> ToDoubles(const std::vector<char>& bytes) {
  std::vector<double> values(bytes.size() / sizeof(Element));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof(Element), sizeof(Element));
    values[i] = kConvert(element);
  }
  return values;
}

// `name` as the file says it.
struct ElementType {
  std::string_view name;
  std::size_t bytes;
  std::vector<double> (*convert)(const std::vector<char>& bytes);
};

inline const ElementType& TypeNamed(std::span<const ElementType> types, std::string_view name) {
  for (const ElementType& type : types) {
    if (type.name == name) return type;
  }
  throw ArrayFileError(fmt::format("numbers of type {}, not one of {}", OneLine(name),
                                   fmt::join(analysis::NamesOf(types), ", ")));
}

}  // namespace batchless
