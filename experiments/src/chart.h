// Line charts as SVG, in the colours of the page around them, light or dark.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace batchless {

// A point that is not finite interrupts the line.
struct Curve {
  std::string name = {};
  std::vector<double> x = {};
  std::vector<double> y = {};
};

struct ChartText {
  std::string title;
  std::string x;  // labels of the axes
  std::string y;
};

// Text for a page or a picture; control characters become "?".
std::string Escaped(std::string_view text);

// Values that ticks are at: 1, 2 or 5 times a power of ten apart, `most` of them at most.
std::vector<double> Ticks(double low, double high, int most);

// The element <svg>, with a legend where there are several curves. Without a point it says so.
std::string LineChart(const ChartText& text, std::span<const Curve> curves);

}  // namespace batchless
