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
//   embedding              V c'                                      input
//   position               n                 n
//   layer_norm             2 c               8 n                     input            2 (p + c) numbers
//   rms_norm               c                 6 n                     input            2 p + c numbers
//   token_linear           c' (c + b)        2 n' c + b n'           input
//   tied_linear                              2 n' c                  inputs
//   attention                                4 p^2 c' + 5 H p^2      input            H p numbers
//   gelu                                     8 n                     input
//   squared_relu                             2 n                     input
//   loss                                     4 n                                      n numbers
//
// k: edge of the window; b: 1 with a bias, else 0. A backward costs as much again for each of its
// gradients, and only products of weights have one by the weights. A normalisation saves mean, inverse
// standard deviation, scale and shift of each channel, a max-pool which element of each window won, the
// loss its probabilities; a dropout draws its mask again.
//
// A sequence of T tokens of width d is a tensor of d channels, height T and width 1: what works on
// pixels alone works on tokens alone. Where tokens come in, they are one channel of T numbers from 0 to
// V - 1, V the network's classes, and the loss has a label for each of them. Of a sequence:
//
//   embedding     y_t = E[x_t], E of V rows of c' numbers
//   position      y_t = x_t + P[t], P of T rows of c numbers
//   layer_norm    over the channels of each token (Ba et al., arXiv 1607.06450)
//   rms_norm      y_t = g x_t / sqrt(mean of x_t^2 + epsilon) (Zhang and Sennrich, arXiv 1910.07467)
//   token_linear  y_t = W x_t + b
//   tied_linear   y_t = E x_t, E the rows of the network's embedding as a value that came with the sample:
//                 both read one version of them, and their gradients meet where the embedding is, at its
//                 delay (Press and Wolf, arXiv 1608.05859, for one copy of the weights)
//   attention     x_t = (q_t, k_t, v_t), each divided into H heads of c' / H numbers;
//                 y_t = sum over s <= t of softmax_s(q_t . k_s / sqrt(c' / H)) v_s
//                 (Vaswani et al., arXiv 1706.03762)
//   gelu          x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel, 1606.08415)
//   squared_relu  max(0, x)^2 (So et al., arXiv 2109.08668)
//
// An attention saves the logarithm of each softmax's denominator, no matrix of p x p; its FLOPs count all
// pairs of tokens, as published formulas do, and its backward's products are twice the forward's. A layer
// behind another one of its stage saves its input too, unless the backward makes that again from what the
// one before it read (LayerTraits::remade).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

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
  kSum,                 ///< of the stage's two inputs
  kEmbedding,           ///< of the network's input
  kPosition,            ///< a vector for each place of a sequence, added
  kLayerNormalization,  ///< over the channels of each token
  kRmsNormalization,    ///< the same by the root of the mean square alone
  kTokenLinear,         ///< a linear layer on each token
  kTiedLinear,          ///< the same by the rows of the embedding, its second input
  kAttention,           ///< causal, by several heads
  kGelu,
  kSquaredRelu,
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
  int heads = 1;                   ///< of an attention
  int vocabulary = 1;              ///< rows of an embedding or a tied_linear; no field of its own
  double standard_deviation =
      0.02;  ///< of the weights that an embedding or token_linear starts with
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
/// kRows: the channels of a token one behind the other, token by token.
enum class ValueOrder : unsigned char { kBlocked, kAsInput, kPlain, kRows };

/// What a kind's backward reads again beside what was saved.
enum class Kept : unsigned char { kNothing, kInput, kOutput };

inline std::int64_t NoFlops(const Layer&) { return 0; }

struct LayerTraits {
  LayerKind kind;
  std::string_view name;
  std::span<const LayerField> fields{};
  /// Kinds that may come right before it in one stage; none: it comes first.
  std::span<const LayerKind> follows{};
  int inputs = 1;  ///< values that it takes
  /// From its input and its fields; null: that of the input. Less than one element: it does not fit.
  FeatureShape (*output)(const Layer&) = nullptr;
  std::int64_t (*parameters)(const Layer&) = nullptr;         ///< null: it has none
  std::int64_t (*multiply_adds)(const Layer&) = NoFlops;      ///< of weights
  std::int64_t (*elementwise_flops)(const Layer&) = NoFlops;  ///< of the rest
  /// FLOPs of products of two activations, whose gradients take twice as many.
  std::int64_t (*product_flops)(const Layer&) = NoFlops;
  /// Parameters that one sample reads and whose gradients it writes; null: all of them.
  std::int64_t (*sample_parameters)(const Layer&) = nullptr;
  std::int64_t (*saved_bytes)(const Layer&, int bytes_per_number) = nullptr;
  Kept keeps = Kept::kNothing;
  /// Whether a backward makes its output again from its input, for a layer behind it in the stage.
  bool remade = false;
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

/// 0 where the kind has none.
std::int64_t ParametersOf(const Layer& layer);

}  // namespace batchless::hwmodel

// Example
//   Layer convolution;
//   convolution.kind = LayerKind::kConvolution;
//   convolution.input = {.channels = 3, .height = 32, .width = 32};
//   convolution.output = {.channels = 16, .height = 32, .width = 32};
//   convolution.kernel = 3;
//   convolution.padding = 1;
//   CHECK(ParametersOf(convolution) == 16 * 3 * 3 * 3);
//   const LayerTraits& traits = TraitsOf(convolution.kind);
//   CHECK(traits.multiply_adds(convolution) == 32 * 32 * ParametersOf(convolution));
//   CHECK(traits.keeps == Kept::kInput);
