// Learning rate and momentum for a small batch, from those of a reference batch.
//
//   m   = m_r^(N / N_r)
//   eta = eta_r (1 - m) N / ((1 - m_r) N_r)
//
//   eta  learning rate > 0          eta_r, m_r, N_r  the reference
//   m    momentum in [0, 1)         N                batch size in samples >= 1
//
// The momentum decays by the same factor for each sample, and a sample's total contribution to the
// weights, eta / ((1 - m) N), stays the same. Weight decay is not rescaled. Momentum is that of
// PyTorch: v <- m v + g, w <- w - eta v.
//
// Source: Chiley et al., Online Normalization for Training Neural Networks, arXiv 1905.05894, and
// its authors' code.
#pragma once

#include <cstdint>

namespace batchless::training {

struct Hyperparameters {
  double learning_rate = 0;
  double momentum = 0;
  std::int64_t batch = 1;  ///< samples in one update
};

/// The hyperparameters for `batch` samples that do what `reference` does for its own batch.
/// Throws analysis::InvalidArgument by name for a value outside the ranges above.
Hyperparameters ScaleToBatch(const Hyperparameters& reference, std::int64_t batch);

}  // namespace batchless::training
