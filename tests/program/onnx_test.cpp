#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "network_file.h"
#include "onnx_fields.h"
#include "onnx_file.h"
#include "protobuf.h"
#include "run_program.h"
#include "usage_error.h"

namespace batchless {
using hwmodel::MakeNetwork;
using hwmodel::Network;
using test::TemporaryFolder;
using test::WriteFile;

namespace {

ProtobufWriter Attribute(std::string_view name, std::int64_t value) {
  return ProtobufWriter()
      .Text(onnx::Attribute::kName, name)
      .Integer(onnx::Attribute::kInteger, value)
      .Integer(onnx::Attribute::kType, onnx::Attribute::kIsInteger);
}

// Packed, as other writers may have them.
ProtobufWriter Attribute(std::string_view name, std::string_view values) {
  return ProtobufWriter()
      .Text(onnx::Attribute::kName, name)
      .Text(onnx::Attribute::kIntegers, values)
      .Integer(onnx::Attribute::kType, onnx::Attribute::kIsIntegers);
}

ProtobufWriter Node(std::string_view op, std::initializer_list<std::string_view> inputs,
                    std::string_view output,
                    std::initializer_list<ProtobufWriter> attributes = {}) {
  ProtobufWriter node;
  for (const std::string_view input : inputs) node.Text(onnx::Node::kInput, input);
  node.Text(onnx::Node::kOutput, output).Text(onnx::Node::kOperator, op);
  for (const ProtobufWriter& attribute : attributes) {
    node.Message(onnx::Node::kAttribute, attribute);
  }
  return node;
}

ProtobufWriter Value(std::string_view name, std::initializer_list<std::int64_t> shape) {
  ProtobufWriter dimensions;
  for (const std::int64_t extent : shape) {
    dimensions.Message(onnx::Type::kDimension,
                       ProtobufWriter().Integer(onnx::Type::kExtent, extent));
  }
  return ProtobufWriter()
      .Text(onnx::ValueInfo::kName, name)
      .Message(onnx::ValueInfo::kType,
               ProtobufWriter().Message(onnx::Type::kTensor,
                                        ProtobufWriter().Message(onnx::Type::kShape, dimensions)));
}

ProtobufWriter Tensor(std::string_view name, std::initializer_list<std::int64_t> shape,
                      std::int64_t type = onnx::kFloat32, std::string_view bytes = "") {
  ProtobufWriter tensor;
  for (const std::int64_t extent : shape) tensor.Integer(onnx::Tensor::kDimensions, extent);
  return tensor.Integer(onnx::Tensor::kType, type)
      .Text(onnx::Tensor::kName, name)
      .Text(onnx::Tensor::kRaw, bytes);
}

// conv -> relu -> pool -> flatten -> gemm -> softmax, as a framework writes it: no stages.
struct Foreign {
  std::vector<ProtobufWriter> nodes = {
      Node("Conv", {"x", "body.conv.weight", "body.conv.bias"}, "1",
           {Attribute("kernel_shape", "\3\3"), Attribute("pads", "\1\1\1\1"),
            Attribute("strides", "\2\2")}),
      Node("Relu", {"1"}, "2"),
      Node("MaxPool", {"2"}, "3",
           {Attribute("kernel_shape", "\2\2"), Attribute("strides", "\2\2")}),
      Node("Flatten", {"3"}, "4"),
      Node("Gemm", {"4", "head.weight", "head.bias"}, "5", {Attribute("transB", 1)}),
      Node("Softmax", {"5"}, "y")};

  std::vector<ProtobufWriter> parameters;

