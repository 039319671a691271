#include "covariance_criterion.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "delay_operator.h"
#include "impulse_energy-inl.h"
#include "powers_of_u.h"

namespace batchless::analysis {
namespace {

bool HasOneUpdate(const RuleSpec& spec, const DelayCoefficients& coefficients) {
  return spec.is_linear() ||
         (coefficients.same_update && !SecondSignalOf(spec, coefficients).velocity);
}

// sum += factor * added.
template <class Real>
void Add(std::vector<Real>& sum, const std::vector<Real>& added, Real factor = 1) {
  if (sum.size() < added.size()) sum.insert(sum.begin(), added.size() - sum.size(), Real(0));
  const std::size_t ahead = sum.size() - added.size();
  for (std::size_t i = 0; i < added.size(); ++i) sum[ahead + i] += factor * added[i];
}

// In z / root, whose unit circle is |z| = root.
template <class Real>
std::vector<Real> Scaled(std::vector<Real> polynomial, Real root) {
  Real factor = 1;
  for (Real& coefficient : polynomial) {
    coefficient *= factor;
    factor /= root;
  }
  return polynomial;
}

// The spectral radius of a matrix of 3 x 3 that keeps a cone, which is an eigenvalue: the largest root of
// det(y I - K). Beyond it the cubic and its derivatives are positive, so that Newton's method falls to it.
template <class Real>
Real PerronRoot(const DenseMatrix<Real>& k) {
  const Real trace = k(0, 0) + k(1, 1) + k(2, 2);
  const auto minor = [&](int i, int j) { return k(i, i) * k(j, j) - k(i, j) * k(j, i); };
  const Real minors = minor(0, 1) + minor(0, 2) + minor(1, 2);
  const Real determinant = k(0, 0) * minor(1, 2) -
                           k(0, 1) * (k(1, 0) * k(2, 2) - k(1, 2) * k(2, 0)) +
                           k(0, 2) * (k(1, 0) * k(2, 1) - k(1, 1) * k(2, 0));
  Real root = k.cwiseAbs().rowwise().sum().maxCoeff();
  if (!std::isfinite(root)) return std::numeric_limits<Real>::infinity();
  for (int step = 0; step < 200; ++step) {
    const Real value = ((root - trace) * root + minors) * root - determinant;
    const Real slope = (3 * root - 2 * trace) * root + minors;
    if (!(value > 0 && slope > 0)) break;
    const Real next = root - value / slope;
    if (!(next < root)) break;
    root = next;
  }
  return root;
}

}  // namespace

bool HasOneUpdate(const VaryingDelay& point) {
  return HasOneUpdate(point.rule, CoefficientsOf(point));
}

// Every pair i <= j of inputs, in order.
template <class Real>
template <class Function>
void CovarianceCriterion<Real>::ForPairs(Function function) const {
  std::size_t pair = 0;
  for (std::size_t j = 0; j < inputs_; ++j) {
    for (std::size_t i = 0; i <= j; ++i) function(pair++, i, j);
  }
}

// Multiplied by z^(L times).
template <class Real>
auto CovarianceCriterion<Real>::Late(Polynomial polynomial, std::size_t times) const -> Polynomial {
  polynomial.resize(polynomial.size() + times * draws_.back().delay, Real(0));
  return polynomial;
}

template <class Real>
CovarianceCriterion<Real>::CovarianceCriterion(const VaryingDelay& point, double rate)
    : rate_(static_cast<Real>(rate)) {
  const RuleSpec& spec = point.rule;
  const DelayCoefficients coefficients = CoefficientsOf(point);
  const Coefficients<double>& first = coefficients.each.front();
  const Real m = static_cast<Real>(point.momentum);
  const bool velocity = spec.rule.prediction == Prediction::kVelocity;
  const auto [difference, both] = SecondSignalOf(spec, coefficients);
  const bool same = coefficients.same_update;
  inputs_ = HasOneUpdate(spec, coefficients) ? 1 : 2;
  signals_ = difference || both ? 2 : 1;
  // Answers of weight and velocity to each input.
  Polynomial core = {Real(1), -1 - m, m};
  std::vector<Polynomial> weights, velocities;
  if (spec.is_linear()) {
    core.assign(spec.options.denominator.begin(), spec.options.denominator.end());
    const std::vector<double>& n = spec.options.numerator;
    weights = {Polynomial(n.begin(), n.end())};
    for (Real& coefficient : weights[0]) coefficient = -coefficient;
    // Numerators may be written with leading zeros.
    if (weights[0].size() >= core.size()) {
      weights[0].erase(weights[0].begin(), weights[0].end() - (core.size() - 1));
    }
  } else if (inputs_ == 1) {
    const Real a = static_cast<Real>(first.a), b = static_cast<Real>(first.b);
    weights = {{-(a + b), b * m}};
    velocities = {{Real(1), Real(-1)}};
  } else {
    weights = {{Real(1), -m}, {same ? -m * static_cast<Real>(first.a) : -m}};
    velocities = {{Real(0)}, {Real(1), Real(-1)}};
  }
  for (std::size_t i = 0; i < point.delays.delays.size(); ++i) {
    const Coefficients<double>& each = coefficients.each[i];
    const Real a = static_cast<Real>(each.a), b = static_cast<Real>(each.b);
    const Real horizon = static_cast<Real>(each.horizon);
    draws_.push_back({static_cast<std::size_t>(point.delays.delays[i]),
                      static_cast<Real>(point.delays.shares[i]),
                      {inputs_ == 1 ? Real(1) : -(a + b), same ? Real(1) : a},
                      {Real(1), both ? -horizon : horizon}});
  }
  const Real horizon = velocity && signals_ == 1 ? static_cast<Real>(first.horizon) : Real(0);
  // y by input, then signal.
  std::vector<Polynomial> answers;
  for (std::size_t i = 0; i < inputs_; ++i) {
    Polynomial signal = weights[i];
    if (horizon != 0) Add(signal, velocities[i], -horizon);
    if (both) {
      answers.insert(answers.end(), {weights[i], velocities[i]});
    } else if (difference) {
      answers.push_back(Multiply<Polynomial>(signal, {Real(1), Real(0)}));
      answers.push_back(Multiply<Polynomial>(signal, {Real(1), Real(-1)}));
    } else {
      answers.push_back(signal);
    }
  }
  if (difference) core.push_back(Real(0));
  const std::vector<Polynomial> gains = CloseLoop(core, answers, both);
  for (std::size_t i = 0; i < inputs_; ++i) {
    if (both) {
      weights_.push_back(responses_[i * signals_]);
      continue;
    }
    if (difference) weights[i].push_back(Real(0));
    weights_.push_back(Late(weights[i], 1));
    // What the other input's loop adds where the signal has a part of the velocity.
    if (horizon != 0 && inputs_ == 2) {
      Add(weights_[i], gains[1 - i], i == 0 ? horizon : -horizon);
    }
  }
  for (std::vector<Polynomial>* polynomials : {&responses_, &means_, &weights_}) {
    for (Polynomial& polynomial : *polynomials) {
      polynomial.insert(polynomial.begin(), loop_.size() - polynomial.size(), Real(0));
    }
  }
}

// Returns H by input, then signal.
template <class Real>
auto CovarianceCriterion<Real>::CloseLoop(const Polynomial& core,
                                          const std::vector<Polynomial>& answers, bool both)
    -> std::vector<Polynomial> {
  const std::size_t length = Late({Real(1)}, 1).size();
  std::vector<Polynomial> gains(inputs_ * signals_, Polynomial(length, Real(0)));
  for (const Draw& draw : draws_) {
    for (std::size_t l = 0; l < inputs_; ++l) {
      for (std::size_t s = 0; s < signals_; ++s) {
        gains[l * signals_ + s][draw.delay] += rate_ * draw.share * draw.inputs[l] * draw.reads[s];
      }
    }
  }
  Polynomial determinant;
  if (both) {
    determinant = Multiply(gains[0], gains[3]);
    Add(determinant, Multiply(gains[1], gains[2]), Real(-1));
  }
  const std::size_t late = both ? 1 : 0;
  loop_ = Late(core, 1 + late);
  for (std::size_t i = 0; i < inputs_; ++i) {
    for (std::size_t s = 0; s < signals_; ++s) {
      const std::size_t at = i * signals_ + s;
      Add(loop_, Late(Multiply(gains[at], answers[at]), late), Real(-1));
      Polynomial response = Late(answers[at], 1);
      // adj H by signal, then input.
      if (both) Add(response, gains[i == s ? 3 - at : s * 2 + i], Real(i == s ? -1 : 1));
      responses_.push_back(Late(response, late));
    }
    for (std::size_t l = 0; l < inputs_; ++l) {
      Polynomial mean(1, Real(0));
      for (std::size_t s = 0; s < signals_; ++s) {
        Add(mean, Late(Multiply(gains[l * signals_ + s], answers[i * signals_ + s]), late));
      }
      if (both && l == i) Add(mean, determinant, Real(-1));
      means_.push_back(mean);
    }
  }
  if (both) Add(loop_, determinant);
  return gains;
}

// K(r) over the upper triangles of symmetric matrices; empty where the loop is not stable.
template <class Real>
auto CovarianceCriterion<Real>::Map(Real r) const -> Matrix {
  const Real root = std::sqrt(r);
  std::vector<Polynomial> numerators;
  for (const auto* polynomials : {&responses_, &means_}) {
    for (const Polynomial& each : *polynomials) numerators.push_back(Scaled(each, root));
  }
  const auto products = ImpulseProducts<Real>(std::move(numerators), Scaled(loop_, root));
  if (products.empty()) return {};
  const std::size_t pairs = inputs_ * (inputs_ + 1) / 2;
  Matrix map = Matrix::Zero(AsIndex(pairs), AsIndex(pairs));
  ForPairs([&](std::size_t column, std::size_t i, std::size_t j) {
    // A pair stands for e_i e_j' + e_j e_i', once where they are one.
    const Real twice = i == j ? 1 : 2;
    // sum_d p_d in_dl in_dk E[g_d^2]
    for (const Draw& draw : draws_) {
      Real square = 0;
      for (std::size_t s = 0; s < signals_; ++s) {
        for (std::size_t t = 0; t < signals_; ++t) {
          square += draw.reads[s] * draw.reads[t] * products[i * signals_ + s][j * signals_ + t];
        }
      }
      square *= twice * rate_ * rate_ * draw.share * std::pow(r, -static_cast<Real>(draw.delay));
      ForPairs([&](std::size_t row, std::size_t l, std::size_t k) {
        map(AsIndex(row), AsIndex(column)) += square * draw.inputs[l] * draw.inputs[k];
      });
    }
    // and without what the mean adds
    const std::size_t means = responses_.size();
    ForPairs([&](std::size_t row, std::size_t l, std::size_t k) {
      const Real product = products[means + i * inputs_ + l][means + j * inputs_ + k] +
                           products[means + j * inputs_ + l][means + i * inputs_ + k];
      map(AsIndex(row), AsIndex(column)) -= twice * product / 2;
    });
  });
  return map;
}

template <class Real>
Real CovarianceCriterion<Real>::Gamma(Real r) const {
  const Matrix map = Map(r);
  if (map.size() == 0) return std::numeric_limits<Real>::infinity();
  if (map.size() == 1) return std::max(map(0, 0), Real(0));
  return PerronRoot(map);
}

template <class Real>
bool CovarianceCriterion<Real>::MeanInside(Real r) const {
  const Real root = std::sqrt(r);
  return !ImpulseProducts<Real>({Scaled(responses_[0], root)}, Scaled(loop_, root)).empty();
}

template <class Real>
Real CovarianceCriterion<Real>::Variance() const {
  const Matrix map = Map(1);
  Vector noise = Vector::Zero(map.rows());
  for (const Draw& draw : draws_) {
    ForPairs([&](std::size_t pair, std::size_t i, std::size_t j) {
      noise(AsIndex(pair)) += draw.share * draw.inputs[i] * draw.inputs[j];
    });
  }
  const DenseMatrix<long double> loop =
      (Matrix::Identity(map.rows(), map.cols()) - map).template cast<long double>();
  const Vector deviations = Solve(loop, noise.template cast<long double>()).template cast<Real>();
  const auto products = ImpulseProducts<Real>(weights_, loop_);
  Real variance = 0;
  ForPairs([&](std::size_t pair, std::size_t i, std::size_t j) {
    variance += deviations(AsIndex(pair)) * (i == j ? 1 : 2) * products[i][j];
  });
  return variance;
}

template class CovarianceCriterion<double>;
template class CovarianceCriterion<long double>;

}  // namespace batchless::analysis
