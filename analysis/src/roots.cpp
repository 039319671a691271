#include "batchless/analysis/roots.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>

#include "batchless/analysis/argument.h"
#include "decompositions.h"
#include "linear_polynomial.h"

namespace batchless::analysis {
namespace {

using Extended = std::complex<long double>;

// Quadratic convergence takes a handful of sweeps from the companion matrix's eigenvalues; a double
// root gains one bit a sweep, of which a long double has 64.
constexpr int kMaxSweeps = 120;
// A step below this, relative to the root, is rounding.
constexpr long double kStepTolerance = 4 * std::numeric_limits<long double>::epsilon();

// Scales rows and columns by powers of two until their norms agree (Parlett and Reinsch, Numer.
// Math. 13 (1969) 293, recalled). A companion matrix whose roots are far from 1 has entries of all
// sizes, and the eigenvalue iteration is accurate relative to the largest.
void Balance(Eigen::MatrixXd& matrix) {
  constexpr int kMaxPasses = 200;
  bool changed = true;
  for (int pass = 0; changed && pass < kMaxPasses; ++pass) {
    changed = false;
    for (Eigen::Index i = 0; i < matrix.rows(); ++i) {
      const double diagonal = std::abs(matrix(i, i));
      const double column = matrix.col(i).lpNorm<1>() - diagonal;
      const double row = matrix.row(i).lpNorm<1>() - diagonal;
      if (!(column > 0 && row > 0)) continue;
      // The power of two nearest to sqrt(row / column).
      const int exponent = static_cast<int>(std::lround((std::log2(row) - std::log2(column)) / 2));
      const double scale = std::ldexp(1.0, exponent);
      if (column * scale + row / scale >= 0.95 * (column + row)) continue;
      matrix.col(i) *= scale;
      matrix.row(i) /= scale;
      changed = true;
    }
  }
}

// Eigenvalues of the companion matrix of sum_k c_k z^k, c_0 != 0.
std::vector<Extended> CompanionEigenvalues(const std::vector<long double>& c) {
  const auto degree = static_cast<Eigen::Index>(c.size()) - 1;
  Eigen::MatrixXd companion = Eigen::MatrixXd::Zero(degree, degree);
  for (Eigen::Index k = 0; k < degree; ++k) {
    companion(0, degree - 1 - k) = static_cast<double>(-c[static_cast<std::size_t>(k)] / c.back());
    if (k > 0) companion(k, k - 1) = 1;
  }
  Balance(companion);
  const Eigen::MatrixXd t = SchurFormOf(companion);
  std::vector<Extended> values;
  values.reserve(static_cast<std::size_t>(degree));
  for (Eigen::Index i = 0; i < degree; ++i) {
    if (i + 1 < degree && t(i + 1, i) != 0) {
      const auto first = static_cast<long double>(t(i, i));
      const auto second = static_cast<long double>(t(i + 1, i + 1));
      const auto product =
          static_cast<long double>(t(i, i + 1)) * static_cast<long double>(t(i + 1, i));
      const long double mean = (first + second) / 2;
      const long double half = (first - second) / 2;
      const long double square = half * half + product;
      const Extended radical = std::sqrt(Extended(square));
      values.push_back(mean + radical);
      values.push_back(mean - radical);
      ++i;
    } else {
      values.emplace_back(static_cast<long double>(t(i, i)));
    }
  }
  return values;
}

/// p = z^n A + B at one point.
struct Terms {
  Extended a, a_prime, b, b_prime;
};

Terms TermsAt(const Characteristic<long double>& p, long double rate, const Extended& z) {
  const Extended u = z - 1.0L;
  const Extended from_momentum = z - p.momentum;  // not u + mu, which loses a small z at m = 0
  return {u * from_momentum, u + from_momentum,
          rate * (p.kappa + p.beta * u) * (1.0L + p.gamma * u),
          rate * (p.beta + p.gamma * (p.kappa + 2.0L * p.beta * u))};
}

Terms TermsAt(const LinearPolynomial<long double>& p, long double rate, const Extended& z) {
  const CirclePoint<long double> at = {0, 0, {z.real(), z.imag()}, {z.real() - 1, z.imag()}};
  const auto term = [&](const Polynomial<long double>& c, std::size_t k) {
    const auto terms = Expand(c, at, 2).terms;
    return k < terms.size() ? Extended(terms[k].re, terms[k].im) : Extended(0);
  };
  return {term(p.a, 0), term(p.a, 1), rate * term(p.b, 0), rate * term(p.b, 1)};
}

// p'(z)/p(z). Outside the unit circle both are divided by z^n first, so that nothing overflows.
// Returns false at a zero of p.
template <class P>
bool LogDerivative(const P& p, long double rate, const Extended& z, Extended& ratio) {
  const auto [a, a_prime, b, b_prime] = TermsAt(p, rate, z);
  Extended value;
  Extended slope;
  if (std::norm(z) <= 1) {
    const Extended power = p.n == 0 ? Extended(1) : std::exp(p.n * std::log(z));
    value = power * a + b;
    slope = power * (p.n * a / z + a_prime) + b_prime;
  } else {
    const Extended inverse_power = std::exp(-p.n * std::log(z));
    value = a + b * inverse_power;
    slope = p.n * a / z + a_prime + b_prime * inverse_power;
  }
  if (value == Extended(0)) return false;
  ratio = slope / value;
  return true;
}

// The iteration of the header, each root's new value used at once. Roots at 0 stay where they are
// and take part as neighbours.
template <class P>
void Polish(const P& p, long double rate, std::vector<Extended>& roots) {
  std::vector<bool> done(roots.size());
  for (std::size_t j = 0; j < roots.size(); ++j) done[j] = roots[j] == Extended(0);
  bool moving = true;
  for (int sweep = 0; moving && sweep < kMaxSweeps; ++sweep) {
    moving = false;
    for (std::size_t j = 0; j < roots.size(); ++j) {
      if (done[j]) continue;
      Extended ratio;
      if (!LogDerivative(p, rate, roots[j], ratio)) {
        done[j] = true;
        continue;
      }
      Extended neighbours = 0;
      for (std::size_t k = 0; k < roots.size(); ++k) {
        if (k == j || roots[k] == roots[j]) continue;
        // 1/w without the division's guards against overflow, which take most of the time.
        const Extended w = roots[j] - roots[k];
        neighbours += std::conj(w) / std::norm(w);
      }
      const Extended step = 1.0L / (ratio - neighbours);
      if (!std::isfinite(step.real()) || !std::isfinite(step.imag())) {
        done[j] = true;
        continue;
      }
      roots[j] -= step;
      done[j] = std::abs(step) <= kStepTolerance * std::abs(roots[j]);
      moving = true;
    }
  }
}

// An eigenvalue far below the rounding of the largest comes out as 0, where the iteration can not
// start. It starts at the least modulus that a root can about have instead: where the constant term
// meets one of the others.
void ReplaceZeros(const std::vector<long double>& c, std::vector<Extended>& roots) {
  long double radius = std::numeric_limits<long double>::infinity();
  for (std::size_t k = 1; k < c.size(); ++k) {
    if (c[k] == 0) continue;
    radius = std::min(radius, std::pow(std::abs(c[0] / c[k]), 1 / static_cast<long double>(k)));
  }
  long double angle = 0;
  for (Extended& root : roots) {
    if (root != Extended(0)) continue;
    angle += 1;
    root = std::polar(radius, angle);
  }
}

// Starting points in exactly conjugate places can not leave the real axis, where two of them may
// stand for one complex pair. A turn too small to matter breaks the symmetry.
void BreakSymmetry(std::vector<Extended>& roots) {
  constexpr long double kTurn = 1e-9L;
  for (std::size_t j = 0; j < roots.size(); ++j) {
    roots[j] *= Extended(1, kTurn * static_cast<long double>(1 + j % 7));
  }
}

// The polynomial is real: a root whose conjugate's nearest root is itself is real, and any other is
// averaged with the conjugate of its partner.
std::vector<std::complex<double>> MakeConjugate(const std::vector<Extended>& roots) {
  const auto partner = [&](std::size_t j) {
    std::size_t nearest = j;
    long double least = std::norm(roots[j] - std::conj(roots[j]));
    for (std::size_t k = 0; k < roots.size(); ++k) {
      const long double distance = std::norm(roots[k] - std::conj(roots[j]));
      if (distance < least) {
        least = distance;
        nearest = k;
      }
    }
    return nearest;
  };
  std::vector<std::complex<double>> result;
  result.reserve(roots.size());
  for (std::size_t j = 0; j < roots.size(); ++j) {
    const std::size_t k = partner(j);
    if (k == j) {
      result.emplace_back(static_cast<double>(roots[j].real()), 0.0);
    } else {
      const Extended mean = (roots[j] + std::conj(roots[k])) / 2.0L;
      result.emplace_back(static_cast<double>(mean.real()), static_cast<double>(mean.imag()));
    }
  }
  return result;
}

/// The roots of the polynomial's dense coefficients, polished on p itself.
template <class P>
std::vector<std::complex<double>> RootsOf(const P& p, long double rate) {
  std::vector<long double> c = DenseCoefficients(p, rate);
  // Exact zeros at the low end are roots at 0, which the companion matrix would blur.
  const auto first = std::find_if(c.begin(), c.end(), [](long double value) { return value != 0; });
  const auto zeros = static_cast<std::size_t>(first - c.begin());
  c.erase(c.begin(), first);

  std::vector<Extended> roots = CompanionEigenvalues(c);
  ReplaceZeros(c, roots);
  BreakSymmetry(roots);
  roots.insert(roots.end(), zeros, Extended(0));
  Polish(p, rate, roots);
  roots.resize(roots.size() - zeros);
  std::vector<std::complex<double>> result = MakeConjugate(roots);
  const auto key = [](const std::complex<double>& z) {
    return std::tuple(std::abs(z), z.real(), z.imag());
  };
  std::sort(result.begin(), result.end(),
            [&](const auto& left, const auto& right) { return key(left) > key(right); });
  result.insert(result.end(), zeros, std::complex<double>(0));
  return result;
}

}  // namespace

std::vector<std::complex<double>> AllRoots(const RuleSpec& spec, double momentum, Delay delay,
                                           double rate) {
  Validate(spec, momentum, delay, rate);
  CheckInteger("delay", delay, 0, kMaxRootsDelay, " where all roots are asked for");
  if (spec.is_linear()) return RootsOf(MakeLinearPolynomial<long double>(spec, delay), rate);
  // One precision throughout: whether a lead is a factor z may depend on the rounding.
  return RootsOf(MakeCharacteristic<long double>(spec, momentum, delay), rate);
}

}  // namespace batchless::analysis
