#include "engine/stage_parameters.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace batchless::training {
namespace {

// Counts those of both optimizers, where vectors have one of their own.
std::size_t CountArrays(const Optimizer& optimizer,
                        std::vector<std::string_view> Optimizer::*arrays) {
  std::size_t most = 0;
  for (const std::size_t dimensions : {1, 2}) {
    most = std::max(most, (DefinitionFor(optimizer, dimensions).row.*arrays).size());
  }
  return most;
}

// What the tensor has in the optimizer's array of that number, "ARRAY/TENSOR", of which `beside_weights` are
// laid out as stages lay out weights; the others are row by row.
std::optional<ParameterTensor> StateTensor(const ParameterTensor& tensor,
                                           const OptimizerDefinition& definition,
                                           std::size_t beside_weights, std::size_t number) {
  const bool is_beside_weights = number < beside_weights;
  if (!is_beside_weights) number -= beside_weights;
  const std::vector<std::string_view>& arrays =
      is_beside_weights ? definition.row.arrays : definition.row.tensor_arrays;
  if (number >= arrays.size()) return std::nullopt;
  std::string name = std::string(arrays[number]) + "/" + tensor.name;
  if (is_beside_weights) {
    ParameterTensor state = tensor;
    state.name = std::move(name);
    return state;
  }
  const std::vector<std::int64_t> shape = definition.tensor_array_shape(tensor, number);
  return shape.empty() ? std::nullopt : std::optional(RowByRow(std::move(name), shape));
}

}  // namespace

template <class Real>
StageParameters<Real>::StageParameters(const StageLayout& layout, VersionCounts counts,
                                       const Optimizer& optimizer, int block)
    : counts_(counts),
      workspace_size_(layout.workspace_size),
      beside_weights_(CountArrays(optimizer, &Optimizer::arrays)),
      named_tensors_(beside_weights_ + CountArrays(optimizer, &Optimizer::tensor_arrays) + 2),
      sizes_(running_place()) {
  const std::int64_t size = layout.parameter_size;
  sizes_[kWeights] = size;
  named_tensors_[kWeights] = layout.parameters;
  named_tensors_[running_place()] = layout.state;
  for (const ParameterTensor& tensor : layout.parameters) {
    const OptimizerDefinition& definition = DefinitionFor(optimizer, tensor.shape.size());
    if (definition.workspace_size != nullptr) {
      workspace_size_ = std::max(workspace_size_, definition.workspace_size(tensor));
    }
    Tensor& own = tensors_.emplace_back(Tensor{.description = tensor,
                                               .offset = tensor.offset,
                                               .kernels = KernelsOf<Real>(definition, block),
                                               .own = std::get<OwnLoop<Real>>(definition.own.loops),
                                               .is_vector = tensor.shape.size() < 2});
    own.description.offset = 0;
    for (std::size_t number = 0; number < state_count(); ++number) {
      std::optional<ParameterTensor> state =
          StateTensor(tensor, definition, beside_weights_, number);
      std::int64_t& end = sizes_[kStates + number];
      own.state_offsets[number] = state ? end : -1;
      if (!state) continue;
      state->offset = end;
      end += Aligned(state->stored_size);
      named_tensors_[kStates + number].push_back(*std::move(state));
    }
  }
  sizes_.insert(sizes_.end(),
                {layout.state_size, counts.forward * size, counts.predicted_backward ? size : 0});
  if (counts.raw > 0) sizes_.push_back(counts.raw * size);
  arrays_.resize(sizes_.size());
}

template <class Real>
void StageParameters<Real>::Allocate() {
  for (std::size_t i = 0; i < arrays_.size(); ++i) arrays_[i] = AlignedBuffer<Real>(sizes_[i]);
}

