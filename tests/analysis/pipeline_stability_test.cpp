#include "batchless/analysis/pipeline_stability.h"

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/rates.h"
#include "batchless/analysis/roots.h"
#include "batchless/analysis/spectral_radius.h"
#include "catch.h"
#include "eigenvalues.h"
#include "refusal.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// The eigenvalue iteration is backward stable: rounding times the condition of the eigenvalue, which
// for these companion-like matrices stays below 1e3.
constexpr double kPipelineTolerance = 1e-12;
// Two hundred updates in two orders of summation.
constexpr double kTrajectoryTolerance = 1e-12;

PipelineOptions Scalar(const RuleSpec& rule, double momentum, Delay delay, double rate) {
  return {.rule = rule,
          .momentum = momentum,
          .learning_rate = rate,
          .hessian = MatrixXd::Ones(1, 1),
          .delays = {delay},
          .widths = {1}};
}

// Symmetric positive definite with the given eigenvalues and random eigenvectors.
MatrixXd RandomHessian(const VectorXd& eigenvalues, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const auto n = eigenvalues.size();
  MatrixXd gaussian(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) gaussian(i, j) = normal(random);
  }
  const MatrixXd q = Eigen::HouseholderQR<MatrixXd>(gaussian).householderQ();
  const MatrixXd h = q * eigenvalues.asDiagonal() * q.transpose();
  return (h + h.transpose()) / 2;
}

// With eigenvalues from 1/condition to 1, evenly in their logarithms.
MatrixXd SpreadHessian(int size, double condition, unsigned seed) {
  VectorXd eigenvalues(size);
  for (int k = 0; k < size; ++k) eigenvalues(k) = std::pow(condition, -k / (size - 1.0));
  return RandomHessian(eigenvalues, seed);
}

// The definition as a loop over full histories of w and v, one stage after another.
std::vector<VectorXd> LiteralLoop(const PipelineOptions& options, const VectorXd& start,
                                  int updates) {
  const auto n = start.size();
  std::vector<VectorXd> w = {start};
  std::vector<VectorXd> v = {VectorXd::Zero(n)};
  for (int i = 0; i < updates; ++i) {
    VectorXd w_hat(n);
    Eigen::Index row = 0;
    for (std::size_t s = 0; s < options.delays.size(); ++s) {
      const auto c =
          ComputeCoefficients<double>(options.RuleOf(s), options.momentum, options.delays[s]);
      const auto k = static_cast<std::size_t>(std::max<Delay>(0, i - options.delays[s]));
      const std::size_t before_k = k == 0 ? 0 : k - 1;
      for (std::size_t j = 0; j < options.widths[s]; ++j, ++row) {
        w_hat(row) = w[k](row);
        if (options.rule.rule.prediction == Prediction::kVelocity) {
          w_hat(row) -= options.learning_rate * c.horizon * v[k](row);
        } else if (options.rule.rule.prediction == Prediction::kWeight) {
          w_hat(row) += c.horizon * (w[k](row) - w[before_k](row));
        }
      }
    }
    VectorXd new_v(n);
    VectorXd new_w(n);
    row = 0;
    for (std::size_t s = 0; s < options.delays.size(); ++s) {
      const auto c =
          ComputeCoefficients<double>(options.RuleOf(s), options.momentum, options.delays[s]);
      for (std::size_t j = 0; j < options.widths[s]; ++j, ++row) {
        double g = 0;
        for (Eigen::Index k = 0; k < n; ++k) g += options.hessian(row, k) * w_hat(k);
        new_v(row) = options.momentum * v.back()(row) + g;
        new_w(row) = w.back()(row) - options.learning_rate * (c.a * new_v(row) + c.b * g);
      }
    }
    v.push_back(new_v);
    w.push_back(new_w);
  }
  return w;
}

