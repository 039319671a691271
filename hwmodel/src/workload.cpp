#include "batchless/hwmodel/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "batchless/analysis/argument.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

constexpr std::array<Transformer, 7> kTransformers = {{
    {"gpt2", 12, 768, 12, 1024, 50257},
    {"gpt2-medium", 24, 1024, 16, 1024, 50257},
    {"gpt2-large", 36, 1280, 20, 1024, 50257},
    {"gpt2-xl", 48, 1600, 25, 1024, 50257},
    {"gpt3", 96, 12288, 96, 2048, 50257},
    {"bert-base", 12, 768, 12, 512, 30522, true},
    {"bert-large", 24, 1024, 16, 512, 30522, true},
}};

// Products alone of some stages of a gpt, without what each element costs beside them.
StageCost ProductCost(std::span<const Stage> stages) {
  StageCost cost;
  for (const Stage& stage : stages) {
    for (const Layer& layer : stage.layers) {
      const LayerTraits& traits = TraitsOf(layer.kind);
      const std::int64_t matrix_flops = 2 * traits.multiply_adds(layer);
      const std::int64_t product_flops = traits.product_flops(layer);
      cost.parameters += ParametersOf(layer);
      cost.forward_flops += matrix_flops + product_flops;
      cost.input_gradient_flops += matrix_flops + 2 * product_flops;
      cost.weight_gradient_flops += matrix_flops;
    }
  }
  return cost;
}

}  // namespace

std::int64_t Workload::parameters() const {
  std::int64_t sum = 0;
  for (const StageCost& cost : stages) sum += cost.parameters;
  return sum;
}

std::int64_t Workload::WorkerActivationBytes(int first, int end) const {
  std::int64_t sum = 0;
  for (int s = first; s < end; ++s) {
    const StageCost& cost = stages[s];
    sum += cost.activation_bytes;
    if (cost.kept_before_by < first) sum += cost.kept_again_bytes;
  }
  return sum;
}

std::int64_t Workload::WorkerInputBytes(int first, int end) const {
  if (first == 0) return input_bytes;
  const StageCost& before = stages[first - 1];
  std::int64_t bytes = before.boundary_bytes;
  for (const PassingValue& value : before.passing) {
    if (value.next_reader >= end) bytes -= value.bytes;
  }
  return bytes;
}

std::int64_t Workload::training_flops() const {
  std::int64_t sum = 0;
  for (const StageCost& cost : stages) sum += cost.training_flops();
  return sum;
}

std::span<const std::string_view> WorkloadNames() {
  static const std::vector<std::string_view> names = [] {
    const auto trained = NetworkNames();
    std::vector<std::string_view> all(trained.begin(), trained.end());
    all.insert(all.end(), {"resnet224", "resnet362", "vgg16-imagenet"});
    for (const Transformer& transformer : kTransformers) all.push_back(transformer.name);
    return all;
  }();
  return names;
}

bool IsWorkloadName(std::string_view name) {
  const auto names = WorkloadNames();
  return IsNetworkName(name) || std::ranges::find(names, name) != names.end();
}

Workload MakeWorkload(const Network& network, int bytes_per_number) {
  Workload workload;
  workload.name = network.name;
  workload.stages = ComputeCosts(network, bytes_per_number);
  for (const Stage& stage : network.stages) workload.stage_names.push_back(stage.name);
  workload.input_bytes = network.input.elements() * bytes_per_number;
  return workload;
}

