// The update of a stage's parameters: one pass over memory for everything that a rule asks for.
//
//   G        = g + wd w
//   v_new    = m v + G
//   w_new    = w - eta (a v_new + b G)
//   forward  = w_new - eta T v_new               velocity form, T the forward's horizon
//            = w_new + T (w_new - w)             weight form
//   backward = the same with the backward's horizon
//
//   wd  weight decay, L2 in the gradient        eta  learning rate
//   m   momentum, a, b spike compensation (analysis/rule.h)
//
// A forward that comes D updates before its gradient reads the newest weights there are, so the
// prediction from the newest state, made once at each update, is the one that every forward needs
// until the next. With T = 0 `forward` equals w_new bit for bit; with a = 1 and b = 0 the update is
// that of SGDM bit for bit.
//
// Source: Kosson et al., arXiv 2003.11666; PyTorch's momentum.
#pragma once

#include <cstdint>

#include "batchless/analysis/rule.h"

namespace batchless::training {

/// Horizons of a prediction; at most one is not zero.
template <class Real>
struct Extrapolation {
  Real velocity = 0;  ///< of v_new: -eta T
  Real weight = 0;    ///< of w_new - w: T
};

template <class Real>
struct UpdateCoefficients {
  Real momentum = 0;
  Real weight_decay = 0;
  Real velocity_step = 0;  ///< -eta a
  Real gradient_step = 0;  ///< -eta b
  Extrapolation<Real> forward_horizon;
  Extrapolation<Real> backward_horizon;
  /// Arrays of the same size: gradient, weights and velocity; then the two predictions, each null
  /// where the weights themselves serve.
  const Real* gradient = nullptr;
  Real* weights = nullptr;
  Real* velocity = nullptr;
  Real* forward = nullptr;
  Real* backward = nullptr;
  /// Whether `forward` is written past the caches, where its alignment lets it.
  bool streams_forward = false;
};

/// Coefficients of `rule` for a stage's delay, from analysis/rule.h: the forward's prediction is the
/// rule's, the backward has none; pointers are left null. `rule` has to be valid.
template <class Real>
UpdateCoefficients<Real> MakeUpdateCoefficients(const analysis::RuleSpec& rule,
                                                double learning_rate, double momentum,
                                                double weight_decay, analysis::Delay delay);

}  // namespace batchless::training
