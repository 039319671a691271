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
  void Clear() {
    count_ = 0;
    taken_ = 0;
    line_ = 0;
    end_ = 0;
    next_ = 0;
  }

  /// Fetched in the order in which they are added, as much in all as leaves room in a second-level cache.
  template <class T>
  void Add(std::span<const T> memory) {
    constexpr std::size_t kMostBytes = std::size_t{512} << 10;
    const std::span<const std::byte> bytes = std::as_bytes(memory);
    const std::size_t size = std::min(bytes.size(), kMostBytes - taken_);
    if (size == 0 || count_ == ranges_.size()) return;
    ranges_[count_++] = bytes.first(size);
    taken_ += size;
  }

  /// Has the next few lines on their way.
  void Fetch() {
    if (line_ >= end_) {
      if (next_ == count_) return;
      line_ = reinterpret_cast<std::uintptr_t>(ranges_[next_].data());
      end_ = line_ + ranges_[next_].size();
      ++next_;
    }
    for (int i = 0; i < kLines; ++i, line_ += kLineBytes) {
#ifdef __GNUC__
      // Past the end of a range too: what is not there is not fetched.
      __builtin_prefetch(reinterpret_cast<const void*>(line_), 0, kSecondLevel);
#endif
    }
  }

 private:
  // A call's, in kernels that call it every hundred cycles or so.
  static constexpr int kLines = 8;
  static constexpr std::uintptr_t kLineBytes = 64;
  static constexpr int kSecondLevel = 2;

  std::array<std::span<const std::byte>, 8> ranges_{};
  std::size_t count_ = 0;
  std::size_t taken_ = 0;  // bytes
  std::size_t next_ = 0;   // the range after the one that is fetched
  std::uintptr_t line_ = 0;
  std::uintptr_t end_ = 0;
};

}  // namespace batchless::training