// The state at a start: v_0 = 0, everything else w_0; and the places of w_i in it.
struct Start {
  VectorXd state;
  std::vector<Eigen::Index> weight_rows;
};

Start StateOf(const PipelineOptions& options, const VectorXd& weights) {
  Start start;
  start.state = VectorXd::Zero(static_cast<Eigen::Index>(StateDimension(options)));
  Eigen::Index row = 0;
  Eigen::Index first = 0;
  for (std::size_t s = 0; s < options.delays.size(); ++s) {
    const auto width = static_cast<Eigen::Index>(options.widths[s]);
    const Eigen::Index entries = 2 + static_cast<Eigen::Index>(options.delays[s]) +
                                 (options.rule.rule.prediction == Prediction::kWeight ? 1 : 0);
    for (Eigen::Index entry = 0; entry < entries; ++entry, row += width) {
      if (entry != 1) start.state.segment(row, width) = weights.segment(first, width);
      if (entry == 0) {
        for (Eigen::Index j = 0; j < width; ++j) start.weight_rows.push_back(row + j);
      }
    }
    first += width;
  }
  REQUIRE(row == start.state.size());
  return start;
}

// Largest difference between the loop and the powers of the matrix, relative to the largest weight
// of the whole trajectory.
double WorstDifference(const PipelineOptions& options, int updates) {
  const VectorXd weights = VectorXd::LinSpaced(options.hessian.rows(), 1.0, -0.5);
  const auto loop = LiteralLoop(options, weights, updates);
  Start start = StateOf(options, weights);
  const MatrixXd matrix = StateMatrix(options);
  double worst = 0;
  double largest = 0;
  VectorXd state = start.state;
  for (const VectorXd& w : loop) {
    for (Eigen::Index j = 0; j < w.size(); ++j) {
      const double have = state(start.weight_rows[static_cast<std::size_t>(j)]);
      worst = std::max(worst, std::abs(have - w(j)));
      largest = std::max(largest, std::abs(w(j)));
    }
    state = matrix * state;
  }
  return worst / largest;
}

// Roots of det M(z) with |z| > radius, M of pipeline_stability.h written out for the weight form. Against
// the same without delays, whose roots are those of quadratics, the determinant's phase turns once less
// for each root more. Steps halve until it turns little.
int RootsOutside(const PipelineOptions& options, double radius) {
  using Complex = std::complex<double>;
  const VectorXd rates = options.learning_rate *
                         Eigen::SelfAdjointEigenSolver<MatrixXd>(options.hessian).eigenvalues();
  const auto size = rates.size();
  const double m = options.momentum;
  const auto phase_at = [&](double angle) {
    const Complex z = std::polar(radius, angle);
    const Complex open = (z - 1.0) * (z - m);
    Eigen::MatrixXcd matrix = options.hessian.cast<Complex>();
    for (Eigen::Index k = 0; k < size; ++k) {
      const Delay delay = options.delays[static_cast<std::size_t>(k)];
      const auto c = ComputeCoefficients<double>(options.rule, m, delay);
      const Complex lead = (c.a + c.b) * z - c.b * m;
      matrix.col(k) *= options.learning_rate * lead * (1.0 + c.horizon * (1.0 - 1.0 / z)) *
                       std::pow(z, -static_cast<double>(delay));
    }
    matrix.diagonal().array() += open;
    const Eigen::PartialPivLU<Eigen::MatrixXcd> lu(matrix);
    double phase = lu.permutationP().determinant() > 0 ? 0 : M_PI;
    for (Eigen::Index k = 0; k < size; ++k) {
      phase += std::arg(lu.matrixLU()(k, k)) - std::arg(open + rates(k) * z);
    }
    return phase;
  };
  const auto turn = [](double from, double to) { return std::remainder(to - from, 2 * M_PI); };
  const std::function<double(double, double, double, double)> total =
      [&](double left, double at_left, double right, double at_right) -> double {
    const double middle = (left + right) / 2;
    const double at_middle = phase_at(middle);
    const double first = turn(at_left, at_middle), second = turn(at_middle, at_right);
    if (std::abs(first) < 0.8 && std::abs(second) < 0.8 && right - left < 0.1 * left) {
      return first + second;
    }
    return total(left, at_left, middle, at_middle) + total(middle, at_middle, right, at_right);
  };
  // Real at angle 0, and as good as real a little above.
  const double least = 1e-4 * std::abs(std::log(radius));
  const double turns = total(least, phase_at(least), M_PI, phase_at(M_PI)) / M_PI;
  int undelayed = 0;
  for (const double rate : rates) {
    const Complex half = (1 + m - rate) / 2;
    const Complex apart = std::sqrt(half * half - m);
    for (const Complex z : {half + apart, half - apart}) undelayed += std::abs(z) > radius ? 1 : 0;
  }
  return undelayed - static_cast<int>(std::lround(turns));
}

