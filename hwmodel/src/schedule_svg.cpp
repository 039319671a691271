#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "batchless/hwmodel/schedule_picture.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

// Lengths in pixels.
constexpr int kFontSize = 12;
constexpr int kDigitWidth = 7;  // of one digit at that size
constexpr int kBoxPadding = 10;
constexpr int kMinCellWidth = 26;
constexpr int kSlotHeight = 20;
constexpr int kOneSlotHeight = 26;
constexpr int kRowGap = 4;
constexpr int kMargin = 20;
constexpr int kTitleHeight = 54;
constexpr int kAxisHeight = 20;
constexpr int kLegendHeight = 48;
constexpr int kLegendWidth = 500;
constexpr int kUpdateWidth = 4;
constexpr int kPageWidth = 1200;  // in which a picture's title needs no enlargement

std::string Fill(std::string_view colour) { return fmt::format(" fill=\"{}\"", colour); }

// The colours of Okabe and Ito, which the figures have too.
struct Rgb {
  int red;
  int green;
  int blue;
};
constexpr Rgb kForwardColour{0x56, 0xB4, 0xE9};
constexpr Rgb kBackwardColour{0xE6, 0x9F, 0x00};
constexpr Rgb kWeightColour{0x2F, 0xB8, 0x92};  // the green, lightened for dark text on it
constexpr std::string_view kAtEnd = " text-anchor=\"end\"";
constexpr std::string_view kInMiddle = " text-anchor=\"middle\"";
constexpr const char* kInk = "#1c1e21";
constexpr const char* kSoftInk = "#5b6169";
constexpr const char* kIdle = "#eff0f2";

std::string Hex(const Rgb& colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

Rgb ColourOf(ActionKind kind) {
  if (kind == ActionKind::kForward) return kForwardColour;
  return kind == ActionKind::kBackward ? kBackwardColour : kWeightColour;
}

// Towards white by `percent`.
Rgb Paler(const Rgb& colour, int percent) {
  const auto mix = [percent](int value) { return value + (255 - value) * percent / 100; };
  return {mix(colour.red), mix(colour.green), mix(colour.blue)};
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      // Control characters have no place in XML.
      escaped += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return escaped;
}

// With one decimal, halves away from zero.
std::string Percent(double ratio) {
  const std::int64_t tenths = std::llround(ratio * 1000);
  return fmt::format("{}.{} %", tenths / 10, tenths % 10);
}

std::string Count(std::int64_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : what.ends_with("ch") ? "es" : "s");
}

class Drawing {
 public:
  explicit Drawing(const Schedule& schedule)
      : schedule_(schedule), summary_(Summarize(schedule)), first_(schedule.actions.front().step) {
    const std::int64_t most = kMaxPictureCells / summary_.workers;
    RefuseIf(summary_.steps > most, "microbatches",
             fmt::format("{}, which take {}", schedule.microbatches, Count(summary_.steps, "step")),
             fmt::format("a picture of at most {} steps of {}", most,
                         Count(summary_.workers, "worker")));
    std::vector<int> chunks(static_cast<std::size_t>(summary_.workers));
    chunk_.resize(static_cast<std::size_t>(schedule.copies()));
    for (int stage = 0; stage < schedule.stages; ++stage) {
      for (int copy = 0; copy < schedule.copies(); ++copy) {
        chunk_[copy].push_back(chunks[schedule.worker(stage, copy)]++);
      }
    }
    most_chunks_ = *std::ranges::max_element(chunks);
    const auto digits = static_cast<int>(std::to_string(schedule.microbatches - 1).size());
    cell_width_ = std::max(kMinCellWidth, digits * kDigitWidth + kBoxPadding);
    row_height_ = schedule.slots_per_step == 1 ? kOneSlotHeight : 2 * kSlotHeight;
    std::size_t longest = 0;
    for (int worker = 0; worker < summary_.workers; ++worker) {
      labels_.push_back(RowLabel(worker));
      longest = std::max(longest, labels_.back().size());
    }
    const std::int64_t grid_width = summary_.steps * cell_width_;
    scale_ = static_cast<int>(std::clamp<std::int64_t>(grid_width / kPageWidth, 1, 4));
    left_ = kMargin + scale_ * static_cast<int>(longest) * kDigitWidth + 10;
    width_ = std::max<std::int64_t>(left_ + grid_width, kMargin + kLegendWidth) + kMargin;
    top_ = kMargin + scale_ * (kTitleHeight + kAxisHeight);
  }

