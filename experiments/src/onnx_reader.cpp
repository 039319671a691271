#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/network_builder.h"
#include "batchless/training/backend.h"
#include "onnx_file.h"
#include "onnx_graph.h"
#include "protobuf.h"
#include "usage_error.h"

namespace batchless {
namespace {

using hwmodel::Layer;
using hwmodel::LayerKind;
using hwmodel::Network;
using hwmodel::Stage;
using Names = std::vector<std::string>;
using Shape = OnnxShape;

constexpr std::size_t kMaxModelBytes = std::size_t{1} << 31;

// Letters, digits, '.', '_' and '-', as names in network files are.
std::string Plain(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool kept = static_cast<unsigned char>(c) < 0x80 &&
                      (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-');
    if (kept || !name.empty()) name += kept ? c : '_';
  }
  return name;
}

// The layer that has the weight.
std::string LayerName(std::string_view weight) {
  constexpr std::string_view kWeight = ".weight";
  if (weight.ends_with(kWeight)) weight.remove_suffix(kWeight.size());
  return Plain(weight);
}

// A layer, and which value it reads and makes.
struct Step {
  Layer layer;
  Names inputs;
  std::string output;
  std::string stage;
  std::string node;
  std::vector<Shape> parameters{};  // as the model has them, in OnnxParameters' order
  std::int64_t more_channels = 0;   // zeros behind those of a sum's second input
  Shape shape{};  // with the batch, where a normalisation's groups are put together by it

  const std::string& shown() const { return node.empty() ? output : node; }
};

// The nodes as layers, in the file's order, which is one that they can be computed in.
class Translator {
 public:
  Translator(std::string where, const OnnxGraph& graph)
      : where_(std::move(where)), graph_(graph), tensors_(graph.tensors) {
    for (const OnnxNode& node : graph.nodes) {
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        readers_[node.inputs[k]].push_back({&node, k});
      }
    }
  }

  std::vector<Step> Steps() {
    for (const OnnxNode& node : graph_.nodes) {
      node_ = &node;
      parameters_.clear();
      Translate(node);
    }
    return std::move(steps_);
  }

  // The value that a name stands for, or the parameter before Unsqueeze.
  std::string Behind(const std::string& name) const {
    const auto found = alias_.find(name);
    return found == alias_.end() ? name : found->second;
  }

  [[noreturn]] void Refuse(std::string_view node, std::string_view got,
                           std::string_view accepted) const {
    throw UsageError(fmt::format("{}: node {}", where_, node), got, accepted);
  }

 private:
  using Translation = void (Translator::*)();
  struct Row {
    std::string_view name;
    Translation translate;
  };

  void Translate(const OnnxNode& node) {
    static constexpr std::array<Row, 28> kRows{{
        {"Conv", &Translator::Convolution},
        {"Gemm", &Translator::Linear},
        {"GroupNormalization", &Translator::GroupNormalization},
        {"InstanceNormalization", &Translator::InstanceNormalization},
        {"BatchNormalization", &Translator::BatchNormalization},
        {"LRN", &Translator::LocalResponseNormalization},
        {"Relu", &Translator::Relu},
        {"MaxPool", &Translator::MaxPool},
        {"GlobalAveragePool", &Translator::AveragePool},
        {"Dropout", &Translator::Dropout},
        {"Add", &Translator::Sum},
        {"Pad", &Translator::Pad},
        {"Gather", &Translator::Embedding},
        {"LayerNormalization", &Translator::LayerNormalization},
        {"RMSNormalization", &Translator::RmsNormalization},
        {"MatMul", &Translator::TokenLinear},
        {"Attention", &Translator::Attention_},
        {"Gelu", &Translator::Gelu},
        {"Mul", &Translator::Product},
        {"Flatten", &Translator::Flatten},
        {"Reshape", &Translator::Reshape},
        {"Shape", &Translator::ShapeOf},
        {"Unsqueeze", &Translator::Unsqueeze},
        {"Identity", &Translator::Same},
        {"Transpose", &Translator::Transpose},
        {"Split", &Translator::Split},
        {"Softmax", &Translator::Probabilities},
        {"LogSoftmax", &Translator::Probabilities},
    }};
    if (node.inputs.empty() || node.outputs.empty()) Refuse("no inputs or outputs", "some");
    if (!IsOnnxDomain(node.domain)) {
      Refuse("domain " + node.domain, "operators of ONNX itself");
    }
    const auto row = std::find_if(kRows.begin(), kRows.end(),
                                  [&](const Row& each) { return each.name == node.op; });
    if (row == kRows.end()) {
      Refuse(node.op, analysis::ListOf(analysis::NamesOf(kRows)));
    }
    (this->*row->translate)();
  }