TEST_CASE("One weight and one delay: the largest root") {
  const Delay delay = GENERATE(0, 1, 4, 30);
  const double rate = GENERATE(1e-3, 0.05, 0.7);
  for (const Rule& rule : Rules()) {
    CAPTURE(rule.name, delay, rate);
    const RuleSpec spec = Spec(rule.name);
    const auto summary = PipelineStability(Scalar(spec, 0.9, delay, rate));
    const double expected = std::abs(AllRoots(spec, 0.9, delay, rate).front());
    CHECK(std::abs(summary.spectral_radius - expected) <= kPipelineTolerance * expected);
    const std::size_t previous = rule.prediction == Prediction::kWeight ? 1 : 0;
    CHECK(summary.state_dimension == 2 + static_cast<std::size_t>(delay) + previous);
  }
}

TEST_CASE("Uniform delays: the largest root over the eigenvalues, whatever the blocks") {
  VectorXd eigenvalues(6);
  eigenvalues << 0.001, 0.02, 0.1, 0.3, 0.7, 1.0;
  for (const char* name : {"sgdm", "sc", "lwp-v+sc", "lwp-w+sc"}) {
    INFO(name);
    PipelineOptions options = Scalar(Spec(name), 0.9, 3, 0.05);
    options.hessian = RandomHessian(eigenvalues, 60);
    options.delays = {3, 3, 3};
    options.widths = {1, 3, 2};
    double expected = 0;
    for (const double lambda : eigenvalues) {
      expected =
          std::max(expected, std::abs(AllRoots(options.rule, 0.9, 3, 0.05 * lambda).front()));
    }
    CHECK(std::abs(PipelineStability(options).spectral_radius - expected) <= kPipelineTolerance);
  }
}

TEST_CASE("Blocks without coupling: the worst block at its own delay") {
  PipelineOptions options = Scalar(Spec("lwp-v+sc"), 0.9, 0, 0.05);
  options.hessian = Eigen::Vector3d(0.2, 1.0, 0.5).asDiagonal();
  options.delays = {8, 4, 0};
  options.widths = {1, 1, 1};
  double expected = 0;
  for (int s = 0; s < 3; ++s) {
    const auto roots = AllRoots(options.rule, 0.9, options.delays[static_cast<std::size_t>(s)],
                                0.05 * options.hessian(s, s));
    expected = std::max(expected, std::abs(roots.front()));
  }
  CHECK(std::abs(PipelineStability(options).spectral_radius - expected) <= kPipelineTolerance);
}

TEST_CASE("Two blocks: the literal loop is the power of the matrix") {
  for (const Rule& rule : Rules()) {
    PipelineOptions options = Scalar(Spec(rule.name), 0.8, 0, 0.02);
    options.hessian = RandomHessian(VectorXd::LinSpaced(5, 0.1, 1.0), 61);
    options.delays = {6, 1};
    options.widths = {2, 3};
    INFO(rule.name);
    CHECK(WorstDifference(options, 200) <= kTrajectoryTolerance);
    options.delays = {0, 4};
    CHECK(WorstDifference(options, 200) <= kTrajectoryTolerance);
  }
}

