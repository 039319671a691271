#include "batchless/training/stage.h"

#include <algorithm>
#include <array>

#include "batchless/analysis/argument.h"
#include "stages/stages.h"

namespace batchless::training {

using analysis::RefuseIf;
using hwmodel::LayerKind;

std::vector<ValueLayout> PlanValues(const hwmodel::Network& network, int block) {
  std::vector<ValueLayout> values(network.values.size());
  for (std::size_t v = 0; v < values.size(); ++v) {
    const hwmodel::Value& value = network.values[v];
    ValueLayout& layout = values[v];
    layout.shape = value.shape;
    if (value.producer >= 0) {
      const hwmodel::Stage& producer = network.stages[value.producer];
      const hwmodel::ValueOrder order = hwmodel::TraitsOf(producer.layers.back().kind).order;
      if (order == hwmodel::ValueOrder::kBlocked) layout.block = block;
      if (order == hwmodel::ValueOrder::kRows) layout.block = value.shape.channels;
      if (order == hwmodel::ValueOrder::kAsInput) layout.block = values[producer.inputs[0]].block;
    }
    layout.stored_size = RoundUp(value.shape.channels, layout.block) * value.shape.pixels();
  }
  return values;
}

std::int64_t AppendTensor(std::vector<ParameterTensor>& tensors, std::int64_t& size,
                          ParameterTensor tensor) {
  tensor.offset = size;
  size += Aligned(tensor.stored_size);
  return tensors.emplace_back(std::move(tensor)).offset;
}

std::int64_t AppendChannelTensor(std::vector<ParameterTensor>& tensors, std::int64_t& size,
                                 const std::string& name, std::int64_t channels, int block,
                                 double initial) {
  ParameterTensor tensor = RowByRow(name, {channels});
  tensor.stored_size = RoundUp(channels, block);
  tensor.scale = initial;
  return AppendTensor(tensors, size, std::move(tensor));
}

namespace {

// In which order a stage's kernels take their input: any, whole blocks of the backend's channels, or a
// token's channels side by side.
enum class Reads : unsigned char { kAny, kBlocks, kRows };

struct StageFactory {
  LayerKind last;  // layer of the stage
  const StageMaker* maker;
  Reads reads = Reads::kAny;
};

// The stage that computes each kind of layer and, where it is several, those before it.
constexpr std::array<StageFactory, hwmodel::kLayerKindCount> kFactories{{
    {LayerKind::kConvolution, &kConvolutionStage, Reads::kBlocks},
    {LayerKind::kLinear, &kLinearStage},
    {LayerKind::kGroupNormalization, &kNormalizationStage, Reads::kBlocks},
    {LayerKind::kBatchNormalization, &kNormalizationStage, Reads::kBlocks},
    {LayerKind::kLocalResponseNormalization, &kLocalResponseStage},
    {LayerKind::kRelu, &kNormalizationStage},
    {LayerKind::kMaxPool, &kPoolStage, Reads::kBlocks},
    {LayerKind::kAveragePool, &kPoolStage, Reads::kBlocks},
    {LayerKind::kDropout, &kDropoutStage},
    {LayerKind::kSum, &kSumStage},
    {LayerKind::kEmbedding, &kTokenStage},
    {LayerKind::kPosition, &kTokenStage, Reads::kRows},
    {LayerKind::kLayerNormalization, &kTokenStage, Reads::kRows},
    {LayerKind::kRmsNormalization, &kTokenStage, Reads::kRows},
    {LayerKind::kTokenLinear, &kTokenStage, Reads::kRows},
    {LayerKind::kTiedLinear, &kTiedLinearStage, Reads::kRows},
    {LayerKind::kAttention, &kTokenStage, Reads::kRows},
    {LayerKind::kGelu, &kTokenStage, Reads::kRows},
    {LayerKind::kSquaredRelu, &kTokenStage, Reads::kRows},
    {LayerKind::kLoss, &kLossStage},
}};

constexpr bool IsComplete() {
  for (std::size_t i = 0; i < hwmodel::kLayerKindCount; ++i) {
    if (static_cast<std::size_t>(kFactories[i].last) != i) return false;
  }
  return true;
}
static_assert(IsComplete(), "every kind of layer has a stage, in the order of LayerKind");

const StageFactory& FactoryOf(const hwmodel::Layer& layer) {
  return kFactories[static_cast<std::size_t>(layer.kind)];
}

// A convolution of the network's input reads plain values, which have no gradient.
template <class Real>
bool ReadsBlocks(const StageParts<Real>& parts) {
  const std::vector<hwmodel::Layer>& layers = parts.stage.layers;
  const bool reads_input = parts.network.values[parts.stage.inputs[0]].producer < 0;
  if (layers.size() == 1 && layers[0].kind == LayerKind::kConvolution && reads_input) return false;
  return std::any_of(layers.begin(), layers.end(), [](const hwmodel::Layer& layer) {
    return FactoryOf(layer).reads == Reads::kBlocks;
  });
}

// A token's channels have to lie side by side, for the loss of each token, too; and rows of several samples
// follow each other without the padding that a block's channels may have.
template <class Real>
void CheckRows(const StageParts<Real>& parts) {
  const hwmodel::Layer& first = parts.stage.layers.front();
  const bool reads_rows = FactoryOf(first).reads == Reads::kRows;
  const bool lacks_rows = parts.Input(0).block != first.input.channels && first.input.pixels() > 1;
  RefuseIf((reads_rows || first.kind == LayerKind::kLoss) && lacks_rows, "network",
           parts.stage.name + " of no token's channels",
           "an embedding, and layers on tokens behind it");
  RefuseIf(
      reads_rows && parts.microbatch > 1 && parts.Input(0).stored_size != first.input.elements(),
      "network",
      parts.stage.name + " of channels in blocks, in micro-batches of " +
          std::to_string(parts.microbatch) + " samples",
      "micro-batches of one, an average pool before it, or the reference kernels");
}

void CheckReaders(const hwmodel::Network& network, int number) {
  const hwmodel::Stage& stage = network.stages[number];
  if (hwmodel::TraitsOf(stage.layers.back().kind).adds_input_gradient) return;
  for (const int input : stage.inputs) {
    RefuseIf(network.values[input].consumers.back() != number, "network",
             stage.name + " before other readers of its input",
             "a convolution, a normalisation or a ReLU there");
  }
}

}  // namespace

template <class Real>
std::unique_ptr<Stage<Real>> MakeStage(const hwmodel::Network& network, int stage, int microbatch,
                                       std::shared_ptr<const Backend<Real>> backend) {
  const StageParts<Real> parts{.network = network,
                               .stage = network.stages.at(stage),
                               .number = stage,
                               .microbatch = microbatch,
                               .backend = backend,
                               .values = PlanValues(network, backend->block())};
  CheckReaders(network, stage);
  RefuseIf(ReadsBlocks(parts) && parts.Input(0).block != backend->block(), "network",
           parts.stage.name + " behind the network's input or a linear layer",
           "a convolution or a max-pool before it, or the reference kernels");
  CheckRows(parts);
  return std::get<MakeStageOf<Real>>(*FactoryOf(parts.stage.layers.back()).maker)(parts);
}

template std::unique_ptr<Stage<float>> MakeStage(const hwmodel::Network&, int, int,
                                                 std::shared_ptr<const Backend<float>>);
template std::unique_ptr<Stage<double>> MakeStage(const hwmodel::Network&, int, int,
                                                  std::shared_ptr<const Backend<double>>);

}  // namespace batchless::training