  std::string Model(std::int64_t opset = 21) const {
    ProtobufWriter graph;
    for (const ProtobufWriter& parameter : parameters) {
      graph.Message(onnx::Graph::kInitializer, parameter);
    }
    for (const ProtobufWriter& node : nodes) graph.Message(onnx::Graph::kNode, node);
    graph.Text(onnx::Graph::kName, "main graph")
        .Message(onnx::Graph::kInput, Value("x", {1, 3, 8, 8}))
        .Message(onnx::Graph::kInput, Value("body.conv.weight", {4, 3, 3, 3}))
        .Message(onnx::Graph::kInput, Value("body.conv.bias", {4}))
        .Message(onnx::Graph::kInput, Value("head.weight", {7, 16}))
        .Message(onnx::Graph::kInput, Value("head.bias", {7}))
        .Message(onnx::Graph::kOutput, Value("y", {1, 7}));
    return ProtobufWriter()
        .Message(onnx::Model::kOpset, ProtobufWriter().Integer(onnx::Opset::kVersion, opset))
        .Message(onnx::Model::kGraph, graph)
        .bytes();
  }
};

Network Read(const std::string& model) {
  const TemporaryFolder folder;
  WriteFile(folder / "m.onnx", model);
  return ReadOnnxNetwork("--network", folder / "m.onnx");
}

std::string Refusal(const std::string& model) {
  const TemporaryFolder folder;
  WriteFile(folder / "m.onnx", model);
  try {
    (void)ReadOnnxNetwork("--network", folder / "m.onnx");
  } catch (const UsageError& error) {
    const std::string line = error.what();
    const std::size_t place = line.find("m.onnx");
    return place == std::string::npos ? line : line.substr(place + 6);
  }
  return "it was read";
}

}  // namespace

TEST_CASE("numbers on the wire") {
  // From the format's published description: field 1, 150; field 2, "testing".
  CHECK(ProtobufWriter().Integer(1, 150).bytes() == "\x08\x96\x01");
  CHECK(ProtobufWriter().Text(2, "testing").bytes() == "\x12\x07testing");
  const std::vector<std::int64_t> values = {0,
                                            127,
                                            128,
                                            -1,
                                            std::numeric_limits<std::int64_t>::min(),
                                            std::numeric_limits<std::int64_t>::max()};
  ProtobufWriter message;
  for (const std::int64_t value : values) message.Integer(3, value);
  message.Float(4, -0.1F);
  ProtobufReader reader(message.bytes());
  for (const std::int64_t value : values) CHECK(reader.Next()->integer() == value);
  CHECK(reader.Next()->real() == -0.1F);
  CHECK_FALSE(reader.Next());
  for (std::size_t size = 1; size < message.bytes().size(); ++size) {
    ProtobufReader cut(std::string_view(message.bytes()).substr(0, size));
    try {
      while (cut.Next()) continue;
    } catch (const ProtobufError&) {
      continue;  // between two fields it is a message
    }
  }
  CHECK_THROWS_AS(ProtobufReader(std::string(11, '\xff')).Next(), ProtobufError);
  CHECK_THROWS_AS(ProtobufReader("\x12\x07test").Next(), ProtobufError);
  CHECK_THROWS_AS(ProtobufReader("\x0b").Next(), ProtobufError);
}

TEST_CASE("every network without initial deviations of its own comes back from its model") {
  for (const char* name : {"lenet5", "alexnet", "vgg11", "resnet20", "resnet20-v1", "resnet50",
                           "resnet110", "mlp", "linear"}) {
    INFO(name);
    const Network network = MakeNetwork({.name = name});
    CHECK(Read(OnnxModel(network)) == network);
  }
  CHECK(Read(OnnxModel(
            MakeNetwork({.name = "vgg11", .normalization = hwmodel::Normalization::kBatch}))) ==
        MakeNetwork({.name = "vgg11", .normalization = hwmodel::Normalization::kBatch}));
}

TEST_CASE("a product by the embedding's own weight is tied, one by its copy is not") {
  const hwmodel::NetworkOptions options{.name = "gpt",
                                        .input = {1, 4, 1},
                                        .classes = 5,
                                        .layers = 1,
                                        .width = 8,
                                        .heads = 2,
                                        .tied_embeddings = true};
  Network network = MakeNetwork(options);
  const std::string bytes = OnnxModel(network);
  // What weights start with is not read.
  for (hwmodel::Stage& stage : network.stages) {
    for (hwmodel::Layer& layer : stage.layers) {
      layer.standard_deviation = hwmodel::Layer().standard_deviation;
    }
  }
  CHECK(Read(bytes) == network);
  hwmodel::NetworkOptions own = options;
  own.tied_embeddings = false;
  const Network apart = Read(OnnxModel(MakeNetwork(own)));
  CHECK(apart.stages[6].layers[0].kind == hwmodel::LayerKind::kTokenLinear);
  CHECK(apart.stages[6].layers[0].name == "lm_head");
}

TEST_CASE("a model of another writer: a stage a layer, named by its parameters") {
  const Network network = Read(Foreign().Model());
  CHECK(NetworkText(network) == R"(name = "main_graph"
input = [3, 8, 8]
classes = 7

[[stage]]
name = "body.conv"
layers = [{ kind = "convolution", channels = 4, kernel = 3, stride = 2, padding = 1, bias = true }]

[[stage]]
name = "relu"
layers = ["relu"]

[[stage]]
name = "max_pool"
layers = [{ kind = "max_pool", kernel = 2, stride = 2 }]

[[stage]]
name = "head"
layers = [{ kind = "linear", features = 7 }]

[[stage]]
name = "loss"
layers = ["loss"]
)");
}

TEST_CASE("classes are the channels of the output, whatever makes it") {
  Foreign model;
  model.nodes.at(3) = Node("GlobalAveragePool", {"3"}, "4");
  model.nodes.at(4) = Node("Flatten", {"4"}, "5");
  const Network network = Read(model.Model());
  CHECK(network.classes == 4);
  CHECK(Read(OnnxModel(network)) == network);
  // A pool of the input itself.
  model.nodes = {Node("GlobalAveragePool", {"x"}, "1"), Node("Flatten", {"1"}, "y")};
  CHECK(Read(model.Model()).classes == 3);
  model.nodes.pop_back();
  CHECK(Refusal(model.Model()) == ": output: got y, accepted: a value that a node makes");
}

TEST_CASE("what no layer is, is refused by the node") {
  const auto with = [](std::size_t place, ProtobufWriter node) {
    Foreign model;
    model.nodes.at(place) = std::move(node);
    return Refusal(model.Model());
  };
  using Catch::Matchers::StartsWith;
  CHECK_THAT(with(1, Node("Selu", {"1"}, "2")), StartsWith(": node 2: got Selu, accepted: Conv, "));
  CHECK(with(1, Node("Gelu", {"1"}, "2")) == ": node 2: got approximate none, accepted: tanh");
  CHECK(with(1, Node("Relu", {"nowhere"}, "2")) ==
        ": node 2: got nowhere, accepted: a value that an earlier node makes");
  CHECK(with(0, Node("Conv", {"x", "body.conv.weight"}, "1", {Attribute("group", 3)})) ==
        ": node 1: got group 3, accepted: 1");
  CHECK(with(0, Node("Conv", {"x", "body.conv.weight"}, "1", {Attribute("strides", "\1\2")})) ==
        ": node 1: got strides 1, 2, accepted: the same on all sides");
  CHECK(with(0, Node("Conv", {"x", "head.weight"}, "1")) ==
        ": node 1: got head.weight of shape (7, 16), accepted: a parameter of 4 dimensions");
  CHECK(with(4, Node("Gemm", {"4", "head.weight", "head.bias"}, "5")) ==
        ": node 5: got transB 0, accepted: 1");
  CHECK(with(4, Node("Gemm", {"4", "head.weight"}, "5", {Attribute("transB", 1)})) ==
        ": node 5: got 2 inputs, accepted: 3");
  CHECK(with(1, Node("Softmax", {"1"}, "2")) ==
        ": node 2: got Softmax, accepted: one that is the model's output, or none");
  CHECK(with(3, Node("Flatten", {"3"}, "4", {Attribute("axis", 2)})) ==
        ": node 4: got axis 2, accepted: 1");
  const ProtobufWriter epsilon = ProtobufWriter()
                                     .Text(onnx::Attribute::kName, "epsilon")
                                     .Float(onnx::Attribute::kFloat, 1e-3F);
  CHECK(with(1, Node("BatchNormalization", {"1", "g", "b", "m", "v"}, "2", {epsilon})) ==
        ": node 2: got epsilon 0.001, accepted: 1e-05");
  CHECK_THAT(with(2, Node("MaxPool", {"2"}, "3", {Attribute("kernel_shape", "\x09\x09")})),
             StartsWith(": max_pool.kernel: got 9, accepted: at most the edges of its input"));
  CHECK(Refusal("") == ", accepted: a model, PATH.onnx (there is nothing in it)");
  CHECK_THAT(Refusal("no model"), StartsWith(", accepted: a model, PATH.onnx ("));
  const std::string good = Foreign().Model();
  // The first six bytes are the operator set; a model without a graph is none either.
  for (std::size_t size = 1; size < good.size(); size += 3) {
    CHECK(Refusal(good.substr(0, size)) != "it was read");
  }
}

TEST_CASE("fields of layers have the ranges that network files have") {
  Foreign model;
  model.parameters = {Tensor("g", {4}), Tensor("b", {4})};
  const auto with = [&](ProtobufWriter node, std::int64_t opset = 21) {
    Foreign changed = model;
    changed.nodes.at(1) = std::move(node);
    return Refusal(changed.Model(opset));
  };
  using Catch::Matchers::StartsWith;
  CHECK_THAT(with(Node("GroupNormalization", {"1", "g", "b"}, "2")),
             StartsWith(": g.groups: got 0, accepted: from 1 to "));
  CHECK(with(Node("GroupNormalization", {"1", "g", "b"}, "2", {Attribute("num_groups", 2)}), 18) ==
        ": node 2: got GroupNormalization of operator set 18, accepted: 21 or later");
  CHECK(with(Node("GroupNormalization", {"1", "g", "b"}, "2", {Attribute("num_groups", -1)})) ==
        ": node 2: got num_groups -1, accepted: a natural number");
  CHECK(with(Node("GroupNormalization", {"1", "g", "b"}, "2", {Attribute("num_groups", 2)})) ==
        "it was read");
  CHECK_THAT(with(Node("MaxPool", {"1"}, "2",
                       {Attribute("kernel_shape", "\2\2"),
                        Attribute("strides", std::string_view("\0\0", 2))})),
             StartsWith(": max_pool.stride: got 0, accepted: from 1 to "));
  CHECK_THAT(with(Node("LRN", {"1"}, "2")),
             StartsWith(": local_response_norm.size: got 0, accepted: from "));
  // Even windows of ONNX are other ones than PyTorch's.
  CHECK(with(Node("LRN", {"1"}, "2", {Attribute("size", 4)})) ==
        ": node 2: got size 4, accepted: an odd number");
  Foreign odd = model;
  odd.nodes.at(1) = Node("LRN", {"1"}, "2", {Attribute("size", 3)});
  Network network = Read(odd.Model());
  CHECK(Read(OnnxModel(network)) == network);
  network.stages[1].layers[0].kernel = 4;
  CHECK_THROWS_WITH(OnnxModel(network),
                    "local_response_norm.size: got 4, accepted: an odd number in a model of ONNX");
  // A normalisation whose scales are not those of its input's channels.
  model.parameters = {Tensor("g", {3}), Tensor("b", {3})};
  CHECK(with(Node("GroupNormalization", {"1", "g", "b"}, "2", {Attribute("num_groups", 2)})) ==
        ": node 2: got a parameter of shape (3), accepted: (4)");
}

TEST_CASE("a layer whose operator acts on another dimension is refused, read and written") {
  // ONNX normalises over the tokens, the trainer over the channels.
  constexpr const char* kOnTokens =
      "norm.layers: got local_response_norm on tokens, accepted: layers on tokens behind an "
      "embedding in a model of ONNX";
  const TemporaryFolder folder;
  const auto written = [&](const std::string& layer) {
    WriteFile(folder / "n.toml", R"(name = "n"
input = [1, 4, 1]
classes = 5
stage = [
  { name = "wte", layers = [{ kind = "embedding", features = 8 }] },
  { name = "norm", layers = [)" + layer +
                                     R"(] },
  { name = "head", layers = [{ kind = "token_linear", features = 5 }] },
  { name = "loss", layers = ["loss"] },
]
)");
    return OnnxModel(ReadNetworkFile("--network", folder / "n.toml"));
  };
  CHECK_THROWS_WITH(written(R"({ kind = "local_response_norm", size = 3 })"), kOnTokens);
  CHECK_THROWS_WITH(written(R"({ kind = "group_norm", groups = 2 })"),
                    Catch::Matchers::StartsWith("norm.layers: got group_norm on tokens"));
  CHECK(Read(written("\"layer_norm\"")).stage_count() == 4);

  const auto read = [](const ProtobufWriter& node) {
    ProtobufWriter graph;
    graph.Message(onnx::Graph::kInput, Value("x", {1, 4}))
        .Message(onnx::Graph::kOutput, Value("y", {1, 4, 5}));
    for (const char* name : {"wte.weight", "head.weight"}) {
      graph.Message(onnx::Graph::kInitializer, Tensor(name, {5, 8}));
    }
    for (const ProtobufWriter& each :
         {Node("Gather", {"wte.weight", "x"}, "1"), node, Node("Transpose", {"head.weight"}, "3"),
          Node("MatMul", {"2", "3"}, "y")}) {
      graph.Message(onnx::Graph::kNode, each);
    }
    return Refusal(
        ProtobufWriter()
            .Message(onnx::Model::kOpset, ProtobufWriter().Integer(onnx::Opset::kVersion, 21))
            .Message(onnx::Model::kGraph, graph)
            .bytes());
  };
  CHECK(read(Node("LRN", {"1"}, "2", {Attribute("size", 3)})) ==
        ": local_response_" + std::string(kOnTokens));
  CHECK(read(Node("Relu", {"1"}, "2")) == "it was read");

  // The last axis of an image is the width.
  Foreign image;
  image.parameters = {Tensor("g", {4}), Tensor("b", {4})};
  image.nodes.at(1) = Node("LayerNormalization", {"1", "g", "b"}, "2");
  CHECK(Refusal(image.Model()) ==
        ": g.layers: got layer_norm on an image, accepted: layers on images in a model of ONNX");
}

TEST_CASE("a pool of one pixel is a sum's second value, or a pool") {
  Foreign model;
  model.nodes.at(2) = Node("MaxPool", {"2"}, "3",
                           {Attribute("kernel_shape", "\1\1"), Attribute("strides", "\2\2")});
  const Network network = Read(model.Model());
  CHECK(network.stages[2].layers[0].kind == hwmodel::LayerKind::kMaxPool);
  CHECK(network.stages[2].layers[0].stride == 2);
  CHECK(Read(OnnxModel(network)) == network);
  model.nodes.at(2) = Node("Pad", {"2", "head.bias"}, "3");
  CHECK(Refusal(model.Model()) ==
        ": node 3: got Pad, accepted: zeros behind the channels of an Add's second value");
}

namespace {

// A GroupNorm between convolution and ReLU, as torch.onnx writes it up to operator set 20 (group_norm in
// symbolic_opset9.py): constants are nodes, equal parameters are kept once.
struct PytorchGroupNorm : Foreign {
  PytorchGroupNorm() {
    const std::vector<ProtobufWriter> norm = {
        Constant("apart", Tensor("", {3}, onnx::kInt64, Bytes<std::int64_t>({0, 2, -1}))),
        Constant("ones", Tensor("", {2}, onnx::kFloat32, Bytes<float>({1, 1}))),
        Constant("zeros", Tensor("", {2}, onnx::kFloat32, Bytes<float>({0, 0}))),
        Constant("axes", Tensor("", {2}, onnx::kInt64, Bytes<std::int64_t>({1, 2}))),
        Node("Reshape", {"1", "apart"}, "n1"),
        Node("InstanceNormalization", {"n1", "ones", "zeros"}, "n2"),
        Node("Shape", {"1"}, "n3"),
        Node("Reshape", {"n2", "n3"}, "n4"),
        Node("Identity", {"shared"}, "body.norm.weight"),
        Node("Unsqueeze", {"body.norm.weight", "axes"}, "n5"),
        Node("Mul", {"n4", "n5"}, "n6"),
        Node("Add", {"n6", "folded"}, "n7")};
    nodes.insert(nodes.begin() + 1, norm.begin(), norm.end());
    nodes.at(kRelu) = Node("Relu", {"n7"}, "2");
    nodes.at(kRelu + 2) = Node("Reshape", {"3", "flat"}, "4");
    parameters = {Tensor("shared", {4}, onnx::kFloat32, Bytes<float>({1, 1, 1, 1})),
                  Tensor("folded", {4, 1, 1}, onnx::kFloat32, Bytes<float>({0, 1, 2, 3})),
                  Tensor("flat", {2}, onnx::kInt64, Bytes<std::int64_t>({1, -1})),
                  Tensor("whole", {4}, onnx::kInt64, Bytes<std::int64_t>({1, 4, 4, 4})),
                  Tensor("other", {4}, onnx::kInt64, Bytes<std::int64_t>({1, 2, 8, 4}))};
  }

  static constexpr std::size_t kRelu = 13;

  template <class Number>
  static std::string Bytes(std::initializer_list<Number> numbers) {
    return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(Number)};
  }

  static ProtobufWriter Constant(std::string_view output, const ProtobufWriter& tensor) {
    return Node("Constant", {}, output,
                {ProtobufWriter()
                     .Text(onnx::Attribute::kName, "value")
                     .Message(onnx::Attribute::kTensor, tensor)});
  }
};

}  // namespace

TEST_CASE("a GroupNorm as PyTorch writes it is a group normalisation, or refused") {
  const std::string text = NetworkText(Read(PytorchGroupNorm().Model(17)));
  CHECK_THAT(text, Catch::Matchers::Contains(R"([[stage]]
name = "body.norm"
layers = [{ kind = "group_norm", groups = 2 }]

[[stage]]
name = "relu"
)"));
  CHECK_THAT(text, Catch::Matchers::Contains("name = \"head\""));
  const auto with = [](std::size_t place, ProtobufWriter node) {
    PytorchGroupNorm model;
    model.nodes.at(place) = std::move(node);
    return Refusal(model.Model(17));
  };
  // Back by a constant.
  CHECK(with(8, Node("Reshape", {"n2", "whole"}, "n4")) == "it was read");
  CHECK(with(8, Node("Reshape", {"n2", "other"}, "n4")) ==
        ": node n7: got a Reshape to (1, 2, 8, 4), accepted: (N, 4, 4, 4)");
  CHECK(
      with(7, Node("Shape", {"x"}, "n3")) ==
      ": node n4: got a Reshape, accepted: one back to the shape before the InstanceNormalization");
  CHECK(with(5, Node("Reshape", {"1", "other"}, "n1")) ==
        ": node n1: got a Reshape to (1, 2, 8, 4), accepted: one that flattens, or groups channels "
        "by (0, G, -1)");
  for (const char* scale : {"zeros", "folded", "nowhere"}) {
    CHECK(with(6, Node("InstanceNormalization", {"n1", scale, "zeros"}, "n2")) ==
          ": node n2: got an InstanceNormalization, accepted: one by ones and zeros of channels "
          "grouped by a Reshape");
  }
  CHECK(with(11, Node("Mul", {"n4", "shared"}, "n6")) ==
        ": node n6: got shared of shape (4), accepted: a parameter of 3 dimensions");
  CHECK(with(10, Node("Unsqueeze", {"body.norm.weight", "flat"}, "n5")) ==
        ": node n5: got an Unsqueeze, accepted: one of a vector by axes 1 and 2");
  // Without scales and shifts it is none of the layers.
  CHECK(with(PytorchGroupNorm::kRelu, Node("Relu", {"n4"}, "2")) ==
        ": node 2: got n4, accepted: a value that an earlier node makes");
  CHECK(with(1, PytorchGroupNorm::Constant(
                    "apart", Tensor("", {3}, onnx::kInt64,
                                    PytorchGroupNorm::Bytes<std::int64_t>({0, 3, -1})))) ==
        ": body.norm.groups: got 3, accepted: a divisor of the 4 channels of body.norm");
}

TEST_CASE("parts of a Split are those of an Attention, in their order") {
  const std::string bytes = OnnxModel(MakeNetwork(
      {.name = "gpt", .input = {1, 4, 1}, .classes = 5, .layers = 1, .width = 8, .heads = 2}));
  CHECK(Read(bytes).stage_count() == 8);
  const auto changed = [&](const std::string& what, const std::string& other) {
    REQUIRE(what.size() == other.size());
    std::string model = bytes;
    for (std::size_t at = model.find(what); at != std::string::npos; at = model.find(what, at)) {
      model.replace(at, what.size(), other);
    }
    return Refusal(model);
  };
  // One name for two parts: queries that are keys.
  CHECK(changed("Split:0", "Split:1") ==
        ": node h.0.attn/Attention: got an Attention, accepted: queries, keys and values from one "
        "Split, in this order");
  CHECK(changed("is_causal", "is_casual") ==
        ": node h.0.attn/Attention: got is_causal 0, accepted: 1");
  // Two layers of one name, as tied ones have it.
  CHECK(changed("h.0.ln_1.weight", "h.0.ln_2.weight") ==
        ": node h.0.mlp/LayerNormalization: got h.0.ln_2, accepted: a name that no other layer's "
        "parameters have");
}

TEST_CASE("a parameter that is missing or has another shape is named") {
  const Network network = MakeNetwork({.name = "linear"});
  std::vector<training::NamedTensor> weights = {
      {"classifier.0.weight", {10, 3072}, std::vector<double>(30720)}};
  CHECK_THROWS_WITH(OnnxModel(network, weights),
                    "classifier.0.bias: got nothing, accepted: a tensor of the network");
  weights.push_back({"classifier.0.bias", {5}, std::vector<double>(5)});
  CHECK_THROWS_WITH(OnnxModel(network, weights),
                    "classifier.0.bias: got shape (5), accepted: shape (10)");
  weights.back() = {"classifier.0.bias", {10}, std::vector<double>(10)};
  CHECK_NOTHROW(OnnxModel(network, weights));
  weights.push_back({"more", {1}, {1}});
  CHECK_THROWS_WITH(OnnxModel(network, weights),
                    "more: got a tensor, accepted: those of the network alone");
  // A file without tensors gives no model without values.
  CHECK_THROWS_WITH(OnnxModel(network, std::vector<training::NamedTensor>{}),
                    "classifier.0.weight: got nothing, accepted: a tensor of the network");
}

}  // namespace batchless