template <class Real>
UpdateArguments<Real> StageParameters<Real>::Arguments(const Tensor& tensor, std::int64_t first,
                                                       std::int64_t size, const Real* gradient,
                                                       const StageCoefficients<Real>& coefficients,
                                                       std::int64_t forward) {
  // A prediction of more weights than caches keep until the next forward is written past them.
  constexpr std::int64_t kStreamedBytes = 1 << 20;
  const std::int64_t offset = tensor.offset + first;
  const std::int64_t version_size = arrays_[kWeights].size();
  UpdateArguments<Real> c;
  c.coefficients = tensor.is_vector ? coefficients.vectors : coefficients.matrices;
  c.own = tensor.own;
  c.size = size;
  c.gradient = gradient;
  c.weights = arrays_[kWeights].data() + offset;
  for (std::size_t number = 0; number < state_count(); ++number) {
    const std::int64_t place = tensor.state_offsets[number];
    if (place < 0) continue;
    Real* array = arrays_[kStates + number].data() + place;
    if (number < beside_weights_) {
      c.states[number] = array + first;
    } else {
      c.tensor_arrays[number - beside_weights_] = array;
    }
  }
  if (AlignedBuffer<Real>& versions = arrays_[forward_place()]; !versions.empty()) {
    const auto place = [&](std::int64_t number) {
      return versions.data() + number % counts_.forward * version_size + offset;
    };
    if (!coefficients.readers) {
      c.forward = place(updates_ + 1);
    } else {
      for (const ForwardReader<Real>& reader : *coefficients.readers) {
        c.copies.push_back(
            {tensor.is_vector ? reader.vectors : reader.matrices, place(reader.update)});
      }
    }
    c.streams_forward =
        tensor.description.stored_size * std::int64_t{sizeof(Real)} >= kStreamedBytes;
  }
  if (AlignedBuffer<Real>& predicted = arrays_[backward_place()]; !predicted.empty()) {
    c.backward = predicted.data() + offset;
  }
  if (counts_.raw > 0) {
    Real* raw = arrays_[raw_place()].data() + offset;
    c.stale = raw + forward % counts_.raw * version_size;
    c.kept = raw + (updates_ + 1) % counts_.raw * version_size;
  }
  return c;
}

template <class Real>
void StageParameters<Real>::UpdatePiece(int tensor, std::int64_t first, std::int64_t size,
                                        const Real* gradient,
                                        const StageCoefficients<Real>& coefficients,
                                        std::int64_t forward) {
  const Tensor& updated = tensors_[tensor];
  updated.kernels.update(Arguments(updated, first, size, gradient, coefficients, forward));
}

template <class Real>
void StageParameters<Real>::Update(const Real* gradient,
                                   const StageCoefficients<Real>& coefficients,
                                   std::int64_t forward, Real* workspace, int done) {
  for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
    if (i == done) continue;
    const Tensor& tensor = tensors_[i];
    UpdateArguments<Real> arguments = Arguments(tensor, 0, tensor.description.stored_size,
                                                gradient + tensor.offset, coefficients, forward);
    if (tensor.kernels.prepare != nullptr) {
      tensor.kernels.prepare(tensor.description, arguments, workspace);
    }
    tensor.kernels.update(arguments);
  }
  ++updates_;
}

template <class Real>
void StageParameters<Real>::Reset(std::span<const Real> weights, std::span<const Real> state) {
  for (AlignedBuffer<Real>& array : arrays_) std::ranges::fill(array, Real(0));
  std::ranges::copy(state, arrays_[running_place()].data());
  for (std::size_t place = 0; place < arrays_.size(); ++place) {
    if (kStates <= place && place <= running_place()) continue;
    AlignedBuffer<Real>& array = arrays_[place];
    for (std::int64_t i = 0; i < array.size(); i += arrays_[kWeights].size()) {
      std::ranges::copy(weights, array.data() + i);
    }
  }
}

template <class Real>
bool StageParameters<Real>::IsFinite() const {
  return std::all_of(
      arrays_.begin(), arrays_.begin() + static_cast<std::ptrdiff_t>(running_place()),
      [](const AlignedBuffer<Real>& array) {
        return std::ranges::all_of(array, [](Real value) { return std::isfinite(value); });
      });
}

template class StageParameters<float>;
template class StageParameters<double>;

}  // namespace batchless::training