// A chain: neighbours couple, the delays are those of pipelined backpropagation, 2 (S - 1 - s).
PipelineOptions Chain(const RuleSpec& rule, int stages, double momentum, double learning_rate) {
  PipelineOptions options = Scalar(rule, momentum, 0, learning_rate);
  options.hessian = MatrixXd::Identity(stages, stages);
  options.delays.clear();
  options.widths.assign(static_cast<std::size_t>(stages), 1);
  for (int s = 0; s < stages; ++s) {
    options.delays.push_back(2 * static_cast<Delay>(stages - 1 - s));
    if (s > 0) options.hessian(s, s - 1) = options.hessian(s - 1, s) = -0.4;
  }
  return options;
}

TEST_CASE("Pipeline delays on a chain: the loop, and its growth") {
  for (const Rule& rule : Rules()) {
    INFO(rule.name);
    const PipelineOptions options = Chain(Spec(rule.name), 7, 0.5, 0.1);
    CHECK(WorstDifference(options, 200) <= kTrajectoryTolerance);

    // The growth over a long stretch, from norms of the state, which averages over rotations.
    const MatrixXd matrix = StateMatrix(options);
    VectorXd state = StateOf(options, VectorXd::Ones(7)).state;
    double log_growth = 0;
    constexpr int kWarmUp = 4000;
    constexpr int kUpdates = 20000;
    for (int i = 0; i < kWarmUp + kUpdates; ++i) {
      state = matrix * state;
      const double norm = state.norm();
      state /= norm;
      if (i >= kWarmUp) log_growth += std::log(norm);
    }
    // The two ends stand at different phases of a rotation: a factor of a hundred in the norm.
    CHECK(std::abs(log_growth / kUpdates - std::log(PipelineStability(options).spectral_radius)) <=
          std::log(100.0) / kUpdates);
  }
}

TEST_CASE("SpecTrain's horizons of their own: the loop, the weights alone, one horizon") {
  PipelineOptions options = Chain(Spec("spectrain"), 7, 0.5, 0.1);
  CHECK(WhyInvalid(options).starts_with("horizons: got 0 horizons"));
  // The horizons of pipelined backpropagation are 2 (S - 1) - s.
  for (int s = 0; s < 7; ++s) options.horizons.push_back(12 - s);
  CHECK(WorstDifference(options, 200) <= kTrajectoryTolerance);

  options = Chain(Spec("spectrain"), 16, 0.5, 0.01);
  for (int s = 0; s < 16; ++s) options.horizons.push_back(30 - s);
  REQUIRE(StateDimension(options) > kDenseStateDimension);
  const double whole = test::LargestEigenvalue(StateMatrix(options));
  CHECK(PipelineStability(options).spectral_radius == Approx(whole).margin(1e-10));

  // Where every horizon is its stage's delay it is weight prediction.
  PipelineOptions velocity = Chain(Spec("lwp-v"), 16, 0.5, 0.01);
  options.horizons.assign(velocity.delays.begin(), velocity.delays.end());
  CHECK(PipelineStability(options).spectral_radius == PipelineStability(velocity).spectral_radius);
  velocity.horizons = options.horizons;
  CHECK(WhyInvalid(velocity) ==
        "horizons: got 16 horizons, accepted: none but with spectrain and xpipe");
}

TEST_CASE("A chain's radius is not that of any one uniform delay") {
  // The last stage has no delay and the first the longest: mistaking either for all is wrong.
  const PipelineOptions options = Chain(Spec("sgdm"), 7, 0.5, 0.1);
  const double radius = PipelineStability(options).spectral_radius;
  PipelineOptions uniform = options;
  uniform.delays.assign(7, 12);
  const double longest = PipelineStability(uniform).spectral_radius;
  uniform.delays.assign(7, 0);
  const double none = PipelineStability(uniform).spectral_radius;
  CHECK(none + 0.01 < radius);
  CHECK(radius + 0.01 < longest);
}

