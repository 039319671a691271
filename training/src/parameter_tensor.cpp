#include "batchless/training/parameter_tensor.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

namespace batchless::training {
namespace {

// Calls visit(position in PyTorch's order, position in the block) for every element.
template <class Visit>
void ForEachElement(const ParameterTensor& tensor, Visit visit) {
  const TensorOrder& order = tensor.order;
  std::size_t flat = 0;
  for (std::int64_t o = 0; o < tensor.sizes[0]; ++o) {
    // Blocks of inputs one by one, so that nothing is divided for every element.
    std::int64_t block = tensor.offset + o / order.out_block * order.out_outer +
                         o % order.out_block * order.out_inner;
    for (std::int64_t first = 0; first < tensor.sizes[1]; first += order.in_block) {
      const std::int64_t end = std::min(order.in_block, tensor.sizes[1] - first);
      for (std::int64_t i = 0; i < end; ++i) {
        for (std::int64_t h = 0; h < tensor.sizes[2]; ++h) {
          for (std::int64_t w = 0; w < tensor.sizes[3]; ++w) {
            visit(flat++, block + i * order.in_inner + h * order.height + w * order.width);
          }
        }
      }
      block += order.in_outer;
    }
  }
}

}  // namespace

ParameterTensor RowByRow(std::string name, std::vector<std::int64_t> shape) {
  const std::int64_t columns =
      std::reduce(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies());
  ParameterTensor tensor;
  tensor.name = std::move(name);
  tensor.sizes = {shape[0], columns, 1, 1};
  tensor.shape = std::move(shape);
  tensor.order.out_outer = columns;
  tensor.order.in_outer = 1;
  tensor.stored_size = tensor.size();
  return tensor;
}

template <class Real>
void Pack(const ParameterTensor& tensor, std::span<const Real> values, Real* block) {
  ForEachElement(tensor, [&](std::size_t from, std::int64_t to) { block[to] = values[from]; });
}

template <class Real>
void Unpack(const ParameterTensor& tensor, const Real* block, std::span<Real> values) {
  ForEachElement(tensor, [&](std::size_t to, std::int64_t from) { values[to] = block[from]; });
}

template void Pack(const ParameterTensor&, std::span<const float>, float*);
template void Pack(const ParameterTensor&, std::span<const double>, double*);
template void Unpack(const ParameterTensor&, const float*, std::span<float>);
template void Unpack(const ParameterTensor&, const double*, std::span<double>);

bool IsPyTorchBuffer(const std::string& name, const std::set<std::string>& tensors) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kBuffers{{
      {"num_batches_tracked", "running_mean"},  // of a batch normalisation
      {"bias", "c_attn.weight"},                // a GPT's causal mask
      {"masked_bias", "c_attn.weight"},
  }};
  const std::size_t last = name.rfind('.') + 1;
  return std::any_of(kBuffers.begin(), kBuffers.end(), [&](const auto& buffer) {
    return name.substr(last) == buffer.first &&
           tensors.contains(name.substr(0, last) + std::string(buffer.second));
  });
}

}  // namespace batchless::training
