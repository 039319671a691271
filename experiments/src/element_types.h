// Kinds of numbers in files of arrays, and how their bytes become doubles.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

namespace batchless {

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

}  // namespace batchless