TEST_CASE("Options that can not be solved are refused by name") {
  const PipelineOptions good = Chain(Spec("sc"), 3, 0.9, 0.1);
  CHECK(WhyInvalid(good).empty());
  const auto error = [&](auto change) {
    PipelineOptions options = good;
    change(options);
    std::string why = WhyInvalid(options);
    CHECK_THROWS_WITH(StateMatrix(options), why);
    CHECK_THROWS_WITH(PipelineStability(options), why);
    return why;
  };
  CHECK(error([](auto& o) { o.hessian(0, 2) = 0.5; }) ==
        "hessian: got an asymmetry of 0.5, accepted: a symmetric matrix");
  CHECK(error([](auto& o) { o.hessian = MatrixXd::Zero(3, 2); }) ==
        "hessian: got 3x2, accepted: a square matrix");
  CHECK(error([](auto& o) { o.hessian = MatrixXd(); }) ==
        "hessian: got 0x0, accepted: a square matrix");
  CHECK(error([](auto& o) {
          o.hessian(1, 1) = std::numeric_limits<double>::quiet_NaN();
        }).find("hessian: got entries that are not finite") == 0);
  CHECK(error([](auto& o) { o.delays = {}; }).find("delays: got 0") == 0);
  CHECK(error([](auto& o) { o.delays[1] = -2; }).find("delay: got -2") == 0);
  CHECK(error([](auto& o) {
          o.widths = {1, 2};
        }) == "widths: got 2 widths, accepted: one for each of 3 stages");
  CHECK(error([](auto& o) {
          o.widths = {1, 1, 2};
        }) == "widths: got a sum of 4, accepted: the size of the Hessian, 3");
  CHECK(error([](auto& o) { o.widths = {0, 1, 2}; }).find("widths: got 0") == 0);
  CHECK(error([](auto& o) { o.momentum = -0.1; }).find("momentum: got -0.1") == 0);
  CHECK(error([](auto& o) { o.learning_rate = -1; }).find("learning_rate: got -1") == 0);
  CHECK(error([](auto& o) { o.rule.options.horizon = 2; }).find("horizon: got 2") == 0);
  PipelineOptions steep = Scalar(Spec("sgdm"), 0.5, 2, 0.5);
  steep.hessian *= 1e7;
  CHECK_THROWS_WITH(PipelineStability(steep),
                    Catch::Matchers::StartsWith("learning_rate: got 0.5, accepted: at most 0.1"));
}

TEST_CASE("A state that is too large is refused with its dimension") {
  // 169 stages of one weight: 2 * 169 + sum of 2 (S - 1 - s) = 338 + 28392.
  const PipelineOptions large = Chain(Spec("sgdm"), 169, 0.9, 0.01);
  CHECK(StateDimension(large) == 28730);
  CHECK_THROWS_WITH(StateMatrix(large),
                    "delays: got a state of dimension 28730, accepted: at most 3000; fewer "
                    "stages, shorter delays or fewer weights");
  PipelineOptions many = large;
  many.hessian = MatrixXd::Identity(1001, 1001);
  many.widths[0] = 833;
  CHECK_THROWS_WITH(PipelineStability(many), "hessian: got 1001 weights, accepted: at most 1000");
}

TEST_CASE("With a singular Hessian the radius is 1, by matrices and by iteration") {
  // One curvature along (1, ..., 1), none across it; 4 stages are solved whole, 30 are not.
  for (const int size : {4, 30}) {
    for (const double rate : {0.0, 1e-5, 1e-3}) {
      CAPTURE(size, rate);
      PipelineOptions options = Chain(Spec("sgdm"), size, 0.5, rate);
      options.hessian = MatrixXd::Constant(size, size, 1.0 / size);
      CHECK(PipelineStability(options).spectral_radius == 1);
    }
  }
}

