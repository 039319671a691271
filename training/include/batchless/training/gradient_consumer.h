// A gradient that is used while it is still in the caches.
#pragma once

#include <cstdint>

namespace batchless::training {

/// Takes the gradient of one parameter tensor piece by piece, each as soon as it is whole. Together
/// the pieces are the tensor, in any order.
template <class Real>
class GradientConsumer {
 public:
  virtual ~GradientConsumer() = default;
  GradientConsumer() = default;
  GradientConsumer(const GradientConsumer&) = delete;
  GradientConsumer& operator=(const GradientConsumer&) = delete;

  /// gradient: (size), that of the tensor's stored elements from `first` on; theirs until the return.
  virtual void Take(std::int64_t first, std::int64_t size, const Real* gradient) = 0;
};

}  // namespace batchless::training

// Example
//   struct Largest final : GradientConsumer<float> {
//     void Take(std::int64_t /*first*/, std::int64_t size, const float* gradient) override {
//       largest = std::max(largest, *std::max_element(gradient, gradient + size));
//     }
//     float largest = 0;
//   };
//   Largest largest;
//   const std::vector<float> piece = {1, 3, 2};
//   largest.Take(0, 3, piece.data());
//   CHECK(largest.largest == 3);
