#pragma once

#include <cstdint>
#include <memory>

namespace batchless::training {

// Memory aligned to a cache line, for FreeAligned. Buffers lie one behind the other in large pieces
// that come from the system, in huge pages where it has them on request: a pass walks through many
// buffers, and where each has small pages of its own, finding those takes up to a tenth of its time,
// more on machines that are virtual. A piece goes back to the system when none of its buffers is left.
void* AllocateAligned(std::int64_t bytes);
void FreeAligned(void* data);

// Moves `bytes` of memory that is there already into huge pages, where the system has them on request.
void MoveToHugePages(void* data, std::int64_t bytes);

// Zeros, aligned to a cache line, whose number never changes.
template <class T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::int64_t size)
      : data_(static_cast<T*>(AllocateAligned(size * static_cast<std::int64_t>(sizeof(T))))),
        size_(size) {
    std::uninitialized_fill_n(data_.get(), size, T());
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T* begin() { return data(); }
  const T* begin() const { return data(); }
  T* end() { return data() + size_; }
  const T* end() const { return data() + size_; }
  std::int64_t size() const { return size_; }
  std::int64_t bytes() const { return size_ * static_cast<std::int64_t>(sizeof(T)); }
  bool empty() const { return size_ == 0; }

 private:
  struct Free {
    void operator()(T* data) const { FreeAligned(data); }
  };

  std::unique_ptr<T, Free> data_;
  std::int64_t size_ = 0;
};

// The bytes of all buffers of a range, or of whatever else has bytes().
template <class Range>
std::int64_t SumBytes(const Range& range) {
  std::int64_t bytes = 0;
  for (const auto& each : range) bytes += each.bytes();
  return bytes;
}

}  // namespace batchless::training
