#include "engine/stage_parameters.h"

#include <algorithm>
#include <cmath>

namespace batchless::training {

template <class Real>
StageParameters<Real>::StageParameters(const StageLayout& layout, VersionCounts counts)
    : counts_(counts) {
  const std::array<std::int64_t, kArrays> sizes = ArraySizes(layout, counts);
  weights_ = AlignedBuffer<Real>(sizes[0]);
  velocity_ = AlignedBuffer<Real>(sizes[1]);
  state_ = AlignedBuffer<Real>(sizes[2]);
  forward_ = AlignedBuffer<Real>(sizes[3]);
  backward_ = AlignedBuffer<Real>(sizes[4]);
}

template <class Real>
std::array<std::int64_t, StageParameters<Real>::kArrays> StageParameters<Real>::ArraySizes(
    const StageLayout& layout, const VersionCounts& counts) {
  const std::int64_t size = layout.parameter_size;
  return {size, size, layout.state_size, counts.forward * size,
          counts.predicted_backward ? size : 0};
}

template <class Real>
std::array<Real*, StageParameters<Real>::kArrays> StageParameters<Real>::Arrays() {
  return {weights_.data(), velocity_.data(), state_.data(), forward_.data(), backward_.data()};
}

template <class Real>
void StageParameters<Real>::UpdatePiece(const Backend<Real>& backend, const ParameterTensor& tensor,
                                        std::int64_t first, std::int64_t size, const Real* gradient,
                                        const UpdateCoefficients<Real>& coefficients) {
  // A prediction of more weights than caches keep until the next forward is written past them.
  constexpr std::int64_t kStreamedBytes = 1 << 20;
  const std::int64_t offset = tensor.offset + first;
  UpdateCoefficients<Real> c = coefficients;
  c.gradient = gradient;
  c.weights = weights_.data() + offset;
  c.velocity = velocity_.data() + offset;
  if (!forward_.empty()) {
    c.forward = forward_.data() + (updates_ + 1) % counts_.forward * weights_.size() + offset;
    c.streams_forward = tensor.stored_size * std::int64_t{sizeof(Real)} >= kStreamedBytes;
  }
  if (!backward_.empty()) c.backward = backward_.data() + offset;
  backend.Update(size, c);
}

template <class Real>
void StageParameters<Real>::Update(const Backend<Real>& backend, const StageLayout& layout,
                                   const Real* gradient,
                                   const UpdateCoefficients<Real>& coefficients, int done) {
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const ParameterTensor& tensor = layout.parameters[i];
    if (static_cast<int>(i) == done) continue;
    UpdatePiece(backend, tensor, 0, tensor.stored_size, gradient + tensor.offset, coefficients);
  }
  ++updates_;
}

template <class Real>
void StageParameters<Real>::Reset(const std::vector<Real>& weights,
                                  const std::vector<Real>& state) {
  std::copy(weights.begin(), weights.end(), weights_.data());
  std::copy(state.begin(), state.end(), state_.data());
  std::fill_n(velocity_.data(), velocity_.size(), Real(0));
  for (std::int64_t slot = 0; slot < counts_.forward; ++slot) {
    std::copy(weights.begin(), weights.end(), forward_.data() + slot * weights_.size());
  }
  if (!backward_.empty()) std::copy(weights.begin(), weights.end(), backward_.data());
}

template <class Real>
bool StageParameters<Real>::IsFinite() const {
  const auto finite = [](const AlignedBuffer<Real>& buffer) {
    return std::all_of(buffer.data(), buffer.data() + buffer.size(),
                       [](Real value) { return std::isfinite(value); });
  };
  return finite(weights_) && finite(velocity_);
}

template <class Real>
std::int64_t StageParameters<Real>::bytes() const {
  return weights_.bytes() + velocity_.bytes() + state_.bytes() + forward_.bytes() +
         backward_.bytes();
}

template class StageParameters<float>;
template class StageParameters<double>;

}  // namespace batchless::training
