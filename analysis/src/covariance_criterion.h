// Mean-square stability under independent random delays by a few numbers (random_delay.h), in place of the
// operator on second moments.
//
// K(r), and the variance: a gradient g of delay d adds G_d g to the core, G_d = sum_l in_dl e_l over one or
// two inputs e_l, and g = x sum_s read_ds f_s[k - d] reads one or two signals of the core. Without a loop
// signal s answers input i by y_is / core. With H_ls = x sum_d p_d in_dl read_ds z^(L - d), L the largest
// delay, and f_s, m_l the signals and what the mean adds to input l in the closed loop,
//
//   loop = z^L core - sum_ls H_ls y_ls     f_s = z^L y_is / loop     m_l = sum_s H_ls y_is / loop
//
// where all signals are filters of one: then (y_is) has rank one. Weight and velocity as two signals have
//
//   loop = z^2L core - z^L sum_ls H_ls y_ls + det H
//   f = z^L (z^L y - adj H) / loop         m = (z^L H y - det H) / loop
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "batchless/analysis/random_delay.h"
#include "decompositions.h"

namespace batchless::analysis {

// Whether K(r) is one number.
bool HasOneUpdate(const VaryingDelay& point);

// Real is double or long double.
template <class Real>
class CovarianceCriterion {
 public:
  CovarianceCriterion(const VaryingDelay& point, double rate);

  // The radius of K(r), which falls with r; infinity where a root of the mean's loop is not inside
  // |z| = sqrt r.
  Real Gamma(Real r) const;
  bool MeanInside(Real r) const;
  // E[w^2] under unit noise in the gradient; the mean square has to be stable.
  Real Variance() const;

 private:
  // By descending powers.
  using Polynomial = std::vector<Real>;
  using Matrix = DenseMatrix<Real>;
  using Vector = DenseVector<Real>;

  struct Draw {
    std::size_t delay;
    Real share;
    std::array<Real, 2> inputs;
    std::array<Real, 2> reads;  // times the rate
  };

  template <class Function>
  void ForPairs(Function function) const;
  Polynomial Late(Polynomial polynomial, std::size_t times) const;
  std::vector<Polynomial> CloseLoop(const Polynomial& core, const std::vector<Polynomial>& answers,
                                    bool both);
  Matrix Map(Real r) const;

  Real rate_;
  std::size_t inputs_, signals_;
  std::vector<Draw> draws_;
  // These describe the closed loop, all of them as long as its polynomial.
  Polynomial loop_;
  std::vector<Polynomial> responses_;  // by input, then signal,
  std::vector<Polynomial> means_;      // by input, then input that is added to,
  std::vector<Polynomial> weights_;    // by input.
};

}  // namespace batchless::analysis