  [[noreturn]] void Refuse(std::string_view got, std::string_view accepted) const {
    const bool is_named = !node_->name.empty() || node_->outputs.empty();
    Refuse(is_named ? node_->name : node_->outputs[0], got, accepted);
  }

  const OnnxAttribute* Find(std::string_view name) const {
    const auto found = node_->attributes.find(name);
    return found == node_->attributes.end() ? nullptr : &found->second;
  }

  double Number(std::string_view name, double otherwise) const {
    const OnnxAttribute* found = Find(name);
    return found == nullptr ? otherwise : found->number;
  }

  int Integer(std::string_view name, int otherwise) const {
    const double number = Number(name, otherwise);
    if (!(number >= 0 && number <= (1 << 30)) || number != std::floor(number)) {
      Refuse(fmt::format("{} {}", name, number), "a natural number");
    }
    return static_cast<int>(number);
  }

  // The one number that all of a list are.
  int Edge(std::string_view name, int otherwise) const {
    const OnnxAttribute* found = Find(name);
    if (found == nullptr || found->integers.empty()) return otherwise;
    const Shape& edges = found->integers;
    if (std::any_of(edges.begin(), edges.end(), [&](auto x) { return x != edges[0]; }) ||
        edges[0] < 0 || edges[0] > (1 << 20)) {
      Refuse(fmt::format("{} {}", name, fmt::join(edges, ", ")), "the same on all sides");
    }
    return static_cast<int>(edges[0]);
  }

  void Require(std::string_view name, double wanted, double otherwise) const {
    if (Number(name, otherwise) == wanted) return;
    Refuse(fmt::format("{} {}", name, Number(name, otherwise)), fmt::format("{}", wanted));
  }

  void RequireText(std::string_view name, std::string_view wanted,
                   std::string_view otherwise) const {
    const OnnxAttribute* found = Find(name);
    const std::string_view text = found == nullptr ? otherwise : std::string_view(found->text);
    if (text != wanted) Refuse(fmt::format("{} {}", name, text), wanted);
  }

  // The parameter's shape, of so many dimensions, and the name that the layer has from it.
  const Shape& Parameter(std::size_t input, std::size_t dimensions, std::string* layer = nullptr) {
    const std::string name = input < node_->inputs.size() ? node_->inputs[input] : "";
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      Refuse(name.empty() ? "too few inputs" : name, "a parameter with a shape");
    }
    const Shape& shape = found->second.shape;
    const bool fits =
        shape.size() == dimensions && std::all_of(shape.begin(), shape.end(), [](auto x) {
          return x >= 1 && x <= std::numeric_limits<int>::max();
        });
    if (!fits) {
      Refuse(fmt::format("{} of shape ({})", name, fmt::join(shape, ", ")),
             fmt::format("a parameter of {} dimensions", dimensions));
    }
    if (layer != nullptr) *layer = LayerName(Behind(name));
    parameters_.push_back(shape);
    return shape;
  }

  bool IsParameter(std::size_t input) const {
    return input < node_->inputs.size() && tensors_.contains(node_->inputs[input]);
  }

  void Add(Layer layer) { Push(std::move(layer), {Behind(node_->inputs[0])}); }

  void Push(Layer layer, Names values) {
    steps_.push_back({std::move(layer), std::move(values), node_->outputs[0], node_->text,
                      node_->name, std::exchange(parameters_, {})});
  }