  std::string Draw(std::string_view title) {
    const int height = RowTop(summary_.workers) + scale_ * kLegendHeight;
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" font-family=\"DejaVu Sans, Verdana, sans-serif\" "
        "font-size=\"{2}\"{3}>\n<title>{4}</title>\n",
        width_, height, kFontSize, Fill(kInk), Escaped(title));
    Rectangle(0, 0, width_, height, "#ffffff");
    BeginScaled(kMargin);
    Text(0, 16, Escaped(title), " font-size=\"17\" font-weight=\"bold\"");
    Text(0, 38, Caption(), Fill(kSoftInk));
    svg_ += "</g>\n";
    DrawAxis();
    for (int worker = 0; worker < summary_.workers; ++worker) {
      Rectangle(left_, RowTop(worker), summary_.steps * cell_width_, row_height_, kIdle);
      if (worker % RowsPerLabel() != 0) continue;
      Text(left_ - 10, RowTop(worker) + row_height_ / 2 + scale_ * kFontSize / 3, labels_[worker],
           fmt::format("{}{}", kAtEnd, LabelSize()));
    }
    svg_ += fmt::format("<g{}>\n", kInMiddle);
    for (const TimedAction& timed : schedule_.actions) DrawAction(timed);
    svg_ += "</g>\n";
    BeginScaled(RowTop(summary_.workers) + 16);
    DrawLegend();
    svg_ += "</g>\n";
    svg_ += "</svg>\n";
    return std::move(svg_);
  }

 private:
  bool has_chunks() const { return most_chunks_ > 1; }

  std::string RowLabel(int worker) const {
    if (!has_chunks() && schedule_.worker_of_stage.empty()) return fmt::format("stage {}", worker);
    std::vector<int> held;
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      for (int copy = 0; copy < schedule_.copies(); ++copy) {
        if (schedule_.worker(stage, copy) == worker) held.push_back(stage);
      }
    }
    std::string stages = fmt::format("{}", fmt::join(held, ", "));
    // A long list gives way to the picture.
    constexpr std::size_t kLongest = 24;
    if (stages.size() > kLongest) stages = stages.substr(0, stages.rfind(',', kLongest)) + ", ..";
    return fmt::format("worker {}: {}", worker, stages);
  }

  std::string Caption() const {
    return fmt::format("{}{}, {}, {}, {} of the slots filled", Count(schedule_.stages, "stage"),
                       has_chunks() ? " on " + Count(summary_.workers, "worker") : "",
                       Count(schedule_.microbatches, "micro-batch"), Count(summary_.steps, "step"),
                       Percent(summary_.utilisation));
  }

  int RowTop(int worker) const { return top_ + worker * (row_height_ + kRowGap); }
  std::int64_t ColumnLeft(std::int64_t step) const { return left_ + (step - first_) * cell_width_; }

  void Rectangle(std::int64_t x, std::int64_t y, std::int64_t width, std::int64_t height,
                 std::string_view colour) {
    svg_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>\n", x, y, width,
                        height, Fill(colour));
  }

  void Text(std::int64_t x, std::int64_t y, std::string_view text, std::string_view attributes) {
    svg_ += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", x, y, attributes, text);
  }

  // Labels of rows and steps grow with the picture too, and leave each other room: not every row or
  // step has one then.
  std::string LabelSize() const { return fmt::format(" font-size=\"{}\"", scale_ * kFontSize); }

  int RowsPerLabel() const {
    const int pitch = row_height_ + kRowGap;
    return (scale_ * (kFontSize + kRowGap) + pitch - 1) / pitch;
  }

  std::int64_t StepsPerLabel() const {
    const auto digits = static_cast<int>(std::to_string(first_ + summary_.steps - 1).size());
    const int needed = scale_ * (digits * kDigitWidth + kBoxPadding);
    std::int64_t steps = summary_.steps > 60 ? 10 : summary_.steps > 12 ? 5 : 1;
    while (steps * cell_width_ < needed) steps *= 2;
    return steps;
  }

  void DrawAxis() {
    const std::int64_t stride = StepsPerLabel();
    const int y = top_ - scale_ * 8;
    const std::string style = Fill(kSoftInk) + LabelSize();
    Text(left_ - 10, y, "step", fmt::format("{}{}", kAtEnd, style));
    for (std::int64_t step = (first_ + stride - 1) / stride * stride;
         step < first_ + summary_.steps; step += stride) {
      Text(ColumnLeft(step) + cell_width_ / 2, y, std::to_string(step),
           fmt::format("{}{}", kInMiddle, style));
    }
  }

  void DrawAction(const TimedAction& timed) {
    const Action& action = timed.action;
    const bool two_slots = schedule_.slots_per_step == 2;
    const bool is_lower = two_slots && action.kind != ActionKind::kForward;
    const std::int64_t x = ColumnLeft(timed.step);
    const int height = two_slots ? kSlotHeight : row_height_;
    const int y = RowTop(schedule_.worker(action)) + (is_lower ? kSlotHeight : 0);
    if (action.kind == ActionKind::kUpdate) {
      Rectangle(x + cell_width_ - kUpdateWidth, y, kUpdateWidth, height, kInk);
      return;
    }
    // A pixel on the right and below separates neighbours.
    Rectangle(x, y, cell_width_ - 1, height - (two_slots ? 1 : 0),
              Hex(Paler(ColourOf(action.kind), PalerBy(action))));
    Text(x + (cell_width_ - kUpdateWidth + 1) / 2, y + height / 2 + kFontSize / 3,
         std::to_string(action.microbatch), "");
  }

  int PalerBy(const Action& action) const {
    if (!has_chunks()) return 0;
    return 70 * chunk_[action.microbatch % schedule_.copies()][action.stage] / (most_chunks_ - 1);
  }

  // Title and legend grow with the picture, so that they can be read where all of it is in view.
  void BeginScaled(int top) {
    svg_ += fmt::format("<g transform=\"translate({} {}) scale({})\">\n", kMargin, top, scale_);
  }

  void DrawLegend() {
    int x = 0;
    const auto entry = [&](std::string_view colour, const char* label, int box, int width) {
      Rectangle(x, 0, box, 14, colour);
      Text(x + box + 6, 11, label, "");
      x += width;
    };
    entry(Hex(kForwardColour), "forward", 14, 86);
    entry(Hex(kBackwardColour), schedule_.splits_backward() ? "input gradient" : "backward", 14,
          schedule_.splits_backward() ? 130 : 98);
    if (schedule_.splits_backward()) entry(Hex(kWeightColour), "weight gradient", 14, 134);
    entry(kInk, "update", kUpdateWidth, 76);
    entry(kIdle, "idle", 14, 62);
    if (has_chunks()) Text(x, 11, "paler: later stages", Fill(kSoftInk));
  }

  const Schedule& schedule_;
  ScheduleSummary summary_;
  std::int64_t first_;
  // By copy and stage: how many of its worker's stages come before it.
  std::vector<std::vector<int>> chunk_;
  int most_chunks_ = 1;
  int cell_width_ = 0;
  int row_height_ = 0;
  int left_ = 0;
  std::int64_t width_ = 0;
  int scale_ = 1;  // of title, legend and labels
  int top_ = 0;
  std::vector<std::string> labels_;  // by worker
  std::string svg_;
};

}  // namespace

std::string ToSvg(const Schedule& schedule, std::string_view title) {
  return Drawing(schedule).Draw(title);
}

}  // namespace batchless::hwmodel
