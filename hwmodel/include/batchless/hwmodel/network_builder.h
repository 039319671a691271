// A network put together stage by stage. Shapes follow from the input and the layers, and what does not
// meet is refused with the stage's name: the built-in networks and network files are both made this way.
#pragma once

#include <string>

#include "batchless/hwmodel/network.h"

namespace batchless::hwmodel {

class NetworkBuilder {
 public:
  /// Value 0 is the input. Throws analysis::InvalidArgument naming `input` or `classes`.
  NetworkBuilder(std::string name, FeatureShape input, int classes);

  /// Appends a stage and returns its result's value; -1 after a loss, which has none. Of each layer
  /// the kind and its fields count, of the stage its name, layers and inputs. With `second` the
  /// stage has a second value, which Stage::outputs describes. Throws analysis::InvalidArgument naming the
  /// stage and `layers`, `inputs`, `outputs` or a layer's field.
  int Add(Stage stage, int* second = nullptr);

  const FeatureShape& shape(int value) const { return network_.values.at(value).shape; }
  int next_stage() const { return network_.stage_count(); }

  /// The network, whose last stage has to be a loss, the only one, and whose values are all read.
  /// Throws analysis::InvalidArgument naming `stages` or the stage.
  Network Finish();

 private:
  int AddValue(const FeatureShape& shape, Stage& stage);

  Network network_;
};

}  // namespace batchless::hwmodel

// Example
//   NetworkBuilder builder("tiny", {3, 32, 32}, 10);
//   Layer conv{.kind = LayerKind::kConvolution, .name = "conv1", .output = {.channels = 16},
//              .kernel = 3, .padding = 1};
//   int x = builder.Add({.name = "conv1", .layers = {conv}, .inputs = {0}});
//   CHECK(builder.shape(x) == FeatureShape{16, 32, 32});
//   x = builder.Add({.name = "pool", .layers = {{.kind = LayerKind::kAveragePool}}, .inputs = {x}});
//   x = builder.Add({.name = "fc", .layers = {Layer{.kind = LayerKind::kLinear, .name = "fc",
//                                                   .output = {.channels = 10}}}, .inputs = {x}});
//   builder.Add({.name = "loss", .layers = {{.kind = LayerKind::kLoss}}, .inputs = {x}});
//   CHECK(builder.Finish().stage_count() == 4);
