// What an ONNX model's graph says of a network: its nodes, and of its tensors shapes and what is short.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace batchless {

using OnnxShape = std::vector<std::int64_t>;

struct OnnxTensor {
  std::string name{};
  OnnxShape shape;
  std::optional<double> value{};  // of each of its numbers, where they are all the same
  OnnxShape integers{};           // of a short list of them
};

struct OnnxAttribute {
  std::string name;
  double number = 0;
  std::string text;
  OnnxShape integers;
  OnnxTensor tensor;
};

struct OnnxNode {
  std::string name;  // may be empty
  std::string op;
  std::string text;
  std::string domain;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, OnnxAttribute, std::less<>> attributes;
};

struct OnnxGraph {
  std::string name;
  std::int64_t opset = 0;
  std::vector<OnnxNode> nodes;
  std::map<std::string, OnnxTensor, std::less<>> tensors;  // parameters and constants
  std::string input;
  OnnxShape input_shape;  // without the batch; -1 for what is not said
  std::vector<std::string> outputs;
};

/// Whether operators of the domain are ONNX's own.
bool IsOnnxDomain(std::string_view domain);

/// The graph of a model, whose constants are tensors without a node. Throws ProtobufError where the text is none.
OnnxGraph ParseOnnxModel(std::string_view text);

}  // namespace batchless
