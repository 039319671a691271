// The kinds of stages, each in a file of its own.
#pragma once

#include <memory>
#include <tuple>
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

// Makes the stages of one kind, of either number type.
template <class Real>
using MakeStageOf = std::unique_ptr<Stage<Real>> (*)(const StageParts<Real>& parts);
using StageMaker = std::tuple<MakeStageOf<float>, MakeStageOf<double>>;

template <template <class> class Kind, class Real>
std::unique_ptr<Stage<Real>> MakeStageOfKind(const StageParts<Real>& parts) {
  return std::make_unique<Kind<Real>>(parts);
}
template <template <class> class Kind>
constexpr StageMaker MakerOf() {
  return {MakeStageOfKind<Kind, float>, MakeStageOfKind<Kind, double>};
}

extern const StageMaker kConvolutionStage;  // with a ReLU before it or a normalisation and a ReLU
extern const StageMaker kLinearStage;
extern const StageMaker kNormalizationStage;  // with a ReLU behind it or without, or a ReLU alone
extern const StageMaker kLocalResponseStage;
extern const StageMaker kPoolStage;
extern const StageMaker kDropoutStage;
extern const StageMaker kSumStage;
extern const StageMaker kTokenStage;       // layers on tokens, one behind the other
extern const StageMaker kTiedLinearStage;  // scores of tokens by the rows of the embedding
extern const StageMaker kLossStage;        // softmax cross-entropy of each sample, or each token

// Puts a tensor at the end of a block of so many elements, and returns its offset.
std::int64_t AppendTensor(std::vector<ParameterTensor>& tensors, std::int64_t& size,
                          ParameterTensor tensor);

// A tensor of one number for each of `channels` channels, at first all `initial`.
std::int64_t AppendChannelTensor(std::vector<ParameterTensor>& tensors, std::int64_t& size,
                                 const std::string& name, std::int64_t channels, int block,
                                 double initial);

}  // namespace batchless::training
