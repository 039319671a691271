#include "batchless/analysis/characteristic.h"

#include <string>

#include "batchless/analysis/argument.h"

namespace batchless::analysis {

template <class Real>
std::vector<Real> DenseCoefficients(const Characteristic<Real>& p,
                                    std::type_identity_t<Real> rate) {
  RefuseIf(!(p.n >= 0 && p.n <= kMaxDenseDelay), "delay", static_cast<double>(p.n),
           "at most " + std::to_string(kMaxDenseDelay) +
               " where all coefficients of the polynomial are asked for");
  const auto n = static_cast<std::size_t>(p.n);
  std::vector<Real> c(n + 3, Real(0));
  // z^n (z - 1)(z - m)
  c[n] = p.momentum;
  c[n + 1] = -(1 + p.momentum);
  c[n + 2] = 1;
  // x ((kappa - beta) + beta z)((1 - gamma) + gamma z)
  const Real beta_constant = p.kappa - p.beta;
  const Real gamma_constant = 1 - p.gamma;
  c[0] += rate * (beta_constant * gamma_constant);
  c[1] += rate * (beta_constant * p.gamma + p.beta * gamma_constant);
  c[2] += rate * (p.beta * p.gamma);
  return c;
}

template std::vector<double> DenseCoefficients(const Characteristic<double>&, double);
template std::vector<long double> DenseCoefficients(const Characteristic<long double>&,
                                                    long double);

void CheckMomentum(double momentum) { CheckNumber("momentum", momentum, 0, 1); }

void CheckDelay(Delay delay) { CheckInteger("delay", delay, 0, kMaxDelay); }

void CheckRate(double rate) { CheckNumber("rate", rate, kMinRate, kMaxRate); }

void Validate(const RuleSpec& spec, double momentum) {
  Validate(spec);
  if (!spec.is_linear()) CheckMomentum(momentum);
}

void Validate(const RuleSpec& spec, double momentum, Delay delay, double rate) {
  Validate(spec, momentum);
  CheckDelay(delay);
  CheckRate(rate);
}

}  // namespace batchless::analysis
