#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

namespace batchless::training {

// Memory aligned to a cache line, to be freed by std::free. Where the system has huge pages on
// request, what is as large as one lies in them: weights and rings are walked through in strides
// that small pages make slow (VGG-11 at batch one takes a tenth less time so).
void* AllocateAligned(std::int64_t bytes);

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
  std::int64_t size() const { return size_; }
  std::int64_t bytes() const { return size_ * static_cast<std::int64_t>(sizeof(T)); }
  bool empty() const { return size_ == 0; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };

  std::unique_ptr<T, Free> data_;
  std::int64_t size_ = 0;
};

}  // namespace batchless::training
