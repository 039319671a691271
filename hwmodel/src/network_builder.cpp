#include "batchless/hwmodel/network_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "batchless/analysis/argument.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

using analysis::InvalidArgument;

constexpr int kMaxEdge = 4096;
constexpr int kMaxClasses = 1 << 20;

std::string Kinds(std::span<const LayerKind> kinds) {
  std::vector<std::string_view> names;
  for (const LayerKind kind : kinds) names.push_back(TraitsOf(kind).name);
  return fmt::format("{}", fmt::join(names, " or "));
}

bool IsSequence(const FeatureShape& shape, int channels) {
  return shape.channels == channels && shape.width == 1;
}

// A layer with one before it in the same stage.
void CheckFollows(const Stage& stage, const Layer& before, const Layer& layer) {
  const LayerTraits& traits = TraitsOf(layer.kind);
  const bool follows =
      std::find(traits.follows.begin(), traits.follows.end(), before.kind) != traits.follows.end();
  RefuseIf(!follows, stage.name + ".layers",
           fmt::format("{} after {}", traits.name, TraitsOf(before.kind).name),
           traits.follows.empty()
               ? fmt::format("{} as the first layer of a stage", traits.name)
               : fmt::format("{} first, or after {}", traits.name, Kinds(traits.follows)));
}

void CheckFields(const Stage& stage, const Layer& layer) {
  for (const LayerField& field : TraitsOf(layer.kind).fields) {
    const double value = std::visit(
        [&](auto member) -> double {
          if constexpr (std::is_same_v<decltype(member), int FeatureShape::*>) {
            return layer.output.*member;
          } else {
            return layer.*member;
          }
        },
        field.member);
    const bool is_flag = std::holds_alternative<bool Layer::*>(field.member);
    const bool is_in_range = value >= field.low && value <= field.high;
    RefuseIf(
        !is_flag && !is_in_range, fmt::format("{}.{}", stage.name, field.name), value,
        fmt::format("from {} to {}", analysis::ToText(field.low), analysis::ToText(field.high)));
  }
}

void SetOutput(const Stage& stage, Layer& layer) {
  const LayerTraits& traits = TraitsOf(layer.kind);
  const FeatureShape& in = layer.input;
  layer.output = traits.output == nullptr ? in : traits.output(layer);
  RefuseIf(layer.output.channels < 1 || layer.output.height < 1 || layer.output.width < 1,
           stage.name + ".kernel", layer.kernel,
           fmt::format("at most the edges of its input {} with its padding", ToText(in)));
  // Products of a layer fit into 64 bits.
  constexpr double kMostProducts = 1e17;
  const std::int64_t read = layer.kind == LayerKind::kLinear      ? in.elements()
                            : layer.kind == LayerKind::kAttention ? in.pixels()
                                                                  : in.channels;
  const double products = static_cast<double>(layer.output.elements()) *
                          static_cast<double>(layer.kernel) * layer.kernel *
                          static_cast<double>(read);
  RefuseIf(products > kMostProducts, stage.name + ".layers",
           ToText(in) + " to " + ToText(layer.output), "a smaller layer");
  RefuseIf(layer.kind == LayerKind::kMaxPool && layer.padding >= layer.kernel,
           stage.name + ".padding", layer.padding, "less than the kernel");
  RefuseIf(layer.kind == LayerKind::kAttention && in.channels % (3 * layer.heads) != 0,
           stage.name + ".heads", layer.heads,
           fmt::format("a number of heads that share queries, keys and values, {} channels",
                       in.channels));
  RefuseIf(in.channels % layer.groups != 0, stage.name + ".groups", layer.groups,
           fmt::format("a divisor of the {} channels of {}", in.channels, layer.name));
}

void CheckSum(const Stage& stage, const FeatureShape& second) {
  const Layer& layer = stage.layers.front();
  const auto kept = [&](int edge) { return (edge + layer.stride - 1) / layer.stride; };
  const FeatureShape& sum = layer.output;
  const bool meets = layer.stride == 1
                         ? second == sum
                         : second.channels <= sum.channels && kept(second.height) == sum.height &&
                               kept(second.width) == sum.width;
  RefuseIf(!meets || stage.inputs[0] == stage.inputs[1], stage.name + ".inputs",
           ToText(sum) + " and " + ToText(second),
           "two values of one shape; with a stride, every pixel at it of the second one");
}

bool IsRowsOfEmbedding(const Network& network, int value) {
  const int producer = network.values[value].producer;
  if (producer < 0) return false;
  const Stage& stage = network.stages[producer];
  return HandsOnRows(stage) && stage.outputs[1] == value;
}