Workload MakeWorkload(const Transformer& transformer, int bytes_per_number) {
  for (const auto& [name, value] : {std::pair{"blocks", transformer.blocks},
                                    {"width", transformer.width},
                                    {"heads", transformer.heads},
                                    {"tokens", transformer.tokens},
                                    {"vocabulary", transformer.vocabulary}}) {
    CheckAtLeastOne(name, value);
  }
  RefuseIf(transformer.width % transformer.heads != 0, "heads", transformer.heads,
           "a divisor of the width " + std::to_string(transformer.width));
  const std::int64_t d = transformer.width;
  const std::int64_t n = transformer.tokens;
  const std::int64_t p = bytes_per_number;
  const std::int64_t nd = n * d;
  const Network network = MakeNetwork({.name = "gpt",
                                       .input = {1, transformer.tokens, 1},
                                       .classes = transformer.vocabulary,
                                       .layers = transformer.blocks,
                                       .width = transformer.width,
                                       .heads = transformer.heads});

  Workload workload;
  workload.name = transformer.name;
  workload.input_bytes = 4 * n;  // numbers of tokens
  auto next = network.stages.begin();
  const auto add = [&](std::string name, std::ptrdiff_t stages, std::int64_t more_parameters,
                       std::int64_t largest_output, std::int64_t activation_bytes) {
    StageCost cost = ProductCost({next, next + stages});
    next += stages;
    cost.parameters += more_parameters;
    cost.update_flops = 6 * cost.parameters;
    cost.parameter_bytes = cost.parameters * p;
    cost.largest_output = largest_output;
    cost.activation_bytes = activation_bytes;
    cost.boundary_bytes = p * nd;
    const bool first = workload.stages.empty();
    cost.read_bytes = first ? workload.input_bytes : p * nd;
    cost.written_bytes = p * nd;
    // Its input is one of the activations, and no result of its own.
    cost.saved_bytes = activation_bytes - cost.read_bytes;
    cost.kept_bytes = activation_bytes;
    cost.gradient_bytes = (first ? 1 : 2) * p * nd;
    // A token's and a position's row for each token.
    if (first) cost.sample_parameter_bytes = 2 * p * nd;
    workload.stage_names.push_back(std::move(name));
    workload.stages.push_back(cost);
  };
  // Two segments and the normalisation behind the embedding.
  const std::int64_t after_embedding = transformer.encoder ? 2 * d + 2 * d : 0;
  add("embedding", 1, after_embedding, nd, 4 * n + nd);
  for (int block = 0; block < transformer.blocks; ++block) {
    const std::string name = "block" + std::to_string(block);
    add(name + ".attention", 2, 0, std::max(3 * nd, transformer.heads * n * n),
        (6 * p + 1) * nd + (2 * p + 1) * transformer.heads * n * n);
    add(name + ".feedforward", 2, 0, 4 * nd, (10 * p + 1) * nd);
  }
  // A linear layer on the first token, in place of the last normalisation.
  const std::int64_t pooler = transformer.encoder ? d * d + d - 2 * d : 0;
  add("scores", 3, pooler, n * transformer.vocabulary, p * (nd + n * transformer.vocabulary));
  workload.stages.front().input_gradient_flops = 0;
  StageCost& scores = workload.stages.back();
  scores.boundary_bytes = scores.written_bytes = 0;
  scores.gradient_bytes = p * nd;
  return workload;
}

Workload MakeWorkload(std::string_view name, int bytes_per_number,
                      std::optional<Normalization> normalization) {
  for (const Transformer& transformer : kTransformers) {
    if (transformer.name != name) continue;
    RefuseIf(normalization.has_value(), "network.norm",
             Name(normalization.value_or(Normalization::kNone)),
             fmt::format("nothing with {}", name));
    return MakeWorkload(transformer, bytes_per_number);
  }
  RefuseIf(!IsWorkloadName(name), "network", name, analysis::OneOf(name, WorkloadNames()));
  NetworkOptions options;
  options.name = name;
  options.normalization = normalization;
  if (name == "vgg16-imagenet") {
    options.name = "vgg16";
    options.normalization = normalization.value_or(Normalization::kNone);
    options.input = {3, 224, 224};
    options.classes = 1000;
    options.hidden = {4096, 4096};
  }
  Workload workload = MakeWorkload(MakeNetwork(options), bytes_per_number);
  workload.name = name;
  return workload;
}

}  // namespace batchless::hwmodel
