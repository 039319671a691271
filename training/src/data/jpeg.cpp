#include "data/jpeg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

// Needs cstddef and cstdio.
#include <jpeglib.h>
// Needs jpeglib.h.
#include <jerror.h>

#include "batchless/training/data_error.h"
#include "data/data_file.h"

namespace batchless::training {
namespace {

// No photograph of ImageNet has more than 40 million pixels; a damaged header can claim 4 billion.
constexpr std::uint64_t kMaxPixels = 100'000'000;
// Huffman's codes take a bit at least for each block of 64 values, and some component has a block for each
// 128 pixels: a header that claims more stands before a file that ends too early.
constexpr std::uint64_t kMaxPixelsPerByte = 1024;
// A progressive file has some 10; each one costs a walk over the whole image, however few its bytes.
constexpr int kMaxScans = 500;

struct ErrorState {
  jpeg_error_mgr manager;  // first, because libjpeg hands out its address
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
  jpeg_progress_mgr progress;
};

[[noreturn]] void Leave(j_common_ptr info) {
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  info->err->format_message(info, state->message.data());
  std::longjmp(state->jump, 1);
}

// libjpeg goes on after these with pixels of its own invention. Bytes too many between two markers
// are harmless, and some of ImageNet's files have them.
void HandleMessage(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA) Leave(info);
}

void CountScans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  std::snprintf(state->message.data(), state->message.size(), "more than %d scans", kMaxScans);
  std::longjmp(state->jump, 1);
}

// Everything that libjpeg may jump out of: no object with a destructor lives in here. Returns false
// with the message in `state`.
bool Decode(const std::vector<std::uint8_t>& bytes, ErrorState& state, jpeg_decompress_struct& info,
            Photograph& photograph) {
  if (setjmp(state.jump) != 0) return false;
  jpeg_create_decompress(&info);
  state.progress.progress_monitor = CountScans;
  info.progress = &state.progress;
  jpeg_mem_src(&info, bytes.data(), static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&info, TRUE);
  const bool is_cmyk = info.num_components == 4;
  info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  info.dct_method = JDCT_ISLOW;
  const std::uint64_t pixels = std::uint64_t{info.image_width} * info.image_height;
  if (pixels > std::min(kMaxPixels, kMaxPixelsPerByte * bytes.size())) {
    std::snprintf(state.message.data(), state.message.size(),
                  "%u x %u pixels are too many for %zu bytes", info.image_width, info.image_height,
                  bytes.size());
    return false;
  }
  jpeg_start_decompress(&info);
  const std::size_t components = is_cmyk ? 4 : 3;
  const std::size_t row_bytes = info.output_width * components;
  photograph.width = static_cast<int>(info.output_width);
  photograph.height = static_cast<int>(info.output_height);
  photograph.pixels.resize(row_bytes * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = photograph.pixels.data() + row_bytes * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  if (is_cmyk) {
    // Adobe's programs, which alone write such files, store 255 - ink.
    for (std::size_t i = 0; i < pixels; ++i) {
      const std::uint8_t* from = photograph.pixels.data() + 4 * i;
      const int black = from[3];
      for (std::size_t c = 0; c < 3; ++c) {
        photograph.pixels[3 * i + c] = static_cast<std::uint8_t>((from[c] * black + 127) / 255);
      }
    }
    photograph.pixels.resize(3 * pixels);
  }
  return true;
}

// What one output pixel is made of: weights[0..count) for input pixels from `first` on.
struct Taps {
  int first = 0;
  std::vector<float> weights;
};

std::vector<Taps> MakeTaps(double start, double length, int input_size, int output_size) {
  const double scale = length / output_size;
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> taps(static_cast<std::size_t>(output_size));
  for (int x = 0; x < output_size; ++x) {
    Taps& tap = taps[static_cast<std::size_t>(x)];
    const double middle = start + (x + 0.5) * scale;
    const int first = std::clamp(static_cast<int>(std::lround(middle - reach)), 0, input_size - 1);
    const int last =
        std::clamp(static_cast<int>(std::lround(middle + reach)), first + 1, input_size);
    tap.first = first;
    double sum = 0;
    for (int i = first; i < last; ++i) {
      const double weight = std::max(0.0, 1 - std::abs(i + 0.5 - middle) / reach);
      tap.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : tap.weights) weight = static_cast<float>(weight / sum);
  }
  return taps;
}

}  // namespace

Photograph DecodeJpeg(const std::filesystem::path& path) {
  const std::vector<std::uint8_t> bytes = ReadDataFile(path);
  Photograph photograph;
  ErrorState state = {};
  jpeg_decompress_struct info = {};
  const std::unique_ptr<jpeg_decompress_struct, decltype(&jpeg_destroy_decompress)> owner(
      &info, jpeg_destroy_decompress);
  info.err = jpeg_std_error(&state.manager);
  state.manager.error_exit = Leave;
  state.manager.emit_message = HandleMessage;
  if (!Decode(bytes, state, info, photograph)) {
    throw DataError(path, std::string("JPEG: ") + state.message.data());
  }
  return photograph;
}

void ResizePart(const Photograph& photograph, const Box& part, int size, bool mirrored,
                std::span<std::uint8_t> pixels) {
  const std::vector<Taps> columns = MakeTaps(part.left, part.width, photograph.width, size);
  const std::vector<Taps> rows = MakeTaps(part.top, part.height, photograph.height, size);
  const auto side = static_cast<std::size_t>(size);

  // Along the rows first, and only for the rows that the result needs.
  const int first_row = rows.front().first;
  const int end_row = rows.back().first + static_cast<int>(rows.back().weights.size());
  std::vector<float> narrowed(static_cast<std::size_t>(end_row - first_row) * side * 3);
  float* out = narrowed.data();
  for (int y = first_row; y < end_row; ++y) {
    const std::uint8_t* row =
        photograph.pixels.data() +
        std::size_t{3} * static_cast<std::size_t>(y) * static_cast<std::size_t>(photograph.width);
    for (const Taps& tap : columns) {
      const std::uint8_t* from = row + std::ptrdiff_t{3} * tap.first;
      std::array<float, 3> sum = {};
      for (const float weight : tap.weights) {
        for (float& value : sum) value += weight * static_cast<float>(*from++);
      }
      out = std::copy(sum.begin(), sum.end(), out);
    }
  }

  std::vector<float> sums(side * 3);
  for (std::size_t y = 0; y < side; ++y) {
    const Taps& tap = rows[y];
    std::fill(sums.begin(), sums.end(), 0.0F);
    const float* from =
        narrowed.data() + static_cast<std::size_t>(tap.first - first_row) * side * 3;
    for (const float weight : tap.weights) {
      for (float& sum : sums) sum += weight * *from++;
    }
    for (std::size_t x = 0; x < side; ++x) {
      const std::size_t to = y * side + (mirrored ? side - 1 - x : x);
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const float value = std::clamp(sums[3 * x + channel] + 0.5F, 0.0F, 255.0F);
        pixels[channel * side * side + to] = static_cast<std::uint8_t>(value);
      }
    }
  }
}

}  // namespace batchless::training
