// Memory that is read soon, fetched while something else is computed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace batchless::training {

/// What a worker's next pass reads and no pass has touched for long: values and gradients of another
/// micro-batch, weights. A kernel calls Fetch between pieces of its work, so that the memory comes while
/// it computes. Changes no result.
class Prefetcher {
 public:
  void Clear() { *this = {}; }

  /// Fetched in the order in which they are added, as much in all as leaves room in a second-level cache.
  void Add(std::span<const std::byte> memory) {
    constexpr std::size_t kMostBytes = std::size_t{512} << 10;
    const std::size_t size = std::min(memory.size(), kMostBytes - taken_);
    if (size == 0 || count_ == ranges_.size()) return;
    ranges_[count_++] = memory.first(size);
    taken_ += size;
  }

  /// Has the next `lines` lines on their way, fewer at the end of a range.
  void Fetch(std::size_t lines) {
    if (fetched_ >= current_.size()) {
      if (next_ == count_) return;
      current_ = ranges_[next_++];
      fetched_ = 0;
    }
    const std::size_t end = std::min(fetched_ + lines * kLineBytes, current_.size());
    for (; fetched_ < end; fetched_ += kLineBytes) {
#ifdef __GNUC__
      __builtin_prefetch(current_.data() + fetched_, 0, kSecondLevel);
#endif
    }
  }

 private:
  static constexpr std::size_t kLineBytes = 64;
  static constexpr int kSecondLevel = 2;

  std::array<std::span<const std::byte>, 8> ranges_{};
  std::size_t count_ = 0;
  std::size_t taken_ = 0;               // bytes of all
  std::size_t next_ = 0;                // range after the current one
  std::span<const std::byte> current_;  // range
  std::size_t fetched_ = 0;             // bytes of it
};

}  // namespace batchless::training

// Example
//   const std::vector<float> next(1000);
//   Prefetcher ahead;
//   ahead.Add(std::as_bytes(std::span(next)));
//   for (int piece = 0; piece < 10; ++piece) {
//     // A piece of a kernel's work, then some lines of what comes next.
//     ahead.Fetch(8);
//   }
//   ahead.Clear();
