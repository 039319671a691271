// Slots of equal size, one for each micro-batch modulo their number.
#pragma once

#include <cstdint>
#include <span>

#include "aligned_buffer.h"
#include "batchless/training/parameter_tensor.h"

namespace batchless::training {

template <class Real>
class Ring {
 public:
  Ring() = default;
  Ring(std::int64_t slot_size, std::int64_t depth)
      : slot_size_(Aligned(slot_size)), depth_(depth), buffer_(slot_size_ * depth) {}

  // Elements of a slot, rounded up.
  std::int64_t slot_size() const { return slot_size_; }
  Real* Slot(std::int64_t microbatch) { return buffer_.data() + microbatch % depth_ * slot_size_; }
  std::span<Real> SlotSpan(std::int64_t microbatch) {
    return {Slot(microbatch), static_cast<std::size_t>(slot_size_)};
  }
  std::int64_t bytes() const { return buffer_.bytes(); }

 private:
  std::int64_t slot_size_ = 0;
  std::int64_t depth_ = 1;
  AlignedBuffer<Real> buffer_;
};

}  // namespace batchless::training
