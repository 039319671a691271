#include "batchless/training/update.h"

namespace batchless::training {

template <class Real>
UpdateCoefficients<Real> MakeUpdateCoefficients(const analysis::RuleSpec& rule,
                                                double learning_rate, double momentum,
                                                double weight_decay, analysis::Delay delay) {
  const analysis::Coefficients<double> c =
      analysis::ComputeCoefficients<double>(rule, momentum, delay);
  UpdateCoefficients<Real> update;
  update.momentum = static_cast<Real>(momentum);
  update.weight_decay = static_cast<Real>(weight_decay);
  update.velocity_step = static_cast<Real>(-learning_rate * c.a);
  update.gradient_step = static_cast<Real>(-learning_rate * c.b);
  if (rule.rule.prediction == analysis::Prediction::kVelocity) {
    update.forward_horizon.velocity = static_cast<Real>(-learning_rate * c.horizon);
  } else if (rule.rule.prediction == analysis::Prediction::kWeight) {
    update.forward_horizon.weight = static_cast<Real>(c.horizon);
  }
  return update;
}

template UpdateCoefficients<float> MakeUpdateCoefficients(const analysis::RuleSpec&, double, double,
                                                          double, analysis::Delay);
template UpdateCoefficients<double> MakeUpdateCoefficients(const analysis::RuleSpec&, double,
                                                           double, double, analysis::Delay);

}  // namespace batchless::training
