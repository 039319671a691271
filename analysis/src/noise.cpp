#include "batchless/analysis/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/spectral_radius.h"
#include "impulse_energy-inl.h"
#include "not_finite.h"
#include "powers_of_u.h"
#include "scalar_lanes.h"

namespace batchless::analysis {
namespace {

// Coefficients of H by descending powers.
template <class Real>
struct Transfer {
  std::vector<Real> numerator;
  std::vector<Real> denominator;
};

// The energy of a single numerator; NaN where a is not stable.
template <class Real>
Real Energy(std::vector<Real> b, std::vector<Real> a) {
  const auto products = ImpulseProducts<Real>({std::move(b)}, std::move(a));
  return products.empty() ? std::numeric_limits<Real>::quiet_NaN() : products[0][0];
}

// H = z^n lead / (z^n poles + x loop), numerator and denominator of one length.
template <class Real>
Transfer<Real> MakeTransfer(const RuleSpec& spec, double momentum, Delay delay, double rate) {
  const Real m(momentum);
  const Real x(rate);
  auto n = static_cast<std::size_t>(delay);
  std::vector<Real> lead, loop, poles = {Real(1), -(1 + m), m};
  if (spec.is_linear()) {
    // Leading zeros may be written.
    const std::vector<double>& numerator = spec.options.numerator;
    lead.assign(std::find_if(numerator.begin(), numerator.end(), [](double c) { return c != 0; }),
                numerator.end());
    loop = lead;
    poles.assign(spec.options.denominator.begin(), spec.options.denominator.end());
  } else {
    const Coefficients<Real> c = ComputeCoefficients<Real>(spec, m, delay);
    lead = loop = {c.a + c.b, -c.b * m};
    if (spec.rule.prediction == Prediction::kVelocity) {
      loop[0] += c.horizon;
      loop[1] -= c.horizon;
    } else if (spec.rule.prediction == Prediction::kWeight) {
      loop = Multiply(loop, std::vector<Real>{1 + c.horizon, -c.horizon});
      ++n;
    }
  }
  const std::size_t size = poles.size() + n;
  Transfer<Real> transfer{std::vector<Real>(size, Real(0)), std::move(poles)};
  transfer.denominator.resize(size, Real(0));
  for (std::size_t i = 0; i < loop.size(); ++i) {
    transfer.denominator[size - loop.size() + i] += x * loop[i];
  }
  std::copy(lead.begin(), lead.end(), transfer.numerator.end() - (n + lead.size()));
  return transfer;
}

template <class Real>
Real Variance(const RuleSpec& spec, double momentum, Delay delay, double rate, double average) {
  Transfer<Real> transfer = MakeTransfer<Real>(spec, momentum, delay, rate);
  if (average > 1) {
    const Real share = 1 / Real(average);
    transfer.denominator = Multiply(transfer.denominator, std::vector<Real>{1, share - 1});
    // z as a factor changes no modulus on the circle; it keeps the degrees equal.
    transfer.numerator = Multiply(transfer.numerator, std::vector<Real>{share, 0});
  }
  return Energy(std::move(transfer.numerator), std::move(transfer.denominator));
}

}  // namespace

double ImpulseEnergy(std::span<const double> numerator, std::span<const double> denominator) {
  const auto check = [](std::string_view name, std::span<const double> coefficients) {
    RefuseIf(coefficients.empty(), name, "nothing", "at least one coefficient");
    for (const double value : coefficients) {
      RefuseIf(!std::isfinite(value), name, value, "finite coefficients");
    }
  };
  check("numerator", numerator);
  check("denominator", denominator);
  RefuseIf(denominator[0] == 0, "denominator", denominator[0],
           "a leading coefficient that is not 0");
  RefuseIf(numerator.size() > denominator.size(), "numerator",
           "degree " + std::to_string(numerator.size() - 1),
           "at most the denominator's, " + std::to_string(denominator.size() - 1));
  const std::vector<long double> b(numerator.begin(), numerator.end());
  const std::vector<long double> a(denominator.begin(), denominator.end());
  return static_cast<double>(ImpulseEnergy(std::span(b), std::span(a)));
}

long double ImpulseEnergy(std::span<const long double> numerator,
                          std::span<const long double> denominator) {
  std::vector<long double> b(denominator.size() - numerator.size(), 0.0L);
  b.insert(b.end(), numerator.begin(), numerator.end());
  return Energy(std::move(b), std::vector<long double>(denominator.begin(), denominator.end()));
}

double WeightVariance(const RuleSpec& spec, double momentum, Delay delay, double rate,
                      double average) {
  Validate(spec, momentum);
  CheckRate(rate);
  CheckInteger("delay", delay, 0, kMaxNoiseDelay);
  CheckNumber("average", average, kMinAverage, kMaxAverage);
  if (!ComputeSpectralRadius(spec, momentum, delay, rate).stable()) return kNaN;
  const double coarse = Variance<double>(spec, momentum, delay, rate, average);
  const auto fine =
      static_cast<double>(Variance<long double>(spec, momentum, delay, rate, average));
  // The same operations with 2^-11 of the rounding: long double is off by about this much less than
  // the two differ.
  constexpr double kGain = 2048;
  if (std::abs(coarse - fine) <= kGain * kVarianceTolerance * fine) return fine;
  return static_cast<double>(Variance<FiftyDigits>(spec, momentum, delay, rate, average));
}

}  // namespace batchless::analysis
