// A network as a list of stages, as data: what trainer, hardware model and figures all read.
//
//   stage   the unit of pipelining: layers that one worker runs without passing anything on between
//           them; numbered s = 0 (input) .. S-1 (loss)
//   value   a tensor of (channels, height, width) for each sample that a stage gives to later ones;
//           value 0 is the network's input. Flat features have height = width = 1
//   boundary between s and s+1: the values made by stages up to s (or the input) and needed by
//           stages after s. A skip connection is a value that several stages read, so it is part of
//           every boundary that it crosses
//
//   network                          stages                                     S
//   resnet20/32/44/56/110            9n + 7, n = 3, 5, 7, 9, 18                 34, 52, 70, 88, 169
//   vgg11/13/16                      2L + 7, L = 11, 13, 16 weight layers       29, 33, 39
//   resnet20-v1                      post-activation, with normalisation   59
//   resnet50                         pre-activation bottlenecks, 224 x 224      74
//   lenet5                           28 x 28 x 1                                12
//   alexnet                          for 32 x 32                                21
//   mlp, linear                      2 hidden layers unless given               6, 2
//   gpt                              4L + 4, L blocks                           28
//
// ResNet: conv3x3 16; three groups of n pre-activation blocks at widths 16, 32, 64; a block is
// h = relu(norm(x)), y = conv3x3(h), z = conv3x3(relu(norm(y))), out = z + shortcut, with shortcut
// = x, or a 1x1 convolution of h where the shape changes. Its stages: norm+relu+conv, (1x1
// shortcut), norm+relu+conv, sum. Convolutions have a bias only in networks without normalisation.
// In resnet20-v1, the ResNet as first published, a convolution is followed by its normalisation, a sum
// by a ReLU, and a shortcut has no weights: every second pixel, and zeros in the further channels.
//
// gpt is a decoder over T tokens of width d: embedding with learned positions; L blocks of
// x + attention(norm(x)) and x + MLP(norm(x)), the MLP 4 d wide with GELU; a last norm, and scores for
// each of V tokens by a matrix of their own. Stages of a block: norm and attention, sum, norm and MLP,
// sum. Without norm_first a block is norm(x + attention(x)) and norm(x + MLP(x)), each norm a stage of its
// own and no last one: 6L + 3 stages. With tied embeddings the scores are products with the embedding's
// rows, which the embedding hands on with each sample: both uses read one version of them, their gradients
// meet at stage 0, and every boundary carries V d numbers more. Weights start normal with standard deviation 0.02, the last of each branch with that divided by
// sqrt(2 L), biases at 0. Tensors have GPT-2's names, and (out, in) where its own files have (in, out).
//
// Sources: Kosson et al., arXiv 2003.11666 (stages, ResNet, VGG); He et al., arXiv 1603.05027
// (pre-activation) and 1512.03385
// (resnet20-v1); Simonyan and Zisserman, arXiv 1409.1556 (VGG); LeCun et al. 1998 (LeNet-5).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/layer.h"

namespace batchless::hwmodel {

struct Stage {
  std::string name;
  std::vector<Layer> layers;  ///< in order, each taking the result of the one before
  std::vector<int> inputs;    ///< values; the first layer takes all of them
  /// Values. The first is the result of the last layer; a second one is what that layer reads, as the
  /// 1x1 shortcut needs it, or of a stage that begins with an embedding its rows, for a tied_linear.
  std::vector<int> outputs{};

  friend bool operator==(const Stage&, const Stage&) = default;
};

struct Value {
  FeatureShape shape;
  int producer = -1;             ///< stage; -1 for the network's input
  std::vector<int> consumers{};  ///< stages, ascending

  friend bool operator==(const Value&, const Value&) = default;
};

struct Network {
  std::string name;
  FeatureShape input{};
  int classes = 0;
  std::vector<Stage> stages;
  std::vector<Value> values;