FeatureShape SecondShape(const Stage& stage) {
  const Layer& first = stage.layers.front();
  if (first.kind == LayerKind::kEmbedding) return {first.output.channels, first.vocabulary, 1};
  const LayerKind last = stage.layers.back().kind;
  if (stage.layers.size() > 1 && last != LayerKind::kRelu) return stage.layers.back().input;
  throw InvalidArgument(
      stage.name + ".outputs", fmt::format("2 of {}", TraitsOf(last).name),
      "1; a second one is the rows of a stage's embedding, or what a convolution or a layer on "
      "tokens behind another layer reads");
}

}  // namespace

bool HandsOnRows(const Stage& stage) {
  return stage.outputs.size() > 1 && stage.layers[0].kind == LayerKind::kEmbedding;
}

NetworkBuilder::NetworkBuilder(std::string name, FeatureShape input, int classes) {
  const auto is_edge = [](int edge) { return edge >= 1 && edge <= kMaxEdge; };
  RefuseIf(!is_edge(input.channels) || !is_edge(input.height) || !is_edge(input.width), "input",
           ToText(input), fmt::format("three numbers from 1 to {}", kMaxEdge));
  RefuseIf(classes < 2 || classes > kMaxClasses, "classes", classes,
           fmt::format("2 to {}", kMaxClasses));
  network_.name = std::move(name);
  network_.input = input;
  network_.classes = classes;
  network_.values.push_back({.shape = input});
}

int NetworkBuilder::AddValue(const FeatureShape& shape, Stage& stage) {
  const int value = static_cast<int>(network_.values.size());
  network_.values.push_back({.shape = shape, .producer = next_stage()});
  stage.outputs.push_back(value);
  return value;
}

int NetworkBuilder::Add(Stage stage, int* second) {
  RefuseIf(stage.layers.empty(), stage.name + ".layers", "none", "at least one");
  for (const Layer& layer : stage.layers) CheckFields(stage, layer);
  const bool after_loss =
      next_stage() > 0 && network_.stages.back().layers.back().kind == LayerKind::kLoss;
  RefuseIf(after_loss, stage.name + ".layers", "a stage behind the loss",
           "the loss as the last stage");
  const LayerTraits& first = TraitsOf(stage.layers.front().kind);
  RefuseIf(std::ssize(stage.inputs) != first.inputs, stage.name + ".inputs", stage.inputs.size(),
           fmt::format("{} with {}", first.inputs, first.name));
  for (std::size_t i = 0; i < stage.layers.size(); ++i) {
    Layer& layer = stage.layers[i];
    if (i > 0) CheckFollows(stage, stage.layers[i - 1], layer);
    layer.input = i > 0 ? stage.layers[i - 1].output : shape(stage.inputs[0]);
    if (layer.kind == LayerKind::kEmbedding) {
      RefuseIf(stage.inputs[0] != 0 || !IsSequence(layer.input, 1), stage.name + ".inputs",
               ToText(layer.input), "the network's input, 1xTOKENSx1");
      layer.vocabulary = network_.classes;
    }
    if (layer.kind == LayerKind::kTiedLinear) {
      const FeatureShape& rows = shape(stage.inputs[1]);
      const bool fits = IsSequence(rows, layer.input.channels);
      RefuseIf(!fits || !IsRowsOfEmbedding(network_, stage.inputs[1]) || layer.input.width != 1,
               stage.name + ".inputs", ToText(layer.input) + " and " + ToText(rows),
               "tokens, and the rows of an embedding of their width");
      layer.vocabulary = rows.height;
    }
    SetOutput(stage, layer);
  }
  if (stage.layers[0].kind == LayerKind::kSum) CheckSum(stage, shape(stage.inputs[1]));
  const Layer& last = stage.layers.back();
  for (const int input : stage.inputs) network_.values[input].consumers.push_back(next_stage());
  stage.outputs.clear();
  int value = -1;
  if (last.kind == LayerKind::kLoss) {
    const FeatureShape scores{network_.classes, 1, 1};
    const FeatureShape of_tokens{network_.classes, network_.input.height, 1};
    const bool fits =
        last.input == scores || (IsSequence(network_.input, 1) && last.input == of_tokens);
    RefuseIf(!fits, stage.name + ".inputs", ToText(last.input),
             ToText(scores) + ", a number for each class");
  } else {
    value = AddValue(last.output, stage);
    if (second != nullptr) *second = AddValue(SecondShape(stage), stage);
  }
  network_.stages.push_back(std::move(stage));
  return value;
}

Network NetworkBuilder::Finish() {
  RefuseIf(network_.stages.empty() || network_.stages.back().layers.back().kind != LayerKind::kLoss,
           "stages", "no loss", "a loss as the last one");
  for (const Value& value : network_.values) {
    if (!value.consumers.empty()) continue;
    RefuseIf(value.producer < 0, "stages", "none that reads the input", "one");
    throw InvalidArgument(network_.stages[value.producer].name + ".outputs",
                          "a value that no stage reads", "values that later stages read");
  }
  return std::move(network_);
}

}  // namespace batchless::hwmodel
