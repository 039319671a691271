#include "batchless/training/hyperparameter_scaling.h"

#include <cmath>

#include "batchless/analysis/argument.h"

namespace batchless::training {
namespace {

void CheckBatch(const char* name, std::int64_t batch) {
  analysis::RefuseIf(batch < 1, name, batch, "an integer >= 1");
}

void CheckRate(double rate) {
  analysis::RefuseIf(!(rate > 0) || !std::isfinite(rate), "reference_lr", rate, "a number > 0");
}

void CheckDecay(const char* name, double decay) {
  analysis::RefuseIf(!(decay >= 0 && decay < 1), name, decay, "a number in [0, 1)");
}

}  // namespace

Hyperparameters ScaleToBatch(const Hyperparameters& reference, std::int64_t batch) {
  CheckRate(reference.learning_rate);
  CheckDecay("reference_momentum", reference.momentum);
  CheckBatch("reference_batch", reference.batch);
  CheckBatch("batch", batch);
  // The reference itself comes back bit for bit.
  if (batch == reference.batch) return reference;

  const double ratio = static_cast<double>(batch) / static_cast<double>(reference.batch);
  Hyperparameters scaled;
  scaled.batch = batch;
  scaled.momentum = std::pow(reference.momentum, ratio);
  // 1 - m by expm1: for a batch of one, m is so near 1 that the subtraction would lose digits.
  const double one_minus_momentum =
      reference.momentum == 0 ? 1.0 : -std::expm1(ratio * std::log(reference.momentum));
  scaled.learning_rate =
      reference.learning_rate * one_minus_momentum * ratio / (1 - reference.momentum);
  return scaled;
}

AdamHyperparameters ScaleToBatch(const AdamHyperparameters& reference, std::int64_t batch,
                                 double exponent) {
  CheckRate(reference.learning_rate);
  CheckDecay("beta1", reference.beta1);
  CheckDecay("beta2", reference.beta2);
  CheckBatch("reference_batch", reference.batch);
  CheckBatch("batch", batch);
  analysis::CheckNumber("reference_exponent", exponent, 0, 1);
  if (batch == reference.batch) return reference;

  const double ratio = static_cast<double>(batch) / static_cast<double>(reference.batch);
  return {.learning_rate = reference.learning_rate * std::pow(ratio, exponent),
          .beta1 = std::pow(reference.beta1, ratio),
          .beta2 = std::pow(reference.beta2, ratio),
          .batch = batch};
}

}  // namespace batchless::training