  int stage_count() const { return static_cast<int>(stages.size()); }
  friend bool operator==(const Network&, const Network&) = default;
};

struct NetworkOptions {
  std::string name = "resnet20";
  /// Group for ResNet and VGG, none for the others, unless given; LeNet-5, AlexNet, MLP and linear
  /// have none.
  std::optional<Normalization> normalization{};
  /// Groups of every group normalisation of the network; 0: the network's default, half of its
  /// first width, at most 32.
  int groups = 0;
  /// The network's default where its channels are 0.
  FeatureShape input{};
  int classes = 0;  ///< 0: the network's default
  /// Widths of the hidden linear layers of the MLP, 256, 256 where empty, or of a VGG, 512, 512.
  std::vector<int> hidden{};
  /// Size of a gpt; its tokens are the input's height, 128 unless given, and its vocabulary the classes,
  /// 256. Where these are 0 it has 6 layers, width 128, and a head for each 32 of the width.
  int layers = 0;
  int width = 0;
  int heads = 0;
  bool rms_norm = false;  ///< of a gpt: RMSNorm in place of LayerNorm
  bool norm_first =
      true;  ///< of a gpt: a norm before each branch and a last one, or one behind each sum
  bool squared_relu = false;  ///< of a gpt: in place of GELU
  bool tied_embeddings =
      false;  ///< of a gpt: scores by the embedding's rows, which go with each sample
};

/// The names that MakeNetwork knows; it takes CIFAR ResNets of other depths too, resnet(6n+2) and
/// resnet(6n+2)-v1, that are in no table of the papers' networks.
std::span<const std::string_view> NetworkNames();

/// Whether MakeNetwork takes the name: one of NetworkNames() or another depth of a CIFAR ResNet.
bool IsNetworkName(std::string_view name);

/// Throws analysis::InvalidArgument naming network.name, network.norm, network.groups, network.input,
/// network.classes, network.hidden, network.layers, network.width, network.heads, network.token_norm,
/// network.norm_first, network.activation or network.tie_word_embeddings.
Network MakeNetwork(const NetworkOptions& options);

/// Whether a layer of that kind is in the network.
bool HasLayer(const Network& network, LayerKind kind);

/// Whether the second value of `stage` is the rows of its embedding.
bool HandsOnRows(const Stage& stage);

/// Whether the backward of `stage` reads its inputs again: a stage of several layers computes what is
/// between them anew.
bool KeepsInput(const Stage& stage);
/// Whether it reads its (first) output again.
bool KeepsOutput(const Stage& stage);

/// What a stage saves for the backward of one sample beside the values that it keeps.
std::int64_t SavedBytes(const Stage& stage, int bytes_per_number);
/// Whether the input of the stage's layer number `layer` is part of that.
bool SavesInput(const Stage& stage, std::size_t layer);

/// Labels of a sample: one, or with a loss of each token as many as these.
int LabelsOf(const Network& network);

/// A value that crosses a stage without being read there.
struct PassingValue {
  std::int64_t bytes = 0;
  int next_reader = 0;  ///< stage
};

/// Work and sizes of one stage for one sample, by its layers' (layer.h).
struct StageCost {
  std::int64_t parameters = 0;
  std::int64_t forward_flops = 0;
  /// Without that of the network's input, which nobody wants: 0 of a layer alone that reads it.
  std::int64_t input_gradient_flops = 0;
  std::int64_t weight_gradient_flops = 0;
  /// FLOPs of all passes over a sample, without the update.
  std::int64_t training_flops() const {
    return forward_flops + input_gradient_flops + weight_gradient_flops;
  }
  std::int64_t update_flops = 0;  ///< weight decay, momentum and step: 6 a parameter
  std::int64_t parameter_bytes = 0;
  /// Kept from a sample's forward to its backward: inputs or outputs read again, and what is saved.
  /// A value that two stages keep counts at the first of them (Workload::WorkerActivationBytes).
  std::int64_t activation_bytes = 0;
  /// Bytes of values that an earlier stage also keeps, and the last stage that does.
  std::int64_t kept_again_bytes = 0;
  int kept_before_by = -1;
  /// What the stage's own passes move, beside weights; what only crosses it is in none of them.
  std::int64_t read_bytes = 0;     ///< values that its forward reads
  std::int64_t written_bytes = 0;  ///< values that it makes
  std::int64_t saved_bytes = 0;    ///< that its forward writes for its backward alone
  std::int64_t kept_bytes = 0;     ///< that its backward reads again, what is saved with them
  /// Gradients that its backward reads and writes. Into that of a value that several stages read all
  /// but the last of them add; a sum passes its output's on as it is, but for the copies that it makes
  /// where an input's has another place (memory_plan.h).
  std::int64_t gradient_bytes = 0;
  /// Weights that one sample reads and whose gradients it writes; 0: all of them.
  std::int64_t sample_parameter_bytes = 0;
  /// Results of all its layers, the loss's left out, where every layer writes one of its own and
  /// keeps it, as layers of common frameworks do. 0 where nothing is known of the layers.
  std::int64_t layer_output_bytes = 0;
  std::int64_t relu_output_bytes = 0;  ///< of these, what ReLUs in place do without
  std::int64_t boundary_bytes = 0;  ///< of the values that cross to the next stage, one direction
  std::vector<PassingValue> passing{};  ///< those of them that the next stage does not read
  /// Values that its largest layer makes.
  std::int64_t largest_output = 1;
};

/// Costs by stage, with `bytes_per_number` bytes for each number.
std::vector<StageCost> ComputeCosts(const Network& network, int bytes_per_number = 4);

}  // namespace batchless::hwmodel

// Example
//   const Network network = MakeNetwork({.name = "linear"});
//   CHECK(network.stage_count() == 2);
//   std::int64_t parameters = 0;
//   for (const StageCost& cost : ComputeCosts(network)) parameters += cost.parameters;
//   CHECK(parameters == (network.input.elements() + 1) * network.classes);
