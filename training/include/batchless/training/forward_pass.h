// What a trained network says of one sample: its stages one after the other, up to the loss, in single
// precision, nothing dropped.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "batchless/hwmodel/network.h"
#include "batchless/training/backend.h"
#include "batchless/training/trainer.h"

namespace batchless::training {

class ForwardPass {
 public:
  /// `tensors`: as Trainer::ImportWeights takes them, and refuses them.
  ForwardPass(const hwmodel::Network& network, std::span<const NamedTensor> tensors);
  ~ForwardPass();
  ForwardPass(const ForwardPass&) = delete;
  ForwardPass& operator=(const ForwardPass&) = delete;

  /// Scores of the classes (labels of a sample, classes), until the next call. input: value 0 in its
  /// stored order, tokens or pixels.
  std::span<const float> Scores(std::span<const float> input);

 private:
  struct Memory;

  hwmodel::Network network_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace batchless::training

// Example
//   TrainerOptions options;
//   options.network = batchless::hwmodel::MakeNetwork({.name = "linear"});
//   const std::vector<NamedTensor> weights = MakeTrainer(options)->ExportWeights();
//   ForwardPass pass(options.network, weights);
//   const std::vector<float> image(options.network.input.elements());
//   CHECK(pass.Scores(image).size() == 10);
