#include "batchless/analysis/inconsistency.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/spectral_radius.h"
#include "batchless/analysis/stability.h"
#include "catch.h"
#include "eigenvalues.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using Eigen::MatrixXd;

// Two eigenvalue iterations on different matrices: rounding times the condition of an eigenvalue.
constexpr double kWorstRadiusTolerance = 1e-9;
// The critical rate's own bisection.
constexpr double kRateTolerance = 2e-6;

// Largest modulus of the roots of a polynomial, coefficients by ascending powers, by its companion.
double LargestRoot(const std::vector<double>& p) {
  return test::LargestEigenvalue(test::Companion({p.rbegin(), p.rend()}));
}

TEST_CASE("The discrepancy model has the roots of its polynomial") {
  const double discrepancy = GENERATE(-1.5, 0.0, 0.5, 5.0);
  const Delay forward = GENERATE(1, 4, 10);
  const Delay backward = GENERATE(0, 1);
  const double rate = GENERATE(0.01, 0.2);
  CAPTURE(discrepancy, forward, backward, rate);
  const InconsistentModel model = DiscrepancyModel(discrepancy, forward, backward);
  // z^{tau_f} (z - 1) + eta (lambda + Delta) - eta Delta z^{tau_f - tau_b}
  const auto n = static_cast<std::size_t>(forward);
  const auto gap = static_cast<std::size_t>(forward - backward);
  std::vector<double> p(n + 2, 0.0);
  p[n + 1] = 1;
  p[n] = -1;
  p[0] += rate * (1 + discrepancy);
  p[gap] -= rate * discrepancy;
  CHECK(
      std::abs(InconsistentSpectralRadius(model, Spec("sgdm"), BackwardWeights::kCurrent, 0, rate) -
               LargestRoot(p)) < kWorstRadiusTolerance);
  if (gap == 0) return;
  // T2: (z - gamma)[...] + eta Delta z^{tau_f - tau_b} (tau_f - tau_b)(1 - gamma)(z - 1).
  const double gamma = std::pow(kCorrectionDecay, 1 / static_cast<double>(gap));
  std::vector<double> q(n + 3, 0.0);
  for (std::size_t i = 0; i < p.size(); ++i) {
    q[i + 1] += p[i];
    q[i] -= gamma * p[i];
  }
  const double lead = rate * discrepancy * static_cast<double>(gap) * (1 - gamma);
  q[gap + 1] += lead;
  q[gap] -= lead;
  CHECK(std::abs(
            InconsistentSpectralRadius(model, Spec("sgdm"), BackwardWeights::kCorrected, 0, rate) -
            LargestRoot(q)) < kWorstRadiusTolerance);
}

