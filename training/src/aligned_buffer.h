#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace batchless::training {

// Zeros, aligned to a cache line, whose number never changes.
template <class T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::int64_t size)
      : data_(static_cast<T*>(
            ::operator new(static_cast<std::size_t>(size) * sizeof(T), kAlignment))),
        size_(size) {
    std::uninitialized_fill_n(data_.get(), size, T());
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::int64_t size() const { return size_; }
  std::int64_t bytes() const { return size_ * static_cast<std::int64_t>(sizeof(T)); }
  bool empty() const { return size_ == 0; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(T* data) const { ::operator delete(data, kAlignment); }
  };

  std::unique_ptr<T, Delete> data_;
  std::int64_t size_ = 0;
};

}  // namespace batchless::training
