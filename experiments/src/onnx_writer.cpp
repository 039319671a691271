#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/training/backend.h"
#include "onnx_fields.h"
#include "onnx_file.h"
#include "protobuf.h"
#include "version.h"

namespace batchless {
namespace {

using hwmodel::FeatureShape;
using hwmodel::Layer;
using hwmodel::LayerKind;
using hwmodel::Network;
using hwmodel::Stage;
using Names = std::vector<std::string>;
using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kLeastOpset = 17;
constexpr const char* kBatch = "N";

// The least version of the operator set, and of the format, that has the layers.
struct Versions {
  std::int64_t opset;
  std::int64_t ir;
};

Versions VersionsFor(const Network& network) {
  if (HasLayer(network, LayerKind::kAttention) || HasLayer(network, LayerKind::kRmsNormalization)) {
    return {23, 11};
  }
  if (HasLayer(network, LayerKind::kGroupNormalization)) return {21, 10};
  if (HasLayer(network, LayerKind::kGelu)) return {20, 9};
  return {kLeastOpset, 8};
}

ProtobufWriter AttributeOf(std::string_view name, std::int64_t type) {
  ProtobufWriter attribute;
  attribute.Text(onnx::Attribute::kName, name).Integer(onnx::Attribute::kType, type);
  return attribute;
}

ProtobufWriter Integer(std::string_view name, std::int64_t value) {
  return AttributeOf(name, onnx::Attribute::kIsInteger).Integer(onnx::Attribute::kInteger, value);
}

ProtobufWriter Float(std::string_view name, double value) {
  return AttributeOf(name, onnx::Attribute::kIsFloat)
      .Float(onnx::Attribute::kFloat, static_cast<float>(value));
}

ProtobufWriter Text(std::string_view name, std::string_view value) {
  return AttributeOf(name, onnx::Attribute::kIsText).Text(onnx::Attribute::kText, value);
}

ProtobufWriter Integers(std::string_view name, std::initializer_list<std::int64_t> values) {
  ProtobufWriter attribute = AttributeOf(name, onnx::Attribute::kIsIntegers);
  for (const std::int64_t value : values) attribute.Integer(onnx::Attribute::kIntegers, value);
  return attribute;
}

// What describes the windows of a convolution or pool.
std::vector<ProtobufWriter> Window(const Layer& layer) {
  const std::int64_t k = layer.kernel;
  const std::int64_t p = layer.padding;
  const std::int64_t s = layer.stride;
  return {Integers("kernel_shape", {k, k}), Integers("strides", {s, s}),
          Integers("pads", {p, p, p, p})};
}

template <class Element>
ProtobufWriter TensorOf(std::string_view name, int type, const Shape& shape,
                        const std::vector<Element>& values) {
  ProtobufWriter tensor;
  for (const std::int64_t extent : shape) tensor.Integer(onnx::Tensor::kDimensions, extent);
  const auto bytes = std::as_bytes(std::span(values));
  return tensor.Integer(onnx::Tensor::kType, type)
      .Text(onnx::Tensor::kName, name)
      .Text(onnx::Tensor::kRaw, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// An input or output of the graph; its first extent is the batch where `is_batched`.
ProtobufWriter ValueOf(std::string_view name, int type, const Shape& shape, bool is_batched) {
  ProtobufWriter dimensions;
  if (is_batched) {
    dimensions.Message(onnx::Type::kDimension, ProtobufWriter().Text(onnx::Type::kSymbol, kBatch));
  }
  for (const std::int64_t extent : shape) {
    dimensions.Message(onnx::Type::kDimension,
                       ProtobufWriter().Integer(onnx::Type::kExtent, extent));
  }
  const ProtobufWriter tensor =
      ProtobufWriter().Integer(onnx::Type::kElement, type).Message(onnx::Type::kShape, dimensions);
  return ProtobufWriter()
      .Text(onnx::ValueInfo::kName, name)
      .Message(onnx::ValueInfo::kType, ProtobufWriter().Message(onnx::Type::kTensor, tensor));
}

bool IsSequence(const Network& network) {
  return network.stages.front().layers.front().kind == LayerKind::kEmbedding;
}

// Kinds of layers whose operators go over channels, height and width.
const std::set<LayerKind>& KindsOfImages() {
  static const std::set<LayerKind> kKinds{
      LayerKind::kConvolution,        LayerKind::kLinear,  LayerKind::kGroupNormalization,
      LayerKind::kBatchNormalization, LayerKind::kMaxPool, LayerKind::kLocalResponseNormalization,
      LayerKind::kAveragePool};
  return kKinds;
}

// And over the last dimension.
const std::set<LayerKind>& KindsOfTokens() {
  static const std::set<LayerKind> kKinds{LayerKind::kPosition, LayerKind::kLayerNormalization,
                                          LayerKind::kRmsNormalization, LayerKind::kTokenLinear,
                                          LayerKind::kAttention};
  return kKinds;
}

class Writer {
 public:
  Writer(const Network& network,
         const std::optional<std::span<const training::NamedTensor>>& weights)
      : network_(network), has_weights_(weights.has_value()) {
    if (!weights) return;
    for (const training::NamedTensor& tensor : *weights) weights_[tensor.name] = &tensor;
  }

  std::string Write() {
    names_.assign(network_.values.size(), "");
    names_[0] = "input";
    for (const Stage& stage : network_.stages) {
      stage_ = &stage;
      Names inputs;
      for (const int value : stage.inputs) inputs.push_back(names_.at(value));
      for (std::size_t i = 0; i < stage.layers.size(); ++i) {
        if (stage.layers[i].kind == LayerKind::kLoss) break;
        if (i + 1 == stage.layers.size() && stage.outputs.size() == 2) {
          names_.at(stage.outputs[1]) =
              hwmodel::HandsOnRows(stage) ? stage.layers[0].name + ".weight" : inputs.front();
        }
        if (!IsSequence(network_)) Lay(stage.layers[i], inputs);
        last_ = LayerOf(stage.layers[i], inputs);
        if (stage.layers[i].kind == LayerKind::kLinear || IsFlat(inputs[0])) flat_.insert(last_);
        inputs = {last_};
      }
      if (!stage.outputs.empty()) names_.at(stage.outputs[0]) = last_;
    }
    // The scores of an image are a row of numbers.
    if (!IsFlat(last_) && !IsSequence(network_)) last_ = Flat(last_);
    for (const auto& [name, tensor] : weights_) {
      analysis::RefuseIf(
          !used_weights_.contains(name) && !training::IsPyTorchBuffer(name, used_weights_), name,
          "a tensor", "those of the network alone");
    }
    const Versions versions = VersionsFor(network_);
    return ProtobufWriter()
        .Integer(onnx::Model::kIrVersion, versions.ir)
        .Text(onnx::Model::kProducer, "batchless")
        .Text(onnx::Model::kProducerVersion, GetBuildInfo().version)
        .Message(onnx::Model::kGraph, Finished())
        .Message(onnx::Model::kOpset,
                 ProtobufWriter().Integer(onnx::Opset::kVersion, versions.opset))
        .bytes();
  }

 private:
  ProtobufWriter Finished() {
    const bool is_sequence = IsSequence(network_);
    const FeatureShape& in = network_.input;
    const Shape shape = is_sequence ? Shape{in.height} : Shape{in.channels, in.height, in.width};
    const int type = is_sequence ? onnx::kInt64 : onnx::kFloat32;
    Shape scores{network_.classes};
    if (is_sequence) scores.insert(scores.begin(), in.height);
    graph_.Text(onnx::Graph::kName, network_.name)
        .Message(onnx::Graph::kInput, ValueOf(names_[0], type, shape, true));
    for (const ProtobufWriter& parameter : inputs_) {
      graph_.Message(onnx::Graph::kInput, parameter);
    }
    graph_.Message(onnx::Graph::kOutput, ValueOf(last_, onnx::kFloat32, scores, true));
    return graph_;
  }

  // The node's output, which has the layer's place in the stage for a name.
  std::string Node(std::string_view op, const Names& inputs,
                   const std::vector<ProtobufWriter>& attributes = {}, int outputs = 1) {
    std::string name = fmt::format("{}/{}", stage_->name, op);
    for (int k = 2; !used_.insert(name).second; ++k) {
      name = fmt::format("{}/{}_{}", stage_->name, op, k);
    }
    ProtobufWriter node;
    for (const std::string& input : inputs) node.Text(onnx::Node::kInput, input);
    for (int k = 0; k < outputs; ++k) {
      node.Text(onnx::Node::kOutput, outputs == 1 ? name : fmt::format("{}:{}", name, k));
    }
    node.Text(onnx::Node::kName, name).Text(onnx::Node::kOperator, op);
    for (const ProtobufWriter& attribute : attributes) {
      node.Message(onnx::Node::kAttribute, attribute);
    }
    graph_.Message(onnx::Graph::kNode, node.Text(onnx::Node::kText, stage_->name));
    return name;
  }

  std::string Parameter(const std::string& name, const Shape& shape) {
    if (!has_weights_) {
      inputs_.push_back(ValueOf(name, onnx::kFloat32, shape, false));
      return name;
    }
    const auto found = weights_.find(name);
    analysis::RefuseIf(found == weights_.end(), name, "nothing", "a tensor of the network");
    analysis::RefuseIf(found->second->shape != shape, name,
                       fmt::format("shape ({})", fmt::join(found->second->shape, ", ")),
                       fmt::format("shape ({})", fmt::join(shape, ", ")));
    used_weights_.insert(name);
    const std::vector<double>& values = found->second->values;
    for (const double value : values) {
      analysis::RefuseIf(!std::isfinite(static_cast<float>(value)), name, value,
                         "finite numbers of float");
    }
    graph_.Message(
        onnx::Graph::kInitializer,
        TensorOf(name, onnx::kFloat32, shape, std::vector<float>(values.begin(), values.end())));
    return name;
  }

  template <class Element>
  std::string Constant(std::string_view what, int type, const Shape& shape,
                       const std::vector<Element>& values) {
    std::string name = fmt::format("{}/{}", stage_->name, what);
    graph_.Message(onnx::Graph::kInitializer, TensorOf(name, type, shape, values));
    return name;
  }

  // The layer's parameters behind what it reads.
  Names WithParameters(const std::string& input, const Layer& layer) {
    Names all{input};
    for (const OnnxParameter& parameter : OnnxParameters(layer)) {
      all.push_back(Parameter(layer.name + std::string(parameter.suffix), parameter.shape));
    }
    return all;
  }

  std::string LayerOf(const Layer& layer, const Names& inputs) {
    switch (layer.kind) {
      case LayerKind::kConvolution:
        return Node("Conv", WithParameters(inputs[0], layer), Window(layer));
      case LayerKind::kLinear:
        return Node("Gemm", WithParameters(Flat(inputs[0]), layer), {Integer("transB", 1)});
      case LayerKind::kGroupNormalization:
        return Node("GroupNormalization", WithParameters(inputs[0], layer),
                    {Integer("num_groups", layer.groups),
                     Float("epsilon", training::kNormalizationEpsilon)});
      case LayerKind::kBatchNormalization:
        return Node("BatchNormalization", WithParameters(inputs[0], layer),
                    {Float("epsilon", training::kNormalizationEpsilon)});
      case LayerKind::kLocalResponseNormalization:
        analysis::RefuseIf(layer.kernel % 2 == 0, stage_->name + ".size", layer.kernel,
                           "an odd number in a model of ONNX");
        return Node("LRN", inputs,
                    {Integer("size", layer.kernel), Float("alpha", layer.alpha),
                     Float("beta", layer.beta), Float("bias", layer.k)});
      case LayerKind::kRelu:
        return Node("Relu", inputs);
      case LayerKind::kMaxPool:
        return Node("MaxPool", inputs, Window(layer));
      case LayerKind::kAveragePool:
        return Node("GlobalAveragePool", inputs);
      case LayerKind::kDropout:
        return Node("Dropout",
                    {inputs[0],
                     Constant("ratio", onnx::kFloat32, {},
                              std::vector<float>{static_cast<float>(layer.dropout_probability)})});
      case LayerKind::kSum:
        return Node("Add", {inputs[0], Shortcut(layer, inputs[1])});
      case LayerKind::kEmbedding: {
        const Names all = WithParameters(inputs[0], layer);
        return Node("Gather", {all[1], all[0]});
      }
      case LayerKind::kPosition:
        return Node("Add", WithParameters(inputs[0], layer));
      case LayerKind::kLayerNormalization:
      case LayerKind::kRmsNormalization:
        return Node(
            layer.kind == LayerKind::kRmsNormalization ? "RMSNormalization" : "LayerNormalization",
            WithParameters(inputs[0], layer),
            {Integer("axis", -1), Float("epsilon", training::kNormalizationEpsilon)});
      case LayerKind::kTokenLinear: {
        const Names all = WithParameters(inputs[0], layer);
        std::string product = ByTransposed(all[0], all[1]);
        if (!layer.bias) return product;
        return Node("Add", {product, all[2]});
      }
      case LayerKind::kTiedLinear:
        return ByTransposed(inputs[0], inputs[1]);
      case LayerKind::kAttention: {
        const std::string parts =
            Node("Split", inputs, {Integer("axis", -1), Integer("num_outputs", 3)}, 3);
        return Node("Attention", {parts + ":0", parts + ":1", parts + ":2"},
                    {Integer("is_causal", 1), Integer("q_num_heads", layer.heads),
                     Integer("kv_num_heads", layer.heads)});
      }
      case LayerKind::kGelu:
        return Node("Gelu", inputs, {Text("approximate", "tanh")});
      case LayerKind::kSquaredRelu: {
        const std::string rectified = Node("Relu", inputs);
        return Node("Mul", {rectified, rectified});
      }
      case LayerKind::kLoss:
        break;
    }
    return inputs[0];
  }

  std::string Flat(const std::string& value) {
    return *flat_.insert(Node("Flatten", {value}, {Integer("axis", 1)})).first;
  }

  bool IsFlat(const std::string& value) const { return flat_.contains(value); }

  // What has one pixel is (N, C) or (N, C, 1, 1): the one that the layer's operator takes.
  void Lay(const Layer& layer, Names& inputs) {
    const bool is_sum = layer.kind == LayerKind::kSum;
    const bool any_is_flat =
        std::ranges::any_of(inputs, [&](const std::string& input) { return IsFlat(input); });
    const bool changes_shape =
        is_sum && (layer.stride > 1 ||
                   network_.values.at(stage_->inputs[1]).shape.channels != layer.output.channels);
    if (KindsOfTokens().contains(layer.kind) || (any_is_flat && is_sum && !changes_shape)) {
      for (std::string& input : inputs) {
        if (!IsFlat(input)) input = Flat(input);
      }
    } else if (any_is_flat && layer.kind != LayerKind::kLinear &&
               layer.kind != LayerKind::kBatchNormalization &&
               (changes_shape || KindsOfImages().contains(layer.kind))) {
      throw analysis::InvalidArgument(
          stage_->name + ".layers",
          fmt::format("{} behind linear", hwmodel::TraitsOf(layer.kind).name),
          "linear layers with no layers on images behind them in a model of ONNX");
    }
  }

  std::string ByTransposed(const std::string& value, const std::string& matrix) {
    return Node("MatMul", {value, Node("Transpose", {matrix}, {Integers("perm", {1, 0})})});
  }

  // Every other pixel, and zeros in the channels that are missing.
  std::string Shortcut(const Layer& layer, std::string value) {
    if (layer.stride > 1) {
      value = Node(
          "MaxPool", {value},
          {Integers("kernel_shape", {1, 1}), Integers("strides", {layer.stride, layer.stride})});
    }
    const FeatureShape& in = network_.values.at(stage_->inputs[1]).shape;
    if (in.channels == layer.output.channels) return value;
    const std::int64_t more = layer.output.channels - in.channels;
    return Node("Pad", {value, Constant("pads", onnx::kInt64, {8},
                                        std::vector<std::int64_t>{0, 0, 0, 0, 0, more, 0, 0})});
  }

  const Network& network_;
  bool has_weights_;
  std::set<std::string> used_weights_;
  std::map<std::string, const training::NamedTensor*, std::less<>> weights_;
  const Stage* stage_ = nullptr;
  Names names_;  // of values
  std::string last_;
  std::set<std::string> flat_;  // values of images without height and width
  std::set<std::string> used_;
  std::vector<ProtobufWriter> inputs_;
  ProtobufWriter graph_;
};

}  // namespace

std::vector<OnnxParameter> OnnxParameters(const Layer& layer) {
  constexpr std::string_view kWeight = ".weight";
  constexpr std::string_view kBias = ".bias";
  const std::int64_t in = layer.input.channels;
  const std::int64_t out = layer.output.channels;
  std::vector<OnnxParameter> parameters;
  switch (layer.kind) {
    case LayerKind::kConvolution:
      parameters = {{kWeight, {out, in, layer.kernel, layer.kernel}}};
      if (layer.bias) parameters.push_back({kBias, {out}});
      return parameters;
    case LayerKind::kLinear:
      return {{kWeight, {out, layer.input.elements()}}, {kBias, {out}}};
    case LayerKind::kBatchNormalization:
      return {{kWeight, {in}}, {kBias, {in}}, {".running_mean", {in}}, {".running_var", {in}}};
    case LayerKind::kGroupNormalization:
    case LayerKind::kLayerNormalization:
      return {{kWeight, {in}}, {kBias, {in}}};
    case LayerKind::kRmsNormalization:
      return {{kWeight, {in}}};
    case LayerKind::kEmbedding:
      return {{kWeight, {layer.vocabulary, out}}};
    case LayerKind::kPosition:
      return {{kWeight, {layer.input.height, out}}};
    case LayerKind::kTokenLinear:
      parameters = {{kWeight, {out, in}}};
      if (layer.bias) parameters.push_back({kBias, {out}});
      return parameters;
    default:
      return parameters;
  }
}

void RefuseOtherDimensions(const Network& network) {
  const bool has_tokens = IsSequence(network);
  for (const Stage& stage : network.stages) {
    for (const Layer& layer : stage.layers) {
      if (!(has_tokens ? KindsOfImages() : KindsOfTokens()).contains(layer.kind)) continue;
      // One pixel is a vector, with or without height and width.
      if (!has_tokens && layer.input.pixels() == 1) continue;
      throw analysis::InvalidArgument(
          stage.name + ".layers",
          fmt::format("{} on {}", hwmodel::TraitsOf(layer.kind).name,
                      has_tokens ? "tokens" : "an image"),
          has_tokens ? "layers on tokens behind an embedding in a model of ONNX"
                     : "layers on images in a model of ONNX");
    }
  }
}

std::string OnnxModel(const Network& network,
                      const std::optional<std::span<const training::NamedTensor>>& weights) {
  RefuseOtherDimensions(network);
  return Writer(network, weights).Write();
}

}  // namespace batchless