TEST_CASE("With stashing there is no discrepancy, and without one nothing else matters") {
  const char* rule = GENERATE("sgdm", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc");
  const double momentum = GENERATE(0.0, 0.9);
  CAPTURE(rule, momentum);
  const double uniform = CriticalRate(Spec(rule), momentum, 4);
  const auto critical = [&](double discrepancy, BackwardWeights backward) {
    return InconsistentCriticalRate(DiscrepancyModel(discrepancy, 4, 0), Spec(rule), backward,
                                    momentum);
  };
  for (const double stashed :
       {critical(0, BackwardWeights::kCurrent), critical(0, BackwardWeights::kCorrected),
        critical(3, BackwardWeights::kStashed), critical(-1, BackwardWeights::kStashed)}) {
    CHECK(std::abs(stashed / uniform - 1) < kRateTolerance);
  }
  CHECK(critical(3, BackwardWeights::kCurrent) < uniform);
}

// Pipelined backpropagation of W2 W1 -> diag(1, r), with every version written out: the forward of
// sample i reads the weights after max(0, i - D) updates, its backward those after i.
struct Network {
  std::vector<Eigen::RowVector2d> w1;
  std::vector<Eigen::Vector2d> w2;
};

Network Train(double ratio, Delay delay, double momentum, double eta, bool stashed, int updates,
              const Eigen::Vector2d& start) {
  Network network;
  network.w1.emplace_back(1.0, start(0));
  network.w2.emplace_back(1.0, start(1));
  Eigen::RowVector2d v1 = Eigen::RowVector2d::Zero();
  Eigen::Vector2d v2 = Eigen::Vector2d::Zero();
  const Eigen::Matrix2d target{{1, 0}, {0, ratio}};
  for (int i = 0; i < updates; ++i) {
    const auto version = [&](Delay d) {
      return static_cast<std::size_t>(std::max<Delay>(0, i - d));
    };
    const Eigen::RowVector2d hidden = network.w1[version(delay)];
    const Eigen::Vector2d forward = network.w2[version(delay - 2)];
    const Eigen::Vector2d backward = stashed ? forward : network.w2.back();
    const Eigen::Matrix2d error = forward * hidden - target;
    v1 = momentum * v1 + backward.transpose() * error;
    v2 = momentum * v2 + error * hidden.transpose();
    network.w1.emplace_back(network.w1.back() - eta * v1);
    network.w2.emplace_back(network.w2.back() - eta * v2);
  }
  return network;
}

TEST_CASE("A rule by its coefficients is the rule without prediction that it is") {
  const char* name = GENERATE("sgdm", "nesterov");
  const double m = GENERATE(0.0, 0.9);
  const auto backward =
      GENERATE(BackwardWeights::kCurrent, BackwardWeights::kStashed, BackwardWeights::kCorrected);
  CAPTURE(name, m, backward);
  for (const InconsistentModel& model : {DiscrepancyModel(0.7, 6, 1), FactorisationModel(0.6, 6)}) {
    for (const double rate : {1e-3, 0.05}) {
      const double expected = InconsistentSpectralRadius(model, Spec(name), backward, m, rate);
      const double found =
          InconsistentSpectralRadius(model, AsLinear(name, m, 6), backward, std::nan(""), rate);
      CHECK(std::abs(found - expected) < kWorstRadiusTolerance);
    }
  }
  // Whatever the order of its polynomials, consistent weights leave the certified radius.
  const RuleSpec rule =
      LinearSpec({1.092803, -1.707838, 0.696482}, {1, -1.903855, 0.82638, 0.077475});
  const double radius = InconsistentSpectralRadius(DiscrepancyModel(0, 4, 0), rule,
                                                   BackwardWeights::kCurrent, std::nan(""), 0.02);
  CHECK(std::abs(radius - ComputeSpectralRadius(rule, 0, 4, 0.02).radius) < kWorstRadiusTolerance);
}

TEST_CASE("Near its minimum the network moves as its linearisation does") {
  const bool stashed = GENERATE(false, true);
  const Delay delay = GENERATE(2, 6);
  const double ratio = GENERATE(0.3, 0.9);
  const double momentum = GENERATE(0.0, 0.7);
  const double eta = GENERATE(0.02, 0.3);
  CAPTURE(stashed, delay, ratio, momentum, eta);
  // Small enough that squares drop out, large enough that roundings do.
  constexpr double kSmall = 1e-6;
  const int updates = 60;
  const Network network =
      Train(ratio, delay, momentum, eta, stashed, updates, Eigen::Vector2d(kSmall, -2 * kSmall));
  const MatrixXd matrix = InconsistentStateMatrix(
      FactorisationModel(ratio, delay), Spec("sgdm"),
      stashed ? BackwardWeights::kStashed : BackwardWeights::kCurrent, momentum, eta);
  // All places of a weight's state but v and delta hold the weight.
  Eigen::VectorXd state = Eigen::VectorXd::Zero(matrix.rows());
  const Eigen::Index first = 4 + delay + (stashed ? delay : 0);
  for (Eigen::Index i = 0; i < matrix.rows(); ++i) {
    const Eigen::Index place = i < first ? i : i - first;
    if (place != 1 && place != 3) state(i) = i < first ? 1 : -2;
  }
  double largest = 1;
  for (int i = 1; i <= updates; ++i) {
    state = (matrix * state).eval();
    largest = std::max(largest, state.cwiseAbs().maxCoeff());
    // Squares and cubes of what the state has grown to, and roundings of 1 against kSmall.
    const double tolerance = 1e-8 * largest + 1e3 * kSmall * largest * largest;
    if (largest > 10) break;
    CHECK(std::abs(network.w1[static_cast<std::size_t>(i)](1) / kSmall - state(0)) < tolerance);
    CHECK(std::abs(network.w2[static_cast<std::size_t>(i)](1) / kSmall - state(first)) < tolerance);
  }
}

TEST_CASE("Without delays of its own the network has the Hessian's two curvatures") {
  // A ratio of 0 leaves two weights that do not meet, one per delay.
  const InconsistentModel model = FactorisationModel(0, 6);
  const double radius =
      InconsistentSpectralRadius(model, Spec("sgdm"), BackwardWeights::kCurrent, 0.5, 0.05);
  const double slow = ComputeSpectralRadius(Spec("sgdm"), 0.5, 6, 0.05).radius;
  const double fast = ComputeSpectralRadius(Spec("sgdm"), 0.5, 4, 0.05).radius;
  CHECK(std::abs(radius - std::max(slow, fast)) < kWorstRadiusTolerance);
  const MatrixXd hessian = FactorisationModel(0.4, 2).forward + FactorisationModel(0.4, 2).backward;
  CHECK((hessian - hessian.transpose()).norm() == 0);
}

TEST_CASE("Critical rates are found up to the last rate that is looked at") {
  // w' = (1 - eta a) w.
  const auto critical = [](double rate) {
    return InconsistentCriticalRate(DiscrepancyModel(0, 0, 0), FreeSpec(2 / rate, 0, 0),
                                    BackwardWeights::kCurrent, 0);
  };
  CHECK(critical(0.95 * kLastRate) == Approx(0.95 * kLastRate).epsilon(kRateTolerance));
  CHECK(std::isinf(critical(1.05 * kLastRate)));
}

TEST_CASE(
    "Critical rates below the first that is looked at are found, and none where there is none") {
  const auto critical = [](const char* rule, double momentum, Delay delay, double discrepancy) {
    return InconsistentCriticalRate(DiscrepancyModel(discrepancy, delay, 0), Spec(rule),
                                    BackwardWeights::kCurrent, momentum);
  };
  const double expected = CriticalRate(Spec("sgdm"), 0.9999, 4);
  CHECK(expected < kFirstRate);
  CHECK(critical("sgdm", 0.9999, 4, 0) == Approx(expected).epsilon(kRateTolerance));
  // -1 / L where L, at the rate 1, first crosses the negative real axis.
  CHECK(critical("lwp-w+sc", 0.9, 20, 100) == Approx(5.38e-5).epsilon(1e-3));
  // SC grows by the square of the rate here, SGDM with the rate.
  CHECK(critical("sc", 1, 4, 0) == 0);
  CHECK(critical("sgdm", 1, 4, 0) == 0);
}

TEST_CASE("A model of inconsistency says what it does not take") {
  CHECK_THROWS_AS(DiscrepancyModel(0, 2, 3), InvalidArgument);
  CHECK_THROWS_AS(DiscrepancyModel(0, kMaxInconsistentDelay + 1, 0), InvalidArgument);
  CHECK_THROWS_AS(DiscrepancyModel(101, 2, 0), InvalidArgument);
  CHECK_THROWS_AS(FactorisationModel(1, 2), InvalidArgument);
  CHECK_THROWS_AS(FactorisationModel(0.5, 3), InvalidArgument);
  CHECK_THROWS_AS(FactorisationModel(0.5, 0), InvalidArgument);
}

}  // namespace
}  // namespace batchless::analysis
