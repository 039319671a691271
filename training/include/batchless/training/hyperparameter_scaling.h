// Learning rate and momentum, or betas of Adam, for a small batch, from those of a reference batch.
//
// SGD with momentum:
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
// Adam and its kin:
//
//   beta = beta_r^(N / N_r)   of both betas: what they average over stays the same in samples
//   eta  = eta_r (N / N_r)^p  0 <= p <= 1
//
// A step of Adam does not grow with its gradients, so that no sample has a contribution of its own to
// keep: p is 1 where steps of many small batches add up and 1/2 where their noise does. Which is the case
// is a matter of measurement.
//
// Sources: Chiley et al., Online Normalization for Training Neural Networks, arXiv 1905.05894, and its
// authors' code (SGD); arXiv 2507.07101 (betas of Adam; secondary reading).
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

struct AdamHyperparameters {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  std::int64_t batch = 1;  ///< samples in one update
};

/// The same for Adam, with the exponent p. Throws analysis::InvalidArgument by name (reference_lr, beta1,
/// beta2, reference_batch, reference_exponent, batch).
AdamHyperparameters ScaleToBatch(const AdamHyperparameters& reference, std::int64_t batch,
                                 double exponent);

}  // namespace batchless::training

// Example
//   const Hyperparameters scaled =
//       ScaleToBatch({.learning_rate = 0.1, .momentum = 0.9, .batch = 256}, 32);
//   CHECK(scaled.momentum == Approx(0.98691628));
//   CHECK(scaled.learning_rate == Approx(0.001635).epsilon(1e-3));
