// The kinds of stages, each in a file of its own.
#pragma once

#include <memory>
#include <vector>

#include "batchless/training/backend.h"
#include "batchless/training/stage.h"

namespace batchless::training {

// What every kind is made from.
template <class Real>
struct StageParts {
  const hwmodel::Network& network;
  const hwmodel::Stage& stage;
  int number;
  int microbatch;
  std::shared_ptr<const Backend<Real>> backend;
  std::vector<ValueLayout> values;  // of the whole network

  const ValueLayout& Input(std::size_t i) const { return values.at(stage.inputs.at(i)); }
  const ValueLayout& Output(std::size_t i) const { return values.at(stage.outputs.at(i)); }
};

// A convolution, with a ReLU before it or a normalisation and a ReLU.
template <class Real>
std::unique_ptr<Stage<Real>> MakeConvolutionStage(const StageParts<Real>& parts);
template <class Real>
std::unique_ptr<Stage<Real>> MakeLinearStage(const StageParts<Real>& parts);
// A normalisation, with a ReLU behind it or without.
template <class Real>
std::unique_ptr<Stage<Real>> MakeNormalizationStage(const StageParts<Real>& parts);
template <class Real>
std::unique_ptr<Stage<Real>> MakeLocalResponseStage(const StageParts<Real>& parts);
// A ReLU, with a normalisation before it or alone.
template <class Real>
std::unique_ptr<Stage<Real>> MakeReluStage(const StageParts<Real>& parts);
template <class Real>
std::unique_ptr<Stage<Real>> MakeMaxPoolStage(const StageParts<Real>& parts);
template <class Real>
std::unique_ptr<Stage<Real>> MakeAveragePoolStage(const StageParts<Real>& parts);
template <class Real>
std::unique_ptr<Stage<Real>> MakeDropoutStage(const StageParts<Real>& parts);
template <class Real>
std::unique_ptr<Stage<Real>> MakeSumStage(const StageParts<Real>& parts);
// Layers on tokens, one behind the other.
template <class Real>
std::unique_ptr<Stage<Real>> MakeTokenStage(const StageParts<Real>& parts);
// Scores of tokens by the rows of the embedding.
template <class Real>
std::unique_ptr<Stage<Real>> MakeTiedLinearStage(const StageParts<Real>& parts);
// Softmax cross-entropy, of each sample or each token.
template <class Real>
std::unique_ptr<Stage<Real>> MakeLossStage(const StageParts<Real>& parts);
template <class Real>
std::unique_ptr<Stage<Real>> MakeTokenLossStage(const StageParts<Real>& parts);

// Rounded up so that what follows is aligned to 64 bytes in float and double.
constexpr std::int64_t Aligned(std::int64_t elements) { return RoundUp(elements, 16); }

// A tensor of one number for each of `channels` channels, at the end of `layout`'s block.
ParameterTensor& AppendChannelTensor(std::vector<ParameterTensor>& tensors, std::int64_t& size,
                                     const std::string& name, std::int64_t channels, int block,
                                     Initializer initializer);

NormalizationShape MakeNormalizationShape(const hwmodel::Layer& layer, int microbatch, int block);

}  // namespace batchless::training