TEST_CASE("Where all roots that count are 1 to a rounding the radius is 1") {
  for (const double momentum : {0.0, 0.999999}) {
    CAPTURE(momentum);
    PipelineOptions options = Chain(Spec("sgdm"), 30, momentum, 1e-12);
    options.hessian *= 1e-12;
    CHECK(PipelineStability(options).spectral_radius == 1);
  }
}

TEST_CASE("Coupled weights are limited where their delays differ, by what is computed of them") {
  const auto coupled = [](int size) {
    PipelineOptions options = Chain(Spec("sgdm"), size, 0.9, 1e-6);
    options.hessian += MatrixXd::Constant(size, size, 1e-3);
    return options;
  };
  const PipelineOptions large = coupled(static_cast<int>(kMaxCoupledWeights) + 1);
  CHECK(test::MessageOf([&] { PipelineStability(large); }) ==
        "delays: got coupled weights of several delays, 201 of them, accepted: at most 200; fewer "
        "stages, or weights that do not meet");
  PipelineOptions same = large;
  same.delays.assign(same.delays.size(), 3);
  CHECK(test::MessageOf([&] { PipelineStability(same); }).empty());
  PipelineOptions apart = large;
  apart.hessian = MatrixXd::Identity(201, 201);
  CHECK(test::MessageOf([&] { PipelineStability(apart); }).empty());
  const PipelineOptions fewer = coupled(static_cast<int>(kMaxCoupledWeightsOfOptimum) + 1);
  CHECK(test::MessageOf([&] { FindPipelineOptimum(fewer); }).find("got coupled weights") !=
        std::string::npos);
}

// The eigenvalue iteration of the state matrix rounds to about 1e-13 times the condition of an
// eigenvalue; both lose the square root of that near a double root.
constexpr double kSpectrumTolerance = 1e-7;

