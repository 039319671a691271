// Networks of tests.
#pragma once

#include <string>
#include <vector>

#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/network_builder.h"

namespace batchless::training {

// Stages of one layer each, one behind the other.
inline hwmodel::Network NetworkOf(const hwmodel::FeatureShape& input, int classes,
                                  const std::vector<hwmodel::Layer>& layers) {
  hwmodel::NetworkBuilder builder("layers", input, classes);
  int x = 0;
  for (const hwmodel::Layer& layer : layers) {
    const std::string kind(hwmodel::TraitsOf(layer.kind).name);
    x = builder.Add(
        {.name = layer.name.empty() ? kind : layer.name, .layers = {layer}, .inputs = {x}});
  }
  return builder.Finish();
}

// A VGG of every kind of layers that VGG-11 has, at less than a hundredth of its multiply-adds.
inline hwmodel::Network NarrowVgg() {
  using hwmodel::LayerKind;
  hwmodel::NetworkBuilder builder("narrow-vgg", {.channels = 3, .height = 32, .width = 32}, 10);
  int x = 0;
  const auto add = [&](const std::string& name, const std::vector<hwmodel::Layer>& layers) {
    x = builder.Add({.name = name, .layers = layers, .inputs = {x}});
  };
  for (const int channels : {8, 16, 32}) {
    const std::string name = "features." + std::to_string(channels);
    add(name, {{.kind = LayerKind::kConvolution,
                .name = name,
                .output = {.channels = channels},
                .kernel = 3,
                .padding = 1}});
    add(name + ".relu",
        {{.kind = LayerKind::kGroupNormalization, .name = name + ".norm", .groups = 4},
         {.kind = LayerKind::kRelu}});
    add(name + ".pool", {{.kind = LayerKind::kMaxPool, .kernel = 2, .stride = 2}});
  }
  for (const int features : {64, 10}) {
    const std::string name = "classifier." + std::to_string(features);
    add(name + ".dropout", {{.kind = LayerKind::kDropout, .dropout_probability = 0.5}});
    add(name, {{.kind = LayerKind::kLinear,
                .name = name,
                .output = {.channels = features},
                .bias = true}});
    if (features != 10) add(name + ".relu", {{.kind = LayerKind::kRelu}});
  }
  add("loss", {{.kind = LayerKind::kLoss}});
  return builder.Finish();
}

// A network for the synthetic images by its name, which is also "narrow-vgg".
inline hwmodel::Network TestNetwork(const std::string& name) {
  if (name == "narrow-vgg") return NarrowVgg();
  hwmodel::NetworkOptions options{.name = name};
  if (name == "lenet5") options.input = {3, 32, 32};
  return hwmodel::MakeNetwork(options);
}

}  // namespace batchless::training
