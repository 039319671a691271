// Numbers of the fields of ONNX's messages (onnx.proto), of its types and of its attributes' types.
#pragma once

namespace batchless::onnx {

struct Model {
  static constexpr int kIrVersion = 1, kProducer = 2, kProducerVersion = 3, kGraph = 7, kOpset = 8;
};
struct Opset {
  static constexpr int kDomain = 1, kVersion = 2;
};
struct Graph {
  static constexpr int kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
};
struct Node {
  static constexpr int kInput = 1, kOutput = 2, kName = 3, kOperator = 4, kAttribute = 5, kText = 6,
                       kDomain = 7;
};
struct Attribute {
  static constexpr int kName = 1, kFloat = 2, kInteger = 3, kText = 4, kTensor = 5, kIntegers = 8,
                       kType = 20;
  static constexpr int kIsFloat = 1, kIsInteger = 2, kIsText = 3, kIsIntegers = 7;
};
struct Tensor {
  static constexpr int kDimensions = 1, kType = 2, kFloats = 4, kIntegers = 7, kName = 8, kRaw = 9;
};
struct ValueInfo {
  static constexpr int kName = 1, kType = 2;
};
// The nested messages down to a value's dimensions.
struct Type {
  static constexpr int kTensor = 1, kElement = 1, kShape = 2, kDimension = 1, kExtent = 1,
                       kSymbol = 2;
};
constexpr int kFloat32 = 1;
constexpr int kInt64 = 7;

}  // namespace batchless::onnx