  void RequireInputs(std::size_t least, std::size_t most) const {
    const std::size_t inputs = node_->inputs.size();
    if (inputs >= least && inputs <= most) return;
    Refuse(fmt::format("{} inputs", inputs),
           least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most));
  }

  // The node that alone reads the value, at that place; null where there is none.
  const OnnxNode* OnlyReader(const std::string& name, std::size_t place) const {
    const auto found = readers_.find(name);
    const bool is_only =
        found != readers_.end() && found->second.size() == 1 && found->second[0].place == place &&
        std::find(graph_.outputs.begin(), graph_.outputs.end(), name) == graph_.outputs.end();
    return is_only ? found->second[0].node : nullptr;
  }

  // Whether the value is a sum's second input, behind a Pad or at once.
  bool IsShortcut(const std::string& name) const {
    const OnnxNode* reader = OnlyReader(name, 0);
    if (reader != nullptr && reader->op == "Pad" && !reader->outputs.empty()) {
      reader = OnlyReader(reader->outputs[0], 1);
    } else {
      reader = OnlyReader(name, 1);
    }
    return reader != nullptr && reader->op == "Add";
  }

  // A convolution or pool has to have one.
  void RequirePlainWindow() const {
    if (Edge("dilations", 1) != 1) Refuse("dilations", "1");
    RequireText("auto_pad", "NOTSET", "NOTSET");
  }

  void Convolution() {
    Layer layer{.kind = LayerKind::kConvolution};
    RequireInputs(2, 3);
    const Shape& shape = Parameter(1, 4, &layer.name);
    if (node_->inputs.size() > 2) Parameter(2, 1);
    Require("group", 1, 1);
    RequirePlainWindow();
    if (shape[2] != shape[3]) Refuse("a window that is no square", "a square one");
    layer.output.channels = static_cast<int>(shape[0]);
    layer.kernel = static_cast<int>(shape[2]);
    layer.stride = Edge("strides", 1);
    layer.padding = Edge("pads", 0);
    layer.bias = node_->inputs.size() > 2;
    Add(std::move(layer));
  }

  void Linear() {
    Layer layer{.kind = LayerKind::kLinear};
    RequireInputs(3, 3);
    const Shape& shape = Parameter(1, 2, &layer.name);
    Require("transA", 0, 0);
    Require("transB", 1, 0);
    Require("alpha", 1, 1);
    Require("beta", 1, 1);
    Parameter(2, 1);
    layer.output.channels = static_cast<int>(shape[0]);
    Add(std::move(layer));
  }

  void RequireEpsilon() const {
    constexpr auto kEpsilon = static_cast<float>(training::kNormalizationEpsilon);
    const auto epsilon = static_cast<float>(Number("epsilon", double{kEpsilon}));
    if (epsilon != kEpsilon)
      Refuse(fmt::format("epsilon {}", epsilon), fmt::format("{}", kEpsilon));
  }

  void Normalization(LayerKind kind, int groups, bool has_shifts = true) {
    Layer layer{.kind = kind, .groups = groups};
    RequireEpsilon();
    Parameter(1, 1, &layer.name);
    if (has_shifts) Parameter(2, 1);
    Add(std::move(layer));
  }

  void GroupNormalization() {
    constexpr std::int64_t kByChannel = 21;  // before, scales were those of groups
    if (graph_.opset < kByChannel) {
      Refuse(fmt::format("GroupNormalization of operator set {}", graph_.opset), "21 or later");
    }
    Normalization(LayerKind::kGroupNormalization, Integer("num_groups", 0));
  }

  // A group normalisation as PyTorch writes it up to operator set 20: its input by Reshape to (N, G, -1), an
  // InstanceNormalization of that by ones and zeros, by Reshape back to the input's shape, then times the scales
  // and plus the shifts, both (C, 1, 1).
  struct Groups {
    enum class Done { kApart, kNormal, kTogether, kScaled } done;
    std::string input;
    int groups;
    Shape shape{};       // that it is put together by, where no Shape says so
    std::string name{};  // of the layer
    Shape scales{};
  };

  // The one that the node goes on with; null where it is at no such place.
  const Groups* Find(Groups::Done done) const {
    const auto found = groups_.find(node_->inputs[0]);
    return found != groups_.end() && found->second.done == done ? &found->second : nullptr;
  }

  // The same, one node further.
  Groups& GoOn(const Groups& before, Groups::Done done) {
    Groups& next = groups_[node_->outputs[0]] = before;
    next.done = done;
    return next;
  }

  void Reshape() {
    Require("allowzero", 0, 0);
    RequireInputs(2, 2);
    const auto given = tensors_.find(node_->inputs[1]);
    const Shape to = given == tensors_.end() ? Shape{} : given->second.integers;
    if (const Groups* normal = Find(Groups::Done::kNormal)) {
      const auto shape = shapes_.find(node_->inputs[1]);
      const bool is_back = shape != shapes_.end() ? shape->second == normal->input : to.size() == 4;
      if (!is_back) Refuse("a Reshape", "one back to the shape before the InstanceNormalization");
      GoOn(*normal, Groups::Done::kTogether).shape = to;
    } else if (to.size() == 3 && to[0] == 0 && to[1] >= 1 && to[1] <= (1 << 20) && to[2] == -1) {
      groups_[node_->outputs[0]] = {.done = Groups::Done::kApart,
                                    .input = Behind(node_->inputs[0]),
                                    .groups = static_cast<int>(to[1])};
    } else if (to.size() == 2 && (to[0] == -1) != (to[1] == -1)) {
      Same();
    } else {
      Refuse(fmt::format("a Reshape to ({})", fmt::join(to, ", ")),
             "one that flattens, or groups channels by (0, G, -1)");
    }
  }

  void ShapeOf() {
    Require("start", 0, 0);
    if (Find("end") != nullptr) Refuse("a Shape with an end", "one of all dimensions");
    shapes_[node_->outputs[0]] = Behind(node_->inputs[0]);
  }

  void InstanceNormalization() {
    RequireInputs(3, 3);
    RequireEpsilon();
    const Groups* apart = Find(Groups::Done::kApart);
    const auto all = [&](std::size_t input, double value) {
      const auto found = tensors_.find(node_->inputs[input]);
      return found != tensors_.end() && found->second.value == value;
    };
    if (apart == nullptr || !all(1, 1) || !all(2, 0)) {
      Refuse("an InstanceNormalization", "one by ones and zeros of channels grouped by a Reshape");
    }
    GoOn(*apart, Groups::Done::kNormal);
  }

  // A parameter (C, 1, 1), as (C).
  Shape ByChannel(std::string* layer = nullptr) {
    const Shape shape = Parameter(1, 3, layer);
    if (shape[1] != 1 || shape[2] != 1) {
      Refuse(fmt::format("{} of shape ({})", node_->inputs[1], fmt::join(shape, ", ")),
             "a number for each channel, (C, 1, 1)");
    }
    return {shape[0]};
  }

  void Scale(const Groups& together) {
    Groups& scaled = GoOn(together, Groups::Done::kScaled);
    scaled.scales = ByChannel(&scaled.name);
  }

  void Shift(const Groups& scaled) {
    const Shape shifts = ByChannel();
    parameters_ = {scaled.scales, shifts};
    Push({.kind = LayerKind::kGroupNormalization, .name = scaled.name, .groups = scaled.groups},
         {scaled.input});
    steps_.back().shape = scaled.shape;
  }

  void Unsqueeze() {
    if (!IsParameter(0)) Refuse("an Unsqueeze", "one of a parameter");
    const OnnxAttribute* listed = Find("axes");
    const auto given = node_->inputs.size() < 2 ? tensors_.end() : tensors_.find(node_->inputs[1]);
    const Shape axes = listed != nullptr         ? listed->integers
                       : given != tensors_.end() ? given->second.integers
                                                 : Shape{};
    OnnxTensor tensor = tensors_.find(node_->inputs[0])->second;
    if (tensor.shape.size() != 1 || axes != Shape{1, 2}) {
      Refuse("an Unsqueeze", "one of a vector by axes 1 and 2");
    }
    tensor.shape.resize(3, 1);
    tensors_[node_->outputs[0]] = std::move(tensor);
    alias_[node_->outputs[0]] = node_->inputs[0];
  }

  void BatchNormalization() {
    Require("training_mode", 0, 0);
    RequireInputs(5, 5);
    Normalization(LayerKind::kBatchNormalization, 1);
  }
  void LayerNormalization() {
    Require("axis", -1, -1);
    Normalization(LayerKind::kLayerNormalization, 1);
  }

  void RmsNormalization() {
    Require("axis", -1, -1);
    Normalization(LayerKind::kRmsNormalization, 1, /*has_shifts=*/false);
  }

  void LocalResponseNormalization() {
    const int size = Integer("size", 0);
    // ONNX has an even window's longer side behind the channel, PyTorch and the trainer before it.
    if (size > 0 && size % 2 == 0) Refuse(fmt::format("size {}", size), "an odd number");
    Add({.kind = LayerKind::kLocalResponseNormalization,
         .kernel = size,
         .alpha = Shortest(Number("alpha", 1e-4)),
         .beta = Shortest(Number("beta", 0.75)),
         .k = Shortest(Number("bias", 1))});
  }

  // The decimal number that was meant by one of 32 bits.
  static double Shortest(double number) {
    return std::stod(fmt::format("{}", static_cast<float>(number)));
  }

  void Relu() { Add({.kind = LayerKind::kRelu}); }
  void AveragePool() { Add({.kind = LayerKind::kAveragePool}); }

  void MaxPool() {
    Require("ceil_mode", 0, 0);
    RequirePlainWindow();
    const int kernel = Edge("kernel_shape", 0);
    const int stride = Edge("strides", 1);
    if (kernel == 1 && stride > 1 && IsShortcut(node_->outputs[0])) {
      shortcuts_[node_->outputs[0]] = {stride, 0};
      Same();
      return;
    }
    Add({.kind = LayerKind::kMaxPool,
         .kernel = kernel,
         .stride = stride,
         .padding = Edge("pads", 0)});
  }

  void Dropout() {
    double probability = Number("ratio", 0.5);
    if (node_->inputs.size() > 1 && !node_->inputs[1].empty()) {
      const auto found = tensors_.find(node_->inputs[1]);
      if (found == tensors_.end() || !found->second.value) {
        Refuse("a ratio that is no constant", "a constant");
      }
      if (found->second.shape.size() > 1) Refuse("a ratio that is no single number", "one number");
      probability = *found->second.value;
    }
    Add({.kind = LayerKind::kDropout, .dropout_probability = Shortest(probability)});
  }

  // A sum of two values, a position or the bias of the product before it.
  void Sum() {
    if (node_->inputs.size() != 2) Refuse("an Add of one value", "two");
    if (!IsParameter(1)) {
      const Shortcut& shortcut = shortcuts_[node_->inputs[1]];
      Push({.kind = LayerKind::kSum, .stride = shortcut.stride},
           {Behind(node_->inputs[0]), Behind(node_->inputs[1])});
      steps_.back().more_channels = shortcut.channels;
    } else if (const Groups* scaled = Find(Groups::Done::kScaled)) {
      Shift(*scaled);
    } else if (tensors_.find(node_->inputs[1])->second.shape.size() == 2) {
      Layer layer{.kind = LayerKind::kPosition};
      Parameter(1, 2, &layer.name);
      Add(std::move(layer));
    } else {
      Parameter(1, 1);
      const bool is_bias = !steps_.empty() && steps_.back().output == Behind(node_->inputs[0]) &&
                           steps_.back().layer.kind == LayerKind::kTokenLinear &&
                           !steps_.back().layer.bias;
      if (!is_bias) Refuse("a vector added to what is no MatMul", "the bias of the node before");
      steps_.back().layer.bias = true;
      steps_.back().output = node_->outputs[0];
      steps_.back().parameters.push_back(std::exchange(parameters_, {}).back());
    }
  }

  // Zeros behind the channels of a sum's second input.
  void Pad() {
    RequireText("mode", "constant", "constant");
    RequireInputs(2, 2);
    const auto pads = tensors_.find(node_->inputs[1]);
    const OnnxNode* const reader = OnlyReader(node_->outputs[0], 1);
    const Shape sizes = pads == tensors_.end() ? Shape{} : pads->second.integers;
    constexpr std::size_t kChannelsEnd = 5;  // of (N, C, H, W), the ends after the beginnings
    bool is_shortcut = reader != nullptr && reader->op == "Add" && sizes.size() == 8;
    for (std::size_t k = 0; is_shortcut && k < sizes.size(); ++k) {
      is_shortcut = k == kChannelsEnd ? sizes[k] > 0 : sizes[k] == 0;
    }
    if (!is_shortcut) Refuse("Pad", "zeros behind the channels of an Add's second value");
    shortcuts_[node_->outputs[0]] = {shortcuts_[node_->inputs[0]].stride, sizes[kChannelsEnd]};
    Same();
  }

  void Embedding() {
    Layer layer{.kind = LayerKind::kEmbedding};
    const Shape& shape = Parameter(0, 2, &layer.name);
    Require("axis", 0, 0);
    layer.output.channels = static_cast<int>(shape[1]);
    vocabulary_ = static_cast<int>(shape[0]);
    rows_ = node_->inputs[0];
    RequireInputs(2, 2);
    Push(std::move(layer), {Behind(node_->inputs[1])});
  }

  void Transpose() {
    const OnnxAttribute* order = Find("perm");
    if (IsParameter(0) && (order == nullptr || order->integers == Shape{1, 0})) {
      transposed_[node_->outputs[0]] = node_->inputs[0];
    } else {
      Refuse("a Transpose", "that of a matrix of parameters");
    }
  }

  void TokenLinear() {
    const auto weight =
        node_->inputs.size() < 2 ? transposed_.end() : transposed_.find(node_->inputs[1]);
    if (weight == transposed_.end()) {
      Refuse("a MatMul", "one by the Transpose of a parameter, whose rows are outputs");
    }
    if (weight->second == rows_) {
      return Push({.kind = LayerKind::kTiedLinear}, {Behind(node_->inputs[0]), rows_});
    }
    const Shape& shape = tensors_.find(weight->second)->second.shape;
    if (shape.size() != 2) Refuse("a weight that is no matrix", "a matrix");
    parameters_ = {shape};
    Add({.kind = LayerKind::kTokenLinear,
         .name = LayerName(weight->second),
         .output = {.channels = static_cast<int>(std::clamp<std::int64_t>(shape[0], 0, 1 << 30))}});
  }

  void Split() {
    const double axis = Number("axis", 0);
    if (node_->outputs.size() != 3 || node_->inputs.size() != 1 || (axis != -1 && axis != 2)) {
      Refuse("a Split", "one of the channels in three equal parts, of an Attention");
    }
    for (std::size_t k = 0; k < 3; ++k) parts_[node_->outputs[k]] = {Behind(node_->inputs[0]), k};
  }

  void Attention_() {
    Require("is_causal", 1, 0);
    const int heads = Integer("q_num_heads", 0);
    Require("kv_num_heads", heads, 0);
    Require("softcap", 0, 0);
    if (Find("scale") != nullptr) Refuse("scale", "that of the heads' width, which is not given");
    const std::string* whole = nullptr;
    bool is_split = node_->inputs.size() == 3;
    for (std::size_t k = 0; is_split && k < 3; ++k) {
      const auto part = parts_.find(node_->inputs[k]);
      is_split = part != parts_.end() && part->second.second == k &&
                 (whole == nullptr || *whole == part->second.first);
      if (is_split) whole = &part->second.first;
    }
    if (!is_split) Refuse("an Attention", "queries, keys and values from one Split, in this order");
    Push({.kind = LayerKind::kAttention, .heads = heads}, {*whole});
  }

  void Gelu() {
    RequireText("approximate", "tanh", "none");
    Add({.kind = LayerKind::kGelu});
  }

  // The node multiplies by a group normalisation's scales, or a Relu by itself.
  void Product() {
    if (const Groups* together = Find(Groups::Done::kTogether)) return Scale(*together);
    const bool is_square = node_->inputs.size() == 2 && node_->inputs[0] == node_->inputs[1] &&
                           !steps_.empty() && steps_.back().layer.kind == LayerKind::kRelu &&
                           steps_.back().output == Behind(node_->inputs[0]);
    if (!is_square) Refuse("a Mul", "one of a Relu by itself, or by the scales of a GroupNorm");
    steps_.back().layer.kind = LayerKind::kSquaredRelu;
    steps_.back().output = node_->outputs[0];
  }

  void Flatten() {
    Require("axis", 1, 1);
    Same();
  }

  // Writers that keep equal parameters once give each layer its own by Identity.
  void Same() {
    if (IsParameter(0)) {
      tensors_[node_->outputs[0]] = tensors_.find(node_->inputs[0])->second;
    } else {
      alias_[node_->outputs[0]] = Behind(node_->inputs[0]);
    }
  }

  void Probabilities() {
    const bool is_last = std::find(graph_.outputs.begin(), graph_.outputs.end(),
                                   node_->outputs[0]) != graph_.outputs.end();
    if (!is_last) Refuse(node_->op, "one that is the model's output, or none");
    Same();
  }

 public:
  // How many rows the embedding has, and their name; 0 without one.
  int vocabulary() const { return vocabulary_; }
  const std::string& rows() const { return rows_; }

 private:
  std::string where_;
  const OnnxGraph& graph_;
  const OnnxNode* node_ = nullptr;
  std::vector<Step> steps_;
  std::map<std::string, std::string, std::less<>> alias_;
  std::map<std::string, OnnxTensor, std::less<>> tensors_;  // the graph's and those made of them
  std::map<std::string, std::string, std::less<>> shapes_;  // values that Shape was taken of
  std::map<std::string, Groups, std::less<>> groups_;
  std::map<std::string, std::string, std::less<>> transposed_;
  struct Shortcut {
    int stride = 1;
    std::int64_t channels = 0;
  };
  std::map<std::string, Shortcut, std::less<>> shortcuts_;  // second inputs of sums
  std::map<std::string, std::pair<std::string, std::size_t>, std::less<>> parts_;
  struct Reader {
    const OnnxNode* node;
    std::size_t place;
  };
  std::map<std::string, std::vector<Reader>, std::less<>> readers_;
  std::vector<Shape> parameters_;  // of the node at hand
  int vocabulary_ = 0;
  std::string rows_;
};

