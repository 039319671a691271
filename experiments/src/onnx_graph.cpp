#include "onnx_graph.h"

#include <cstring>
#include <utility>

#include "onnx_fields.h"
#include "protobuf.h"

namespace batchless {
namespace {

// Calls `take` for each field of the message.
template <class Take>
void ForEach(std::string_view message, Take take) {
  ProtobufReader reader(message);
  while (const std::optional<ProtobufField> field = reader.Next()) take(*field);
}

// What each of the numbers of four bytes is, where they are all the same.
std::optional<double> OnlyNumber(std::string_view bytes) {
  float first = 0;
  if (bytes.empty() || bytes.size() % sizeof first != 0) return std::nullopt;
  // Each is the one before it.
  if (bytes.substr(sizeof first) != bytes.substr(0, bytes.size() - sizeof first)) {
    return std::nullopt;
  }
  std::memcpy(&first, bytes.data(), sizeof first);
  return double{first};
}

OnnxTensor ParseTensor(std::string_view message) {
  OnnxTensor tensor;
  std::int64_t type = 0;
  std::string_view raw;
  std::string_view packed;
  ForEach(message, [&](const ProtobufField& field) {
    if (field.number == onnx::Tensor::kDimensions) AppendIntegers(field, tensor.shape);
    if (field.number == onnx::Tensor::kType) type = field.integer();
    if (field.number == onnx::Tensor::kName) tensor.name = field.text;
    if (field.number == onnx::Tensor::kRaw) raw = field.text;
    if (field.number == onnx::Tensor::kFloats) packed = field.text;
    if (field.number == onnx::Tensor::kIntegers) AppendIntegers(field, tensor.integers);
  });
  if (type == onnx::kFloat32) tensor.value = OnlyNumber(raw.empty() ? packed : raw);
  constexpr std::size_t kMostIntegers = 16;
  if (type == onnx::kInt64 && raw.size() <= kMostIntegers * sizeof(std::int64_t)) {
    for (; raw.size() >= sizeof(std::int64_t); raw.remove_prefix(sizeof(std::int64_t))) {
      std::memcpy(&tensor.integers.emplace_back(), raw.data(), sizeof(std::int64_t));
    }
  }
  return tensor;
}

OnnxAttribute ParseAttribute(std::string_view message) {
  OnnxAttribute attribute;
  ForEach(message, [&](const ProtobufField& field) {
    if (field.number == onnx::Attribute::kName) attribute.name = field.text;
    if (field.number == onnx::Attribute::kFloat) attribute.number = double{field.real()};
    if (field.number == onnx::Attribute::kInteger) {
      attribute.number = static_cast<double>(field.integer());
    }
    if (field.number == onnx::Attribute::kText) attribute.text = field.text;
    if (field.number == onnx::Attribute::kIntegers) AppendIntegers(field, attribute.integers);
    if (field.number == onnx::Attribute::kTensor) attribute.tensor = ParseTensor(field.text);
  });
  return attribute;
}

OnnxNode ParseNode(std::string_view message) {
  OnnxNode node;
  ForEach(message, [&](const ProtobufField& field) {
    if (field.number == onnx::Node::kInput) node.inputs.emplace_back(field.text);
    if (field.number == onnx::Node::kOutput) node.outputs.emplace_back(field.text);
    if (field.number == onnx::Node::kName) node.name = field.text;
    if (field.number == onnx::Node::kOperator) node.op = field.text;
    if (field.number == onnx::Node::kText) node.text = field.text;
    if (field.number == onnx::Node::kDomain) node.domain = field.text;
    if (field.number == onnx::Node::kAttribute) {
      const OnnxAttribute attribute = ParseAttribute(field.text);
      node.attributes[attribute.name] = attribute;
    }
  });
  return node;
}

// Name and shape of an input or output, the batch's extent first; -1 for a symbol.
std::pair<std::string, OnnxShape> ParseValue(std::string_view message) {
  std::string name;
  OnnxShape shape;
  ForEach(message, [&](const ProtobufField& field) {
    if (field.number == onnx::ValueInfo::kName) name = field.text;
    if (field.number != onnx::ValueInfo::kType) return;
    ForEach(field.text, [&](const ProtobufField& type) {
      if (type.number != onnx::Type::kTensor) return;
      ForEach(type.text, [&](const ProtobufField& part) {
        if (part.number != onnx::Type::kShape) return;
        ForEach(part.text, [&](const ProtobufField& dimension) {
          shape.push_back(-1);
          ForEach(dimension.text, [&](const ProtobufField& extent) {
            if (extent.number == onnx::Type::kExtent) shape.back() = extent.integer();
          });
        });
      });
    });
  });
  return {name, shape};
}

OnnxGraph ParseGraph(std::string_view message) {
  OnnxGraph graph;
  std::vector<std::pair<std::string, OnnxShape>> inputs;
  ForEach(message, [&](const ProtobufField& field) {
    if (field.number == onnx::Graph::kName) graph.name = field.text;
    if (field.number == onnx::Graph::kNode) graph.nodes.push_back(ParseNode(field.text));
    if (field.number == onnx::Graph::kInput) inputs.push_back(ParseValue(field.text));
    if (field.number == onnx::Graph::kOutput) {
      graph.outputs.push_back(ParseValue(field.text).first);
    }
    if (field.number == onnx::Graph::kInitializer) {
      const OnnxTensor tensor = ParseTensor(field.text);
      graph.tensors[tensor.name] = tensor;
    }
  });
  // A constant is a tensor without a node.
  std::erase_if(graph.nodes, [&](OnnxNode& node) {
    const bool is_constant = node.op == "Constant" && IsOnnxDomain(node.domain) &&
                             node.attributes.contains("value") && !node.outputs.empty();
    if (is_constant) graph.tensors[node.outputs[0]] = node.attributes["value"].tensor;
    return is_constant;
  });
  // Inputs that are no tensors yet: the first is the network's, the others are its parameters.
  for (auto& [name, shape] : inputs) {
    if (graph.tensors.contains(name)) continue;
    if (graph.input.empty()) {
      graph.input = name;
      if (!shape.empty()) graph.input_shape.assign(shape.begin() + 1, shape.end());
    } else {
      graph.tensors[name] = {.shape = shape};
    }
  }
  return graph;
}

}  // namespace

bool IsOnnxDomain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

OnnxGraph ParseOnnxModel(std::string_view text) {
  std::string_view message;
  std::int64_t opset = 0;
  ForEach(text, [&](const ProtobufField& field) {
    if (field.number == onnx::Model::kGraph && field.is_text) message = field.text;
    if (field.number != onnx::Model::kOpset) return;
    bool is_own = true;
    std::int64_t version = 0;
    ForEach(field.text, [&](const ProtobufField& part) {
      if (part.number == onnx::Opset::kDomain) is_own = IsOnnxDomain(part.text);
      if (part.number == onnx::Opset::kVersion) version = part.integer();
    });
    if (is_own) opset = version;
  });
  OnnxGraph graph = ParseGraph(message);
  graph.opset = opset;
  return graph;
}

}  // namespace batchless
