// How a network is written down, stage after stage.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/network.h"

namespace batchless::hwmodel {

// Appends stages to a network; every method that makes a value returns its number.
class NetworkBuilder {
 public:
  NetworkBuilder(const NetworkOptions& options, Normalization normalization, int groups,
                 FeatureShape input, int classes)
      : normalization_(normalization), groups_(groups) {
    network_.name = options.name;
    network_.input = input;
    network_.classes = classes;
    network_.values.push_back({.shape = input});
  }

  Network Finish(int logits) {
    const FeatureShape shape = network_.values[logits].shape;
    Begin("loss", {logits});
    Append({.kind = LayerKind::kLoss, .output = shape});
    stage_.outputs.clear();
    network_.stages.push_back(std::move(stage_));
    return std::move(network_);
  }

  const FeatureShape& shape(int value) const { return network_.values[value].shape; }

  struct Window {
    int kernel = 3;
    int stride = 1;
    int padding = 1;
  };

  // One stage: convolution.
  int Convolution(const std::string& name, int input, int channels, Window window) {
    Begin(name, {input});
    AppendConvolution(name, channels, window);
    return End();
  }

  // One stage: normalisation, ReLU, convolution; `rectified` takes the ReLU's result as a value.
  int NormReluConvolution(const std::string& norm, const std::string& name, int input, int channels,
                          Window window, int* rectified = nullptr) {
    Begin(name, {input});
    AppendNormalization(norm);
    AppendRelu();
    const FeatureShape rectified_shape = stage_.layers.back().output;
    AppendConvolution(name, channels, window);
    const int output = End(rectified == nullptr);
    if (rectified != nullptr) {
      *rectified = AddOutput(rectified_shape);
      network_.stages.push_back(std::move(stage_));
    }
    return output;
  }

  // One stage: normalisation (where the network has it and `norm` names it) and ReLU.
  int NormRelu(const std::string& norm, const std::string& name, int input) {
    Begin(name, {input});
    if (!norm.empty()) AppendNormalization(norm);
    AppendRelu();
    return End();
  }

  // One stage: normalisation, where the network has it.
  int Norm(const std::string& name, int input) {
    if (normalization_ == Normalization::kNone) return input;
    Begin(name, {input});
    AppendNormalization(name);
    return End();
  }

  int Sum(const std::string& name, int first, int second) {
    Begin(name, {first, second});
    Append({.kind = LayerKind::kSum, .output = shape(first)});
    return End();
  }

  int MaxPool(const std::string& name, int input, Window window) {
    const FeatureShape& in = shape(input);
    const FeatureShape out{in.channels, Extent(in.height, window), Extent(in.width, window)};
    if (out.height < 1 || out.width < 1) {
      throw analysis::InvalidArgument("network.input", InputText(),
                                      "an image large enough for every pool");
    }
    Begin(name, {input});
    Append({.kind = LayerKind::kMaxPool,
            .output = out,
            .kernel = window.kernel,
            .stride = window.stride,
            .padding = window.padding});
    return End();
  }

  int AveragePool(int input) {
    Begin("pool", {input});
    Append({.kind = LayerKind::kAveragePool, .output = {shape(input).channels, 1, 1}});
    return End();
  }

  int Dropout(const std::string& name, int input, double probability) {
    Begin(name, {input});
    Append(
        {.kind = LayerKind::kDropout, .output = shape(input), .dropout_probability = probability});
    return End();
  }

  int Linear(const std::string& name, int input, int features) {
    Begin(name, {input});
    Append({.kind = LayerKind::kLinear, .name = name, .output = {features, 1, 1}, .bias = true});
    return End();
  }

 private:
  static int Extent(int edge, Window window) {
    const int room = edge + 2 * window.padding - window.kernel;
    return room < 0 ? 0 : room / window.stride + 1;
  }

  std::string InputText() const {
    const FeatureShape& in = network_.input;
    return std::to_string(in.channels) + "x" + std::to_string(in.height) + "x" +
           std::to_string(in.width);
  }

  void Begin(const std::string& name, std::vector<int> inputs) {
    const int number = network_.stage_count();
    for (const int input : inputs) network_.values[input].consumers.push_back(number);
    stage_ = {.name = name, .layers = {}, .inputs = std::move(inputs), .outputs = {}};
  }

  void Append(Layer layer) {
    layer.input = stage_.layers.empty() ? shape(stage_.inputs[0]) : stage_.layers.back().output;
    stage_.layers.push_back(std::move(layer));
  }

  void AppendConvolution(const std::string& name, int channels, Window window) {
    const FeatureShape in =
        stage_.layers.empty() ? shape(stage_.inputs[0]) : stage_.layers.back().output;
    const FeatureShape out{channels, Extent(in.height, window), Extent(in.width, window)};
    if (out.height < 1 || out.width < 1) {
      throw analysis::InvalidArgument("network.input", InputText(),
                                      "an image large enough for every convolution");
    }
    Append({.kind = LayerKind::kConvolution,
            .name = name,
            .output = out,
            .kernel = window.kernel,
            .stride = window.stride,
            .padding = window.padding,
            .bias = normalization_ == Normalization::kNone});
  }

  void AppendNormalization(const std::string& name) {
    if (normalization_ == Normalization::kNone) return;
    const FeatureShape in = shape(stage_.inputs[0]);
    if (normalization_ == Normalization::kGroup && in.channels % groups_ != 0) {
      throw analysis::InvalidArgument(
          "network.groups", std::to_string(groups_),
          "a divisor of the " + std::to_string(in.channels) + " channels of " + name);
    }
    Append({.kind = LayerKind::kNormalization,
            .name = name,
            .output = in,
            .normalization = normalization_,
            .groups = normalization_ == Normalization::kGroup ? groups_ : 1});
  }

  void AppendRelu() {
    const FeatureShape in =
        stage_.layers.empty() ? shape(stage_.inputs[0]) : stage_.layers.back().output;
    Append({.kind = LayerKind::kRelu, .output = in});
  }

  int AddOutput(const FeatureShape& out) {
    const int value = static_cast<int>(network_.values.size());
    network_.values.push_back({.shape = out, .producer = network_.stage_count()});
    stage_.outputs.push_back(value);
    return value;
  }

  int End(bool complete = true) {
    const int value = AddOutput(stage_.layers.back().output);
    if (complete) network_.stages.push_back(std::move(stage_));
    return value;
  }

  Network network_;
  Stage stage_;
  Normalization normalization_;
  int groups_;
};

}  // namespace batchless::hwmodel