// Steps of one stage: neighbours of the same name, each reading what the one before makes alone.
std::vector<std::span<const Step>> Stages(const std::vector<Step>& steps) {
  std::vector<std::span<const Step>> stages;
  for (std::size_t begin = 0; begin < steps.size();) {
    std::size_t end = begin + 1;
    while (end < steps.size() && !steps[end].stage.empty() &&
           steps[end].stage == steps[begin].stage &&
           steps[end].inputs == Names{steps[end - 1].output}) {
      ++end;
    }
    stages.push_back(std::span(steps).subspan(begin, end - begin));
    begin = end;
  }
  return stages;
}

// Whether the model's parameters, and the zeros behind a sum's second input, are those of the layers.
void CheckShapes(const Translator& translator, const Network& network, std::size_t s,
                 std::span<const Step> steps) {
  const Stage& stage = network.stages.at(s);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Layer& layer = stage.layers.at(i);
    const std::vector<OnnxParameter> expected = OnnxParameters(layer);
    for (std::size_t k = 0; k < steps[i].parameters.size(); ++k) {
      const Shape& shape = steps[i].parameters[k];
      if (k < expected.size() && shape == expected[k].shape) continue;
      translator.Refuse(
          steps[i].shown(), fmt::format("a parameter of shape ({})", fmt::join(shape, ", ")),
          k < expected.size() ? fmt::format("({})", fmt::join(expected[k].shape, ", "))
                              : std::string("none"));
    }
    const Shape& shape = steps[i].shape;
    const hwmodel::FeatureShape& out = layer.output;
    if (!shape.empty() &&
        Shape(shape.begin() + 1, shape.end()) != Shape{out.channels, out.height, out.width}) {
      translator.Refuse(steps[i].shown(), fmt::format("a Reshape to ({})", fmt::join(shape, ", ")),
                        fmt::format("(N, {}, {}, {})", out.channels, out.height, out.width));
    }
    if (layer.kind != LayerKind::kSum) continue;
    const std::int64_t channels = network.values.at(stage.inputs[1]).shape.channels;
    if (channels + steps[i].more_channels != layer.output.channels) {
      translator.Refuse(steps[i].shown(),
                        fmt::format("{} and {} channels", layer.output.channels,
                                    channels + steps[i].more_channels),
                        "as many");
    }
  }
}

