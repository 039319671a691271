#include "chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>

#include "text_output.h"

namespace batchless {
namespace {

// Okabe and Ito's colours that differ without hue, too, behind the page's own.
constexpr std::array<std::string_view, 8> kColours = {
    "currentColor", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999999"};

// The colour of curve k, in the order of the figures; from the ninth on they repeat, dashed.
std::string_view CurveColour(std::size_t k) { return kColours.at(k % kColours.size()); }

// Pixels.
constexpr double kWidth = 640;
constexpr double kHeight = 300;
constexpr double kLeft = 64;
constexpr double kRight = 28;
constexpr double kTop = 30;
constexpr double kBottom = 46;
constexpr double kLegendLine = 18;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // One value alone gets room on both sides.
  void Widen() {
    if (low < high) return;
    const double room = low == 0 ? 1 : std::abs(low) / 2;
    low -= room;
    high += room;
  }
};

bool IsPoint(double x, double y) { return std::isfinite(x) && std::isfinite(y); }

std::string TickText(double value) {
  if (value != 0 && (std::abs(value) >= 1e6 || std::abs(value) < 1e-3)) {
    return fmt::format("{:.3g}", value);
  }
  if (std::abs(value) < 1e3) return fmt::format("{:.6g}", value);
  const auto thousands = static_cast<std::int64_t>(value / 1000);
  return fmt::format("{},{:03.0f}", thousands, std::abs(std::fmod(value, 1000)));
}

class Drawing {
 public:
  Drawing(const ChartText& text, std::span<const Curve> curves) : text_(text), curves_(curves) {
    for (const Curve& curve : curves) {
      for (std::size_t i = 0; i < curve.x.size(); ++i) {
        if (!IsPoint(curve.x[i], curve.y[i])) continue;
        x_.Add(curve.x[i]);
        y_.Add(curve.y[i]);
      }
    }
  }

  std::string Draw() {
    const double legend =
        curves_.size() > 1 ? kLegendLine * static_cast<double>(curves_.size()) : 0;
    Print(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" role="img" )"
          R"(aria-label="{}" font-family="sans-serif" font-size="12" fill="currentColor">)"
          "\n",
          kWidth, kHeight + legend, Escaped(text_.title));
    Print("<text x=\"{}\" y=\"18\" font-size=\"14\" font-weight=\"bold\">{}</text>\n", kLeft,
          Escaped(text_.title));
    if (x_.low <= x_.high) {
      x_.Widen();
      y_.Widen();
      Axes();
      for (std::size_t k = 0; k < curves_.size(); ++k) Line(k);
      if (legend > 0) Legend();
    } else {
      Print("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">Nothing was measured yet.</text>\n",
            kWidth / 2, kHeight / 2);
    }
    Print("</svg>\n");
    return std::move(svg_);
  }

 private:
  template <class... Arguments>
  void Print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    svg_ += fmt::format(format, std::forward<Arguments>(arguments)...);
  }

  double X(double x) const {
    return kLeft + (x - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight);
  }
  double Y(double y) const {
    return kHeight - kBottom - (y - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }

  void Axes() {
    for (const double y : Ticks(y_.low, y_.high, 6)) {
      Print(R"(<line x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}" stroke="currentColor" )"
            R"(stroke-opacity="0.15"/><text x="{}" y="{:.1f}" text-anchor="end">{}</text>)"
            "\n",
            kLeft, kWidth - kRight, Y(y), Y(y), kLeft - 6, Y(y) + 4, TickText(y));
    }
    for (const double x : Ticks(x_.low, x_.high, 7)) {
      Print(R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}" stroke="currentColor"/>)"
            R"(<text x="{0:.1f}" y="{3}" text-anchor="middle">{4}</text>)"
            "\n",
            X(x), kHeight - kBottom, kHeight - kBottom + 4, kHeight - kBottom + 18, TickText(x));
    }
    Print(R"(<path d="M{0} {1}V{2}H{3}" fill="none" stroke="currentColor"/>)"
          "\n",
          kLeft, kTop, kHeight - kBottom, kWidth - kRight);
    Print("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
          (kLeft + kWidth - kRight) / 2, kHeight - 8, Escaped(text_.x));
    Print(R"svg(<text transform="translate(14 {}) rotate(-90)" text-anchor="middle">{}</text>)svg"
          "\n",
          (kTop + kHeight - kBottom) / 2, Escaped(text_.y));
  }

  static std::string Stroke(std::size_t k) {
    return fmt::format(R"(stroke="{}" stroke-width="1.6" fill="none"{})", CurveColour(k),
                       k / kColours.size() % 2 == 1 ? R"( stroke-dasharray="5 3")" : "");
  }

  void Line(std::size_t k) {
    const Curve& curve = curves_[k];
    std::string path;
    std::string marks;
    std::size_t points = 0;
    bool is_down = false;
    for (std::size_t i = 0; i < curve.x.size(); ++i) {
      if (!IsPoint(curve.x[i], curve.y[i])) {
        is_down = false;
        continue;
      }
      path += fmt::format("{}{:.1f} {:.1f}", is_down ? 'L' : 'M', X(curve.x[i]), Y(curve.y[i]));
      marks += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.4" fill="{}"/>)", X(curve.x[i]),
                           Y(curve.y[i]), CurveColour(k));
      is_down = true;
      ++points;
    }
    if (points == 0) return;
    // Few points are marked: a line alone would not show where they are, or that there is one.
    constexpr std::size_t kMarked = 40;
    if (points <= kMarked) svg_ += marks;
    Print("<path d=\"{}\" {}/>\n", path, Stroke(k));
  }

  void Legend() {
    for (std::size_t k = 0; k < curves_.size(); ++k) {
      const double y = kHeight + kLegendLine * (static_cast<double>(k) + 0.4);
      Print("<path d=\"M{} {}h28\" {}/><text x=\"{}\" y=\"{}\">{}</text>\n", kLeft, y, Stroke(k),
            kLeft + 36, y + 4, Escaped(curves_[k].name));
    }
  }

  const ChartText& text_;
  std::span<const Curve> curves_;
  Range x_;
  Range y_;
  std::string svg_;
};

}  // namespace

std::string Escaped(std::string_view text) {
  static const std::map<char, std::string_view> kEntities{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string escaped;
  for (char c : Utf8(text)) {
    // Control characters have no place in XML.
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
    const auto entity = kEntities.find(c);
    escaped += entity == kEntities.end() ? std::string_view(&c, 1) : entity->second;
  }
  return escaped;
}

std::vector<double> Ticks(double low, double high, int most) {
  const double least = (high - low) / most;
  const double power = std::pow(10, std::floor(std::log10(least)));
  double step = 10 * power;
  for (const double factor : {5, 2, 1}) {
    if (factor * power >= least) step = factor * power;
  }
  std::vector<double> ticks;
  // Counted: where `low` is more than 2^53 steps, adding 1 changes nothing.
  const double first = std::ceil(low / step);
  for (int i = 0; i <= most && (first + i) * step <= high; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

std::string LineChart(const ChartText& text, std::span<const Curve> curves) {
  return Drawing(text, curves).Draw();
}

}  // namespace batchless