TEST_CASE("Above the state that is solved whole, the weights alone give the matrix's radius") {
  const char* rule = GENERATE("sgdm", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc");
  const double rate = GENERATE(0.0003, 0.003, 0.03);
  const double momentum = GENERATE(0.0, 0.5, 0.95);
  CAPTURE(rule, rate, momentum);
  PipelineOptions options = Chain(Spec(rule), 10, momentum, rate);
  options.hessian = SpreadHessian(30, 100, 5);
  options.widths.assign(10, 3);
  const MatrixXd matrix = StateMatrix(options);
  REQUIRE(static_cast<std::size_t>(matrix.rows()) > kDenseStateDimension);
  const double dense = test::LargestEigenvalue(matrix);
  const double radius = PipelineStability(options).spectral_radius;
  CHECK(std::abs(std::log(radius) - std::log(dense)) <
        kSpectrumTolerance * std::abs(std::log(dense)));
}

TEST_CASE("A rule by its coefficients: the matrix's radius by the weights alone, and SGDM's own") {
  const double rate = GENERATE(0.0003, 0.003, 0.03);
  constexpr double kMomentum = 0.95;
  const RuleSpec rule =
      GENERATE(AsLinear("sgdm", kMomentum, 0), AsLinear("lwp-w+sc", kMomentum, 8),
               LinearSpec({1.092803, -1.707838, 0.696482}, {1, -1.903855, 0.82638, 0.077475}));
  CAPTURE(rate, rule.options.numerator);
  for (const int stages : {3, 10}) {
    PipelineOptions options = Chain(rule, stages, std::nan(""), rate);
    options.hessian = SpreadHessian(3 * stages, 100, 5);
    options.widths.assign(static_cast<std::size_t>(stages), 3);
    const MatrixXd matrix = StateMatrix(options);
    REQUIRE((static_cast<std::size_t>(matrix.rows()) > kDenseStateDimension) == (stages == 10));
    REQUIRE(static_cast<std::size_t>(matrix.rows()) == StateDimension(options));
    const double dense = std::log(test::LargestEigenvalue(matrix));
    const double radius = std::log(PipelineStability(options).spectral_radius);
    CHECK(std::abs(radius - dense) < kSpectrumTolerance * std::abs(dense));
    if (rule.options.numerator != AsLinear("sgdm", kMomentum, 0).options.numerator) continue;
    options.rule = Spec("sgdm");
    options.momentum = kMomentum;
    const double sgdm = std::log(PipelineStability(options).spectral_radius);
    CHECK(std::abs(radius - sgdm) < kSpectrumTolerance * std::abs(sgdm));
  }
}

TEST_CASE("A rule by its coefficients: the largest root under one delay, and at rest") {
  const RuleSpec rule =
      LinearSpec({1.092803, -1.707838, 0.696482}, {1, -1.903855, 0.82638, 0.077475});
  const Delay delay = GENERATE(0, 4, 30);
  const double rate = GENERATE(0.001, 0.02);
  PipelineOptions options = Scalar(rule, std::nan(""), delay, rate);
  const double expected = ComputeSpectralRadius(rule, 0, delay, rate).radius;
  CHECK(std::abs(PipelineStability(options).spectral_radius - expected) <= kPipelineTolerance);
  CHECK(std::abs(test::LargestEigenvalue(StateMatrix(options)) - expected) <= kSpectrumTolerance);
  // Without a rate weights that were w_0 before stay there.
  options.learning_rate = 0;
  const MatrixXd matrix = StateMatrix(options);
  VectorXd state = VectorXd::Ones(matrix.rows());
  state[1] = 1 - 1.903855;
  state[2] = -0.077475;
  CHECK((matrix * state - state).cwiseAbs().maxCoeff() < 1e-12);
  CHECK_THROWS_WITH(FindPipelineOptimum(options),
                    "rule: got linear, accepted: a rule of a momentum");
}

void CheckRadius(const char* rule, int stages) {
  CAPTURE(rule, stages);
  PipelineOptions options = Chain(Spec(rule), stages, 0.9, 2e-4);
  options.hessian = SpreadHessian(stages, 1000, 3);
  const double log_radius = std::log(PipelineStability(options).spectral_radius);
  CHECK(RootsOutside(options, std::exp(0.98 * log_radius)) == 0);
  CHECK(RootsOutside(options, std::exp(1.01 * log_radius)) > 0);
}

TEST_CASE("85 stages: by the principle of the argument no root is outside the radius, one at it") {
  CheckRadius(GENERATE("sgdm", "lwp-w+sc"), 85);
}

PipelineOptions CoupledChain(const char* rule, int stages, double condition, unsigned seed) {
  PipelineOptions options = Chain(Spec(rule), stages, 0, 0);
  options.hessian = SpreadHessian(stages, condition, seed);
  return options;
}

void CheckThatNoneIsOutside(const PipelineOptions& options, double radius) {
  const double nearby = 0.001 * std::abs(std::log(radius));
  CHECK(RootsOutside(options, radius * std::exp(nearby)) == 0);
  CHECK(RootsOutside(options, radius * std::exp(-nearby)) > 0);
}

void CheckManyRoots(unsigned seed) {
  struct Point {
    const char* rule;
    int stages;
    double condition, momentum, rate;
  };
  const Point point =
      GENERATE(Point{"sc", 70, 10, 0.99516, 5.558e-5}, Point{"lwp-w+sc", 64, 3e5, 0.99987, 0.0128},
               Point{"lwp-w+sc", 50, 825, 0.58, 0.265});
  CAPTURE(point.rule, point.stages, seed);
  PipelineOptions options = CoupledChain(point.rule, point.stages, point.condition, seed);
  options.momentum = point.momentum;
  options.learning_rate = point.rate;
  CheckThatNoneIsOutside(options, PipelineStability(options).spectral_radius);
}

TEST_CASE("Many roots that are nearly the largest: none is outside the radius, one at it") {
  CheckManyRoots(GENERATE(1u, 2u));
}

TEST_CASE("Many roots of more Hessians that are nearly the largest: none is outside the radius",
          "[.long]") {
  CheckManyRoots(GENERATE(3u, 4u));
}

TEST_CASE("Roots that are between the points of a sweep are found") {
  PipelineOptions options = CoupledChain("sc", 70, 10, 0);
  options.momentum = 0.993463;
  options.learning_rate = 8.56319e-5;
  CheckThatNoneIsOutside(options, PipelineStability(options).spectral_radius);
}

TEST_CASE("The best point is none where a search overlooks the largest root") {
  PipelineOptions options = CoupledChain("sc", 70, 10, 0);
  const PipelineOptimum optimum = FindPipelineOptimum(options);
  options.momentum = optimum.momentum;
  options.learning_rate = optimum.learning_rate;
  CheckThatNoneIsOutside(options, optimum.spectral_radius);
}

TEST_CASE("169 stages: by the principle of the argument no root is outside the radius, one at it",
          "[.long]") {
  CheckRadius(GENERATE("sgdm", "lwp-w+sc"), 169);
}

TEST_CASE("169 stages that do not meet are 169 scalar problems") {
  PipelineOptions options = Chain(Spec("lwp-v+sc"), 169, 0.9, 0.0005);
  double expected = 0;
  VectorXd curvatures(169);
  for (int s = 0; s < 169; ++s) {
    curvatures(s) = std::pow(30.0, -((s * 64) % 169) / 168.0);
    expected = std::max(
        expected,
        ComputeSpectralRadius(Spec("lwp-v+sc"), 0.9, 2 * (168 - s), 0.0005 * curvatures(s)).radius);
  }
  options.hessian = curvatures.asDiagonal();
  CHECK(PipelineStability(options).spectral_radius == expected);
}

TEST_CASE(
    "The best momentum and rate: of one delay as for the whole spectrum, of several no worse") {
  PipelineOptions options = Chain(Spec("lwp-w+sc"), 4, 0, 0);
  options.hessian = SpreadHessian(12, 50, 2);
  options.widths.assign(4, 3);
  options.delays.assign(4, 3);
  const double uniform = FindOptimum({Spec("lwp-w+sc"), 3, 50, std::nullopt}).half_life_updates;
  // Twelve curvatures ask for no more than all between them, and leave little out.
  const double found = FindPipelineOptimum(options).half_life_updates;
  CHECK(found < 1.002 * uniform);
  CHECK(found > 0.95 * uniform);

  options.delays = {6, 4, 2, 0};
  const PipelineOptimum optimum = FindPipelineOptimum(options);
  double best = 1;
  for (double momentum = 0; momentum < 1; momentum += 0.04) {
    for (double rate = 0.004; rate < 1; rate *= 1.15) {
      options.momentum = momentum;
      options.learning_rate = rate;
      best = std::min(best, PipelineStability(options).spectral_radius);
    }
  }
  CHECK(std::log(optimum.spectral_radius) <= 0.999 * std::log(best));
}

TEST_CASE(
    "The best learning rate is at most the largest, and has the radius that it is said to have") {
  PipelineOptions options = Chain(Spec("sgdm"), 4, 0, 0);
  options.hessian *= 1e-12;
  const PipelineOptimum optimum = FindPipelineOptimum(options);
  CHECK(optimum.learning_rate <= kMaxRate);
  options.momentum = optimum.momentum;
  options.learning_rate = optimum.learning_rate;
  CHECK(PipelineStability(options).spectral_radius == optimum.spectral_radius);
}

}  // namespace
}  // namespace batchless::analysis
