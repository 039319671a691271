// The step-down recursion of Schur and Cohn for p(z) = z^D A(z) + B(z), and its derivatives.
//
//   a, p's coefficients, highest power first, degree m = n, n-1, ..., 1:
//     k = a_m / a_0,   a_i <- a_i - k a_{m-i},   i < m;   all |k| < 1 where all roots are inside |z| = 1
//     -sum log(1 - k^2) = -log(last a_0 / first a_0)
//   and with it the energy of the impulse response of b/p (noise.h):
//     c = b_m / a_0,   b_i <- b_i - c a_{m-i},   V = sum c b_m
//
// A, of degree P, and B, of degree P - 1, fill the ends of a: what is 0 between them stays 0 until they
// meet. That makes n P operations of n^2; the gradient, by the same steps backwards, takes about twice as
// many.
#pragma once

#include <Eigen/Core>

namespace batchless::analysis {

class StepDown {
 public:
  // Reflection coefficients of slow rules are near 1: long double keeps what is left of them.
  using Real = long double;
  using Vector = Eigen::Matrix<Real, Eigen::Dynamic, 1>;

  StepDown(Eigen::Index delay, Eigen::Index order);

  /// A from 1, its highest coefficient, B from z^(P-1), and b, of B's powers, or empty. False where a root
  /// is not inside the unit circle.
  bool Down(const Vector& a, const Vector& b, const Vector& response);

  /// -sum log(1 - k^2), and V, of the last Down; it was true.
  Real log_barrier() const;
  Real energy() const { return energy_; }

  /// Gradients of by_barrier * log_barrier() + by_energy * energy(), in the coefficients of Down.
  struct Gradient {
    Vector a, b, response;
  };
  Gradient Up(Real by_barrier, Real by_energy) const;

 private:
  /// Calls f(i) for each i < m where the row of degree m - 1 may differ from 0.
  template <class Function>
  void AtEnds(Eigen::Index m, Function&& f) const;

  Eigen::Index order_, degree_;
  bool responds_ = false;
  Real energy_ = 0;
  /// Columns are a and b at each degree, highest powers first.
  Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic> rows_, responses_;
};

}  // namespace batchless::analysis