// Channels of a value: those of the last layer before it that says how many it makes.
int ChannelsOf(const std::vector<Step>& steps, std::string value, int of_input) {
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (step->output != value) continue;
    if (step->layer.output.channels > 0) return step->layer.output.channels;
    value = step->inputs[0];
  }
  return of_input;
}

Network NetworkOf(const std::string& where, const OnnxGraph& graph) {
  Translator translator(where, graph);
  const std::vector<Step> steps = translator.Steps();
  if (steps.empty()) throw UsageError(where + ": graph", "no layers", "a network");
  const Shape& shape = graph.input_shape;
  const bool is_sequence = translator.vocabulary() > 0;
  if (shape.size() != (is_sequence ? 1 : 3) ||
      std::any_of(shape.begin(), shape.end(), [](auto x) { return x < 1 || x > (1 << 20); })) {
    throw UsageError(fmt::format("{}: input {}", where, graph.input),
                     fmt::format("shape (N, {})", fmt::join(shape, ", ")),
                     "batch, channels, height and width, or with an embedding batch and tokens");
  }
  std::vector<int> edges(shape.begin(), shape.end());
  if (is_sequence) edges = {1, edges[0], 1};
  const hwmodel::FeatureShape input{edges[0], edges[1], edges[2]};
  const std::vector<std::span<const Step>> stages = Stages(steps);
  const std::string output =
      translator.Behind(graph.outputs.empty() ? std::string() : graph.outputs[0]);
  if (std::none_of(stages.begin(), stages.end(),
                   [&](const auto& own) { return own.back().output == output; })) {
    throw UsageError(where + ": output", output, "a value that a node makes");
  }
  const int classes =
      is_sequence ? translator.vocabulary() : ChannelsOf(steps, output, input.channels);
  std::string name = Plain(graph.name);
  hwmodel::NetworkBuilder builder(name.empty() ? "model" : name, input, classes);
  std::map<std::string, int, std::less<>> values{{graph.input, 0}};
  std::set<std::string> names;
  std::set<std::string> parameters;
  for (const std::span<const Step> own : stages) {
    Stage stage;
    const Step& last = own.back();
    stage.name = Plain(!last.stage.empty()        ? last.stage
                       : !last.layer.name.empty() ? last.layer.name
                                                  : last.node);
    if (stage.name.empty() || stage.name == "input") {
      stage.name = hwmodel::TraitsOf(last.layer.kind).name;
    }
    const std::string base = stage.name;
    for (int k = 2; !names.insert(stage.name).second; ++k)
      stage.name = fmt::format("{}_{}", base, k);
    for (const Step& step : own) {
      stage.layers.push_back(step.layer);
      if (!step.layer.name.empty() && !parameters.insert(step.layer.name).second) {
        translator.Refuse(step.shown(), step.layer.name,
                          "a name that no other layer's parameters have");
      }
    }
    for (const std::string& value : own.front().inputs) {
      const auto found = values.find(value);
      if (found == values.end()) {
        translator.Refuse(own.front().shown(), value, "a value that an earlier node makes");
      }
      stage.inputs.push_back(found->second);
    }
    // Whether a later stage reads an embedding's rows, or what comes into the last layer.
    const bool has_rows = own.front().layer.kind == LayerKind::kEmbedding;
    const std::string other = has_rows         ? translator.rows()
                              : own.size() > 1 ? own[own.size() - 2].output
                                               : "";
    const Step* const end = own.data() + own.size();
    const bool is_read =
        !other.empty() && std::any_of(end, steps.data() + steps.size(), [&](const Step& step) {
          return std::find(step.inputs.begin(), step.inputs.end(), other) != step.inputs.end();
        });
    int second = -1;
    const int value = builder.Add(std::move(stage), is_read ? &second : nullptr);
    values[last.output] = value;
    if (is_read) values[other] = second;
  }
  builder.Add({.name = names.contains("loss") ? "loss_" : "loss",
               .layers = {{.kind = LayerKind::kLoss}},
               .inputs = {values.at(output)}});
  Network network = builder.Finish();
  RefuseOtherDimensions(network);
  for (std::size_t s = 0; s < stages.size(); ++s) CheckShapes(translator, network, s, stages[s]);
  return network;
}

}  // namespace

bool IsOnnxFile(std::string_view name) { return name.ends_with(".onnx"); }

Network ReadOnnxNetwork(const std::string& argument, const std::string& path) {
  constexpr std::string_view kAccepted = "a model, PATH.onnx";
  const std::string text = ReadInput(argument, path, kAccepted, kMaxModelBytes);
  try {
    const std::string where = fmt::format("{} {}", argument, path);
    return Within(where, [&] { return NetworkOf(where, ParseOnnxModel(text)); });
  } catch (const ProtobufError& error) {
    throw UsageError(argument, path, fmt::format("{} ({})", kAccepted, error.what()));
  }
}

}  // namespace batchless
