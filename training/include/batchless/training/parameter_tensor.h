// Where a named parameter lies inside its stage's block of parameters.
//
// Outside the project parameters have PyTorch's names, shapes and order (row-major; convolutions
// (out, in, height, width), linear layers (out, in)). Inside, a stage orders them as its kernels
// want them: in blocks of B output and input channels, padded with zeros. The element (o, i, h, w)
// is at
//
//   offset + (o / Bo) So + (i / Bi) Si + h Sh + w Sw + (i % Bi) si + (o % Bo) so
//
//   Bo, Bi  channels in a block          So .. so  distances in elements (TensorOrder)
//
// Padding stays zero: its gradients are sums of products with zeros.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace batchless::training {

/// The least multiple of `multiple` that holds `size` elements.
constexpr std::int64_t RoundUp(std::int64_t size, std::int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

/// Rounded up so that what follows is aligned to 64 bytes in float and double.
constexpr std::int64_t Aligned(std::int64_t elements) { return RoundUp(elements, 16); }

struct TensorOrder {
  std::int64_t out_block = 1;
  std::int64_t in_block = 1;
  std::int64_t out_outer = 0;
  std::int64_t in_outer = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t in_inner = 0;
  std::int64_t out_inner = 0;
};

/// How the tensor starts: all of it alike, or with random numbers of mean 0.
enum class Initializer : unsigned char { kConstant, kNormal, kUniform };

struct ParameterTensor {
  std::string name;                   ///< as in PyTorch, "conv1.weight"
  std::vector<std::int64_t> shape;    ///< as in PyTorch
  std::array<std::int64_t, 4> sizes;  ///< (out, in, height, width) that the order addresses
  TensorOrder order;
  std::int64_t offset = 0;       ///< of the tensor in the stage's block, elements
  std::int64_t stored_size = 0;  ///< elements with padding
  Initializer initializer = Initializer::kConstant;
  double scale = 0;  ///< the constant, the standard deviation, or the largest number

  std::int64_t size() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
};

/// A tensor that lies in PyTorch's order, without padding.
ParameterTensor RowByRow(std::string name, std::vector<std::int64_t> shape);

/// Copies a tensor in PyTorch's order into the block that begins at `block`.
template <class Real>
void Pack(const ParameterTensor& tensor, std::span<const Real> values, Real* block);

/// The reverse.
template <class Real>
void Unpack(const ParameterTensor& tensor, const Real* block, std::span<Real> values);

/// Whether PyTorch's modules write the name beside one of `tensors`, and nothing follows from it.
bool IsPyTorchBuffer(const std::string& name, const std::set<std::string>& tensors);

}  // namespace batchless::training

// Example
//   // Two rows and three columns, columns first in memory.
//   ParameterTensor tensor;
//   tensor.sizes = {2, 3, 1, 1};
//   tensor.order.out_outer = 1;
//   tensor.order.in_outer = 2;
//   tensor.stored_size = 6;
//   const std::vector<float> values = {1, 2, 3, 4, 5, 6};
//   std::vector<float> block(6);
//   Pack<float>(tensor, values, block.data());
//   CHECK(block == std::vector<float>{1, 4, 2, 5, 3, 6});
//   CHECK(RoundUp(6, 16) == 16);
