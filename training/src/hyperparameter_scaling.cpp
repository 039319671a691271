#include "batchless/training/hyperparameter_scaling.h"

#include <cmath>
#include <string>

#include "batchless/analysis/argument.h"

namespace batchless::training {
namespace {

void CheckBatch(const char* name, std::int64_t batch) {
  if (batch < 1) {
    throw analysis::InvalidArgument(name, std::to_string(batch), "an integer >= 1");
  }
}

}  // namespace

Hyperparameters ScaleToBatch(const Hyperparameters& reference, std::int64_t batch) {
  if (!(reference.learning_rate > 0) || !std::isfinite(reference.learning_rate)) {
    throw analysis::InvalidArgument("reference_lr", reference.learning_rate, "a number > 0");
  }
  if (!(reference.momentum >= 0 && reference.momentum < 1)) {
    throw analysis::InvalidArgument("reference_momentum", reference.momentum, "a number in [0, 1)");
  }
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

}  // namespace batchless::training
