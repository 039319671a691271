// Kinds of layers: one table with everything that is said of a kind, for costs, memory, network files
// and the trainer, whose own table has the stage that computes each (training/src/stages/stage.cpp).
//
//   n, c, p   elements, channels and pixels of the input, n = c p    n', c', p'   of the output
//
//   kind                   parameters        forward FLOPs           backward reads   saves
//   convolution            c' (c k^2 + b)    2 n' c k^2 + b n'       input
//   linear                 c' (n + 1)        2 n c' + c'             input
//   group_norm             2 c               8 n                     input            4 c numbers
//   batch_norm             2 c               8 n                     input            4 c numbers
//   local_response_norm                      (4 + size) n            input
//   relu                                     n                       output
//   max_pool                                 n' k^2                                   n' bytes
//   average_pool                             n
//   dropout                                  n
//   sum                                      n
//   loss                                     4 n                                      n numbers
//
// k: edge of the window; b: 1 with a bias, else 0. A backward costs as much again for each of its
// gradients, and only products of weights have one by the weights. A normalisation saves mean, inverse
// standard deviation, scale and shift of each channel, a max-pool which element of each window won, the
// loss its probabilities; a dropout draws its mask again.
//
// A sequence of T tokens of width d is a tensor of d channels, height T and width 1: what works on
// pixels alone works on tokens alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace batchless::hwmodel {

/// Shape of one sample's tensor.
struct FeatureShape {
  int channels = 0;
  int height = 1;
  int width = 1;

  std::int64_t pixels() const { return std::int64_t{height} * width; }
  std::int64_t elements() const { return channels * pixels(); }
  friend bool operator==(const FeatureShape&, const FeatureShape&) = default;
};

/// CHANNELSxHEIGHTxWIDTH.
std::string ToText(const FeatureShape& shape);

enum class LayerKind : unsigned char {
  kConvolution,
  kLinear,
  kGroupNormalization,          ///< over the pixels and channels of a group, for each sample
  kBatchNormalization,          ///< over the pixels of a channel in a whole mini-batch
  kLocalResponseNormalization,  ///< over neighbouring channels of a pixel
  kRelu,
  kMaxPool,
  kAveragePool,  ///< over the whole image
  kDropout,
  kSum,   ///< of the stage's two inputs
  kLoss,  ///< softmax cross-entropy
};
inline constexpr std::size_t kLayerKindCount = static_cast<std::size_t>(LayerKind::kLoss) + 1;

enum class Normalization : unsigned char { kNone, kGroup, kBatch };

/// In the order of the enumeration.
inline constexpr std::array<std::string_view, 3> kNormalizationNames{"none", "group", "batch"};
constexpr std::string_view Name(Normalization normalization) {
  return kNormalizationNames.at(static_cast<std::size_t>(normalization));
}

/// One layer; fields that its kind does not use keep their defaults.
struct Layer {
  LayerKind kind = LayerKind::kRelu;
  std::string name{};  ///< of its parameters, without ".weight"; empty where it has none
  FeatureShape input{};
  FeatureShape output{};
  int kernel = 1;   ///< edge of the window; channels in that of a local response normalisation
  int stride = 1;   ///< of the window; of the pixels that a sum takes from its second input
  int padding = 0;  ///< on each side, zeros (convolution) or nothing (max-pool)
  bool bias = false;
  int groups = 1;                  ///< of a group normalisation
  double dropout_probability = 0;  ///< of an element to be zeroed
  /// Local response normalisation of a_c: a_c (k + alpha / size * sum of a^2 over the window)^-beta, as
  /// in PyTorch. Krizhevsky et al. 2012 write alpha for alpha / size.
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;

  friend bool operator==(const Layer&, const Layer&) = default;
};

/// A number or a choice that a layer is described by, in network files too.
struct LayerField {
  std::string_view name;
  /// A member of the layer, or of its output's shape.
  std::variant<int Layer::*, double Layer::*, bool Layer::*, int FeatureShape::*> member;
  double low = 0;
  double high = 0;
  bool required = false;
};

/// How the trainer lays out what a kind makes, where its vectors' lanes are channels.
enum class ValueOrder : unsigned char { kBlocked, kAsInput, kPlain };

/// What a kind's backward reads again beside what was saved.
enum class Kept : unsigned char { kNothing, kInput, kOutput };

struct LayerTraits {
  LayerKind kind;
  std::string_view name;
  std::span<const LayerField> fields{};
  /// Kinds that may come right before it in one stage; none: it comes first.
  std::span<const LayerKind> follows{};
  int inputs = 1;  ///< values that it takes
  /// From its input and its fields; null: that of the input. Less than one element: it does not fit.
  FeatureShape (*output)(const Layer&) = nullptr;
  std::int64_t (*parameters)(const Layer&) = nullptr;     ///< null: it has none
  std::int64_t (*multiply_adds)(const Layer&) = nullptr;  ///< of weights; null: none
  std::int64_t (*elementwise_flops)(const Layer&);        ///< of the rest
  std::int64_t (*saved_bytes)(const Layer&, int bytes_per_number) = nullptr;
  Kept keeps = Kept::kNothing;
  ValueOrder order = ValueOrder::kAsInput;
  Normalization normalization = Normalization::kNone;
  /// Whether its backward can add to the gradient that a later reader of its input has left.
  bool adds_input_gradient = false;
  bool passes_gradient = false;  ///< every input of its output's shape has the output's gradient
  bool works_in_place = false;   ///< in common frameworks the result takes the place of the input
};

/// The table, in the order of LayerKind.
std::span<const LayerTraits> LayerKinds();

inline const LayerTraits& TraitsOf(LayerKind kind) {
  return LayerKinds()[static_cast<std::size_t>(kind)];
}

/// 0 where the kind has no such function.
std::int64_t ParametersOf(const Layer& layer);
std::int64_t MultiplyAddsOf(const Layer& layer);

}  // namespace batchless::hwmodel
