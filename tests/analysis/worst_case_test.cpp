// Certified rates against known ones, against ball arithmetic, and against functions that are run.
#include "batchless/analysis/worst_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ball.h"
#include "batchless/analysis/simulation.h"
#include "catch.h"
#include "polynomial.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

// What is asked of rates that are known exactly.
constexpr double kRateTolerance = 1e-6;
// Digits of the values that were computed apart.
constexpr double kPrintedTolerance = 2e-5;
// Half-lives from local searches agree to this, as they were printed.
constexpr double kHalfLifeTolerance = 0.01;

/// Gradient descent, eta = 2 / (L + mu).
WorstCasePoint GradientDescent(double condition) {
  return {Spec("sgdm"), 0, 0, 2 * condition / (condition + 1), condition};
}

/// y = -alpha ((1 + gamma) z - gamma) / ((z - 1)(z - beta)) g: the triple momentum method.
WorstCasePoint TripleMomentum(double condition) {
  const double rho = 1 - 1 / std::sqrt(condition);
  const double beta = rho * rho / (2 - rho), gamma = rho * rho / ((1 + rho) * (2 - rho));
  return {LinearSpec({1 + gamma, -gamma}, {1, -(1 + beta), beta}), 0, 0, 1 + rho, condition};
}

/// Nesterov's method with his constants.
WorstCasePoint Nesterov(double condition) {
  const double root = std::sqrt(condition);
  return {Spec("nesterov"), (root - 1) / (root + 1), 0, 1, condition};
}

/// The quadratic's best heavy ball.
WorstCasePoint HeavyBall(double condition) {
  const double root = std::sqrt(condition), rho = (root - 1) / (root + 1);
  return {Spec("sgdm"), rho * rho, 0, std::pow(2 * root / (root + 1), 2), condition};
}

/// Random points of every rule of a momentum, most of them stable.
class RandomPoints {
 public:
  explicit RandomPoints(std::uint64_t seed) : engine_(seed) {}

  WorstCasePoint Next() {
    const auto rules = Rules();
    WorstCasePoint point;
    point.rule = {rules[engine_() % rules.size()], {}};
    point.delay = static_cast<Delay>(engine_() % 6);
    const double gap = std::pow(10.0, -2 * uniform_(engine_));
    point.momentum = 1 - gap;
    point.condition = std::pow(10.0, 3 * uniform_(engine_));
    point.rate = gap * std::pow(10.0, -1.5 * uniform_(engine_));
    return point;
  }

 private:
  std::mt19937_64 engine_;
  std::uniform_real_distribution<double> uniform_{0, 1};
};

/// Certificates of random points: how many there are, and how many lie below the quadratic.
void CheckAgainstQuadratics(int count, std::uint64_t seed) {
  RandomPoints points(seed);
  int certified = 0, below = 0;
  for (int k = 0; k < count; ++k) {
    const WorstCasePoint point = points.Next();
    const WorstCase worst = CertifyWorstCase(point);
    if (std::isnan(worst.rate)) continue;
    ++certified;
    if (worst.rate < worst.quadratic.radius - worst.quadratic.error_bound) ++below;
  }
  CHECK(below == 0);
  CHECK(certified > count / 3);
}

struct Optimal {
  double condition;
  Delay delay;
  const char* rule;
  double half_life;
};

void CheckTable(const std::vector<Optimal>& table) {
  for (const auto& [condition, delay, rule, half_life] : table) {
    INFO(rule << ", delay " << delay << ", condition " << condition);
    const WorstCaseOptimum best = FindWorstCaseOptimum({Spec(rule), delay, condition, {}});
    CHECK(best.worst.half_life_updates == Approx(half_life).epsilon(kHalfLifeTolerance));
  }
}

/// Gradient of a convex function with kinks at +-ratio^k for all k, its slopes given for one period
/// on either side of its minimum at 0: it looks the same at every scale.
class KinkedGradient {
 public:
  KinkedGradient(double ratio, std::vector<double> left, std::vector<double> right)
      : ratio_(ratio), left_(std::move(left)), right_(std::move(right)) {}

  double operator()(double w) const {
    return w < 0 ? -Side(left_, -w) : w > 0 ? Side(right_, w) : 0;
  }

 private:
  double Side(const std::vector<double>& slopes, double w) const {
    const double period = std::pow(ratio_, static_cast<double>(slopes.size()));
    // Over a period the gradient grows by the same share of itself as w.
    double mean = 0, at = 1;
    for (const double slope : slopes) {
      mean += slope * at * (ratio_ - 1) / (period - 1);
      at *= ratio_;
    }
    double from = std::pow(period, std::floor(std::log(w) / std::log(period)));
    double value = mean * from;
    for (const double slope : slopes) {
      const double to = from * ratio_;
      if (w <= to) return value + slope * (w - from);
      value += slope * (to - from);
      from = to;
    }
    return value;
  }

  double ratio_;
  std::vector<double> left_, right_;
};

using ball::Ball;

/// Coefficients, constant term first.
using Balls = std::vector<Ball>;

/// c_k of T(w) = sum_k c_k cos(k w), k from -(size - 1) / 2 up: from the rule's equations as they are
/// written, undivided, multiplied out. For rules that compensate with SC_D or not at all, and
/// predict in weight form or not at all.
Balls CosineTerms(const WorstCasePoint& point, const WorstCase& worst) {
  const Ball zero(0.0), one(1.0), m(point.momentum);
  const Ball horizon(static_cast<double>(point.delay));
  Ball a = one, b = zero;  // m^D and 1 + m + ... + m^(D - 1)
  const bool compensates = point.rule.rule.compensation == Compensation::kSpike;
  for (Delay k = 0; compensates && k < point.delay; ++k) {
    b = b + a;
    a = a * m;
  }
  Balls old(static_cast<std::size_t>(point.delay) + 1, zero);  // z^n
  old.back() = one;
  old = Multiply(Multiply(old, {Ball(-1.0), one}), {zero - m, one});
  Balls loop = {zero - b * m, a + b};
  if (point.rule.rule.prediction == Prediction::kWeight) {
    old.insert(old.begin(), zero);
    loop = Multiply(loop, {zero - horizon, one + horizon});
  }
  const Ball rho = ball::Exp(Ball(worst.log_rate));
  const auto at_rate = [&](const Ball& rate) {
    Balls p = old;
    Ball power = one;
    for (std::size_t k = 0; k < p.size(); ++k, power = power * rho) {
      if (k < loop.size()) p[k] = p[k] + rate * loop[k];
      p[k] = p[k] * power;
    }
    return p;
  };
  Balls conjugate = at_rate(Ball(point.rate) / Ball(point.condition));
  std::reverse(conjugate.begin(), conjugate.end());
  Balls multiplier(2 * kMultiplierTaps + 1, zero);
  for (int j = -kMultiplierTaps; j <= kMultiplierTaps; ++j) {
    const auto at = static_cast<std::size_t>(j + kMultiplierTaps - (j > 0 ? 1 : 0));
    // z^-j at rho: the power -j of e^{i w}.
    multiplier[static_cast<std::size_t>(kMultiplierTaps - j)] =
        j == 0 ? one : Ball(-worst.taps[at]) * ball::Exp(Ball(-1.0 * j) * Ball(worst.log_rate));
  }
  return Multiply(multiplier, Multiply(at_rate(Ball(point.rate)), conjugate));
}

/// Rules that CosineTerms is for.
bool BallsKnow(const Rule& rule) {
  return rule.prediction != Prediction::kVelocity && !rule.predicts_geometrically &&
         (rule.compensation == Compensation::kSpike || rule.compensation == Compensation::kNone);
}

/// Whether balls prove T > 0 everywhere, by arcs on which a parabola below T is positive.
bool BallsProve(const WorstCasePoint& point, const WorstCase& worst) {
  const Balls terms = CosineTerms(point, worst);
  const auto middle = (static_cast<double>(terms.size()) - 1) / 2;
  // T or one of its first two derivatives.
  const auto value = [&](const Ball& w, int derivative) {
    Ball sum(0.0);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const Ball k(static_cast<double>(i) - middle);
      const Ball wave = ball::Apply(derivative == 1 ? arb_sin : arb_cos, k * w);
      const Ball term = terms[i] * wave;
      sum = derivative == 0 ? sum + term : sum - term * (derivative == 1 ? k : k * k);
    }
    return sum;
  };
  std::vector<std::pair<double, double>> open = {{0, 3.2}};
  for (int arcs = 0; !open.empty(); ++arcs) {
    if (arcs > 10'000) return false;
    const auto [from, to] = open.back();
    open.pop_back();
    const Ball centre((from + to) / 2), half((to - from) / 2);
    Ball around = centre;
    arb_add_error(around.get(), half.get());
    const Ball t0 = value(centre, 0), t1 = value(centre, 1), t2 = value(around, 2);
    const Ball linear = t0 - ball::Abs(t1) * half;
    // The vertex where T is convex; else what the steepest fall leaves.
    if ((t2.positive() && (linear.positive() || (t0 - t1 * t1 / (Ball(2.0) * t2)).positive())) ||
        (linear - ball::Abs(t2) * half * half / Ball(2.0)).positive()) {
      continue;
    }
    if (t0.negative()) return false;
    open.emplace_back(from, (from + to) / 2);
    open.emplace_back((from + to) / 2, to);
  }
  return true;
}

}  // namespace

TEST_CASE("Gradient descent and triple momentum have their exact worst cases") {
  for (const double condition : {1.5, 10.0, 100.0, 1000.0}) {
    INFO("condition " << condition);
    const double descent = (condition - 1) / (condition + 1);
    const double rate = CertifyWorstCase(GradientDescent(condition)).rate;
    // A certificate below the truth would be no certificate.
    CHECK(rate >= descent);
    CHECK(rate <= descent + kRateTolerance);
    const double triple = 1 - 1 / std::sqrt(condition);
    const WorstCase worst = CertifyWorstCase(TripleMomentum(condition));
    CHECK(worst.rate >= triple - std::numeric_limits<double>::epsilon());
    CHECK(worst.rate <= triple + kRateTolerance);
    CHECK(worst.half_life_updates == Approx(-std::log(2) / std::log(worst.rate)).epsilon(1e-9));
  }
}

TEST_CASE("A rule that ends in one step on its one curvature has the rate 0") {
  const WorstCase worst = CertifyWorstCase({Spec("sgdm"), 0, 0, 1, 1});
  CHECK(worst.rate == 0);
  CHECK(worst.half_life_updates == 0);
}

TEST_CASE(
    "Nesterov's constants and the quadratic's heavy ball have the rates that others computed") {
  CHECK(CertifyWorstCase(Nesterov(10)).rate == Approx(0.75182).margin(kPrintedTolerance));
  CHECK(CertifyWorstCase(Nesterov(100)).rate == Approx(0.92793).margin(kPrintedTolerance));
  const WorstCase heavy = CertifyWorstCase(HeavyBall(10));
  CHECK(heavy.rate == Approx(0.8459).margin(1e-4));
  CHECK(heavy.quadratic.radius == Approx(0.5195).margin(1e-4));
}

TEST_CASE("Heavy ball that cycles on a function has no certificate") {
  // Lessard, Recht and Packard's function: slopes 25, 1, 25.
  const WorstCasePoint point = HeavyBall(25);
  const auto gradient = [](double w) { return w < 1 ? 25 * w : w < 2 ? w + 24 : 25 * w - 24; };
  const auto path = Simulate({.rule = point.rule,
                              .momentum = point.momentum,
                              .learning_rate = point.rate / 25,
                              .initial_weight = 3.07,
                              .updates = 3000},
                             gradient);
  CHECK(std::abs(path.back().weight) + std::abs(path[2999].weight) > 0.1);
  for (const double condition : {25.0, 100.0}) {
    const WorstCase worst = CertifyWorstCase(HeavyBall(condition));
    CHECK(std::isnan(worst.rate));
    CHECK(std::isnan(worst.half_life_updates));
    CHECK(worst.quadratic.radius < 1);
  }
}

TEST_CASE("Ball arithmetic proves certificates from the equations of the rules") {
  RandomPoints points(6);
  int proven = 0;
  for (int tried = 0; tried < 200; ++tried) {
    const WorstCasePoint point = points.Next();
    const Rule& rule = point.rule.rule;
    if (!BallsKnow(rule)) continue;
    const WorstCase worst = CertifyWorstCase(point);
    if (std::isnan(worst.rate)) continue;
    INFO(rule.name << ", delay " << point.delay << ", momentum " << point.momentum << ", rate "
                   << point.rate << ", condition " << point.condition);
    CHECK(BallsProve(point, worst));
    ++proven;
  }
  CHECK(proven > 30);
}

TEST_CASE("Random multipliers prove a rate where balls do, and not where balls do not") {
  RandomPoints points(7);
  std::mt19937_64 engine(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  // Between the least rate that is proven and one that is not.
  constexpr double kApart = 1e-9;
  int sharp = 0;
  for (int tried = 0; tried < 400 && sharp < 25; ++tried) {
    const WorstCasePoint point = points.Next();
    if (!BallsKnow(point.rule.rule)) continue;
    WorstCase worst = CertifyWorstCase(point);
    if (std::isnan(worst.rate)) continue;
    // Taps on both sides beside the best ones.
    const double log_best = worst.log_rate;
    double first = 0, second = 0;
    for (std::size_t k = 0; k < worst.taps.size(); ++k) {
      worst.taps[k] += 0.1 * uniform(engine) * uniform(engine);
      const int lag = static_cast<int>(k) - kMultiplierTaps + (k < 8 ? 0 : 1);
      first += worst.taps[k];
      second += worst.taps[k] * std::exp(-2 * lag * log_best);
    }
    for (double& tap : worst.taps) tap *= 0.99 / std::max(first, second);
    double in = 0, out = 0;
    for (const double share : {1.0, 0.9, 0.5, 0.1, 0.01}) {
      in = share * log_best;
      if (IsCertificate(point, in, worst.taps)) break;
      out = in;
    }
    // None at the slowest rate, or one at the fastest.
    if (out == in || out == 0) continue;
    while (out < in * (1 + kApart)) {
      const double middle = (in + out) / 2;
      (IsCertificate(point, middle, worst.taps) ? in : out) = middle;
    }
    ++sharp;
    INFO(point.rule.rule.name << ", delay " << point.delay << ", momentum " << point.momentum
                              << ", rate " << point.rate << ", condition " << point.condition);
    worst.log_rate = in;
    CHECK(BallsProve(point, worst));
    worst.log_rate = in * (1 + 2 * kApart);
    CHECK_FALSE(BallsProve(point, worst));
  }
  CHECK(sharp == 25);
}

TEST_CASE("No certificate lies below the radius of a quadratic") {
  CheckAgainstQuadratics(1000, 3);
}

TEST_CASE("No certificate of ten thousand lies below the radius of a quadratic", "[.long]") {
  CheckAgainstQuadratics(10'000, 4);
}

TEST_CASE("A root that stays on the unit circle has no certificate") {
  // (z - 1) (z + x), with both roots there at x = 1.
  const WorstCase worst = CertifyWorstCase({LinearSpec({1, -1}, {1, -1, 0}), 0, 0, 1, 10});
  CHECK(std::isnan(worst.rate));
  CHECK(std::abs(worst.quadratic.radius - 1) <= worst.quadratic.error_bound);
  CHECK(worst.quadratic.error_bound <= 1e-13);
}

TEST_CASE("What is no certificate is refused") {
  RandomPoints points(5);
  int tried = 0;
  while (tried < 50) {
    const WorstCasePoint point = points.Next();
    const WorstCase worst = CertifyWorstCase(point);
    if (std::isnan(worst.rate)) continue;
    ++tried;
    REQUIRE(IsCertificate(point, worst.log_rate, worst.taps));
    // Below the least curvature's quadratic, and no rate below 1 at all.
    CHECK_FALSE(IsCertificate(point, worst.quadratic.log_radius * (1 + 1e-9), worst.taps));
    CHECK_FALSE(IsCertificate(point, 0, worst.taps));
    CHECK_FALSE(IsCertificate(point, std::nan(""), worst.taps));
    Multiplier taps = worst.taps;
    taps[3] = std::nan("");
    CHECK_FALSE(IsCertificate(point, worst.log_rate, taps));
    taps[3] = -1e-12;
    CHECK_FALSE(IsCertificate(point, worst.log_rate, taps));
    // One tap beyond its sum.
    for (const std::size_t tap : {std::size_t{0}, std::size_t{15}}) {
      taps = worst.taps;
      double sum = 0;
      for (std::size_t k = 0; k < taps.size(); ++k) {
        const int lag = static_cast<int>(k) - kMultiplierTaps + (k < 8 ? 0 : 1);
        sum += taps[k] * (tap == 15 ? std::exp(-2 * lag * worst.log_rate) : 1);
      }
      const double weight = tap == 15 ? std::exp(-2 * kMultiplierTaps * worst.log_rate) : 1;
      taps[tap] += (1 - sum + 1e-9) / weight;
      CHECK_FALSE(IsCertificate(point, worst.log_rate, taps));
    }
  }
  // One curvature alone: the real part is positive at every rate, and only the root tells.
  const WorstCasePoint root{Spec("sgdm"), 0, 0, 0.5, 1}, unstable{Spec("sgdm"), 0, 0, 3, 1};
  CHECK(IsCertificate(root, std::log(0.51), {}));
  CHECK_FALSE(IsCertificate(root, std::log(0.49), {}));
  CHECK_FALSE(IsCertificate(unstable, std::log(0.51), {}));
  const WorstCasePoint linear{LinearSpec({1}, {1, -1}), 0, 0, 0.5, 1};
  CHECK(IsCertificate(linear, std::log(0.51), {}));
  CHECK_FALSE(IsCertificate(linear, std::log(0.49), {}));
  // Where the bound is exact, a rate that is a little less has none: positive at most points is not
  // enough.
  const WorstCasePoint nesterov = Nesterov(10);
  const WorstCase worst = CertifyWorstCase(nesterov);
  CHECK_FALSE(IsCertificate(nesterov, worst.log_rate * (1 + 1e-5), worst.taps));
}

TEST_CASE("Points of worst cases are checked by name") {
  const auto why = [](auto change) {
    WorstCasePoint point = GradientDescent(10);
    change(point);
    return WhyInvalid(point);
  };
  CHECK(why([](WorstCasePoint&) {}).empty());
  CHECK(why([](WorstCasePoint& p) { p.momentum = 1.5; }).starts_with("momentum: got 1.5"));
  CHECK(why([](WorstCasePoint& p) { p.delay = 257; }).starts_with("delay: got 257"));
  CHECK(why([](WorstCasePoint& p) { p.delay = -1; }).starts_with("delay: got -1"));
  CHECK(why([](WorstCasePoint& p) { p.rate = 0; }).starts_with("rate: got 0"));
  CHECK(why([](WorstCasePoint& p) { p.rate = std::nan(""); }).starts_with("rate: got nan"));
  CHECK(why([](WorstCasePoint& p) { p.condition = 0.5; }).starts_with("condition: got 0.5"));
  CHECK(why([](WorstCasePoint& p) { p.condition = 1e7; }).starts_with("condition: got 1e+07"));
  CHECK_THROWS_AS(FindWorstCaseOptimum({Spec("sgdm"), 300, 10, {}}), InvalidArgument);
  CHECK_THROWS_AS(FindWorstCaseOptimum({Spec("sgdm"), 0, 1e7, {}}), InvalidArgument);
}

TEST_CASE("Functions with kinks at every scale converge no slower than the certificate") {
  std::mt19937_64 engine(8);
  std::uniform_real_distribution<double> uniform(0, 1);
  double nearest = 0;
  for (const WorstCasePoint& point : {WorstCasePoint{Spec("sgdm"), 0.27, 0, 2.3, 10}, Nesterov(10),
                                      Nesterov(100), WorstCasePoint{Spec("sc"), 0.9, 1, 0.17, 100},
                                      WorstCasePoint{Spec("lwp-w+sc"), 0.9, 1, 0.3, 100},
                                      WorstCasePoint{Spec("lwp-w+sc"), 0.96, 4, 0.04, 100}}) {
    const WorstCase worst = CertifyWorstCase(point);
    REQUIRE(worst.rate < 1);
    INFO(point.rule.rule.name << ", delay " << point.delay << ", condition " << point.condition);
    // So long that what a start adds to the rate is below the tolerance.
    constexpr double kHalfLives = 800, kStartTolerance = 0.01;
    const double updates = kHalfLives * worst.half_life_updates;
    double slowest = 0;
    for (int trial = 0; trial < 40; ++trial) {
      // The largest curvature is 1; slopes at the ends of the interval and between them.
      const auto slopes = [&] {
        std::vector<double> drawn(1 + engine() % 3);
        for (double& slope : drawn) {
          const double t = uniform(engine);
          slope = t < 0.3   ? 1
                  : t < 0.6 ? 1 / point.condition
                            : std::pow(point.condition, -uniform(engine));
        }
        return drawn;
      };
      const KinkedGradient gradient(1.2 + 5 * uniform(engine), slopes(), slopes());
      const auto path = Simulate({.rule = point.rule,
                                  .momentum = point.momentum,
                                  .delay = point.delay,
                                  .learning_rate = point.rate,
                                  .initial_weight = 1 + uniform(engine),
                                  .updates = static_cast<std::size_t>(updates)},
                                 gradient);
      double size = 0;
      for (std::size_t k = path.size() - 50; k < path.size(); ++k) {
        size = std::max(size, std::abs(path[k].weight));
      }
      slowest = std::max(slowest, kHalfLives * std::log(2) / -std::log(size));
    }
    CHECK(slowest < 1 + kStartTolerance);
    nearest = std::max(nearest, slowest);
    UNSCOPED_INFO("slowest " << slowest << " of the certified half-life");
  }
  // The draw comes near enough to put the certificates to the test.
  CHECK(nearest > 0.9);
}

TEST_CASE("Logistic regression converges no slower than the certificate") {
  using Vector = std::array<double, 3>;
  std::mt19937_64 engine(9);
  std::normal_distribution<double> normal;
  constexpr double kMu = 0.01;
  for (int trial = 0; trial < 10; ++trial) {
    // f = sum log(1 + e^(-x w)) / n + mu |w|^2 / 2: L = mu + the trace's bound of X'X / 4 n.
    std::vector<Vector> samples(20);
    double trace = 0;
    for (Vector& x : samples) {
      for (double& value : x) {
        value = normal(engine) + 0.5;
        trace += value * value;
      }
    }
    const auto n = static_cast<double>(samples.size());
    const double largest = kMu + trace / (4 * n);
    const auto gradient = [&](const Vector& w) {
      Vector g;
      for (std::size_t i = 0; i < 3; ++i) g[i] = kMu * w[i];
      for (const Vector& x : samples) {
        const double margin = x[0] * w[0] + x[1] * w[1] + x[2] * w[2];
        const double weight = -1 / (1 + std::exp(margin)) / n;
        for (std::size_t i = 0; i < 3; ++i) g[i] += weight * x[i];
      }
      return g;
    };
    // LWPw_D + SC_D as it is written.
    const double momentum = 0.95, condition = largest / kMu;
    const int delay = trial % 4;
    const double rate = 0.3 / (1 + 4 * delay);
    const WorstCasePoint point{Spec("lwp-w+sc"), momentum, delay, rate, condition};
    const WorstCase worst = CertifyWorstCase(point);
    INFO("delay " << delay << ", condition " << condition);
    REQUIRE(worst.rate < 1);
    const double a = std::pow(momentum, delay), b = (1 - a) / (1 - momentum);
    const double eta = rate / largest;
    std::vector<Vector> w = {{20, -20, 20}, {20, -20, 20}};
    Vector v{};
    const auto updates = static_cast<std::size_t>(60 * worst.half_life_updates);
    for (std::size_t k = 0; k < updates; ++k) {
      const std::size_t read =
          w.size() - 1 - std::min<std::size_t>(static_cast<std::size_t>(delay), w.size() - 2);
      Vector ahead;
      for (std::size_t i = 0; i < 3; ++i) {
        ahead[i] = w[read][i] + delay * (w[read][i] - w[read - 1][i]);
      }
      const Vector g = gradient(ahead);
      Vector next = w.back();
      for (std::size_t i = 0; i < 3; ++i) {
        v[i] = momentum * v[i] + g[i];
        next[i] -= eta * (a * v[i] + b * g[i]);
      }
      w.push_back(next);
    }
    const auto distance = [&](const Vector& x) {
      double sum = 0;
      for (std::size_t i = 0; i < 3; ++i) sum += (x[i] - w.back()[i]) * (x[i] - w.back()[i]);
      return std::sqrt(sum);
    };
    // Momentum carries past the start at first; a rate that is wrong grows beyond any factor.
    constexpr double kFactor = 10;
    double most = 0;
    for (std::size_t k = 0; k < updates / 2; ++k) {
      most = std::max(most, distance(w[k]) / distance(w[0]) / std::pow(worst.rate, k));
    }
    CHECK(most < kFactor);
  }
}

TEST_CASE("Best half-lives are those of a search apart") {
  CheckTable({{100, 0, "sgdm", 13.07},
              {100, 0, "nesterov", 7.77},
              {100, 1, "sc", 29.23},
              {100, 1, "lwp-v+sc", 18.39},
              {100, 4, "lwp-w", 70.85},
              {1000, 0, "nesterov", 26.11},
              {1000, 1, "lwp-w", 155.4},
              {1000, 1, "lwp-w+sc", 53.27}});
}

TEST_CASE("All best half-lives are those of a search apart", "[.long]") {
  CheckTable({{100, 1, "sgdm", 69.93},
              {100, 1, "lwp-w", 26.19},
              {100, 1, "lwp-w+sc", 16.52},
              {100, 4, "sc", 79.96},
              {100, 4, "lwp-v+sc", 56.18},
              {100, 4, "lwp-w+sc", 47.51},
              {1000, 0, "sgdm", 101.5},
              {1000, 1, "sgdm", 693.8},
              {1000, 1, "sc", 164.2},
              {1000, 1, "lwp-v+sc", 60.72},
              {1000, 4, "sc", 373.4},
              {1000, 4, "lwp-w", 347.8},
              {1000, 4, "lwp-v+sc", 185.3},
              {1000, 4, "lwp-w+sc", 154.2}});
}

TEST_CASE("Waiting takes D + 1 times the triple momentum method") {
  CHECK(TripleMomentumHalfLife(0, 100) == Approx(6.58).epsilon(1e-3));
  CHECK(TripleMomentumHalfLife(4, 100) == Approx(32.9).epsilon(1e-3));
  CHECK(TripleMomentumHalfLife(1, 1000) == Approx(43.1).epsilon(1e-3));
  CHECK_THROWS_AS(TripleMomentumHalfLife(-1, 10), InvalidArgument);
  // Two copies, w' from w two updates ago, by the certificate.
  const double condition = 100, rho = 0.9, beta = rho * rho / (2 - rho),
               gamma = rho * rho / ((1 + rho) * (2 - rho));
  const WorstCasePoint copies{LinearSpec({1 + gamma, 0, -gamma, 0}, {1, 0, -(1 + beta), 0, beta}),
                              0, 1, 1 + rho, condition};
  CHECK(CertifyWorstCase(copies).half_life_updates ==
        Approx(TripleMomentumHalfLife(1, condition)).epsilon(1e-5));
}

TEST_CASE("Free coefficients are certified to be faster than the published rule's") {
  // A search apart reached 15.78 with three poles; two leads, and the rest is on the way there.
  const WorstCaseDesign design = DesignForWorstCase(1, 100, 2);
  CHECK(design.worst.half_life_updates < 15.78);
  CHECK(design.worst.half_life_updates > TripleMomentumHalfLife(1, 100));
  const WorstCasePoint point{LinearSpec(design.numerator, design.denominator), 0, 1, 1, 100};
  CHECK(IsCertificate(point, design.worst.log_rate, design.worst.taps));
  // Without delay two leads are no worse than Nesterov's method, which is one.
  CHECK(DesignForWorstCase(0, 10, 2).worst.half_life_updates < 2.02);
  CHECK_THROWS_AS(DesignForWorstCase(1, 100, 1), InvalidArgument);
  CHECK_THROWS_AS(DesignForWorstCase(1, 100, 6), InvalidArgument);
}

TEST_CASE("Four poles come to what waiting takes, and no search went below", "[.long]") {
  const double waiting = TripleMomentumHalfLife(1, 100);
  const WorstCaseDesign three = DesignForWorstCase(1, 100, 3), four = DesignForWorstCase(1, 100, 4);
  CHECK(three.worst.half_life_updates < 15.78);
  CHECK(four.worst.half_life_updates == Approx(waiting).epsilon(1e-3));
  CHECK(four.worst.half_life_updates > waiting);
  const WorstCaseDesign late = DesignForWorstCase(4, 100, 3);
  CHECK(late.worst.half_life_updates < 41.1);
  CHECK(late.worst.half_life_updates > TripleMomentumHalfLife(4, 100));
}

TEST_CASE("Optima without a price, at a given momentum, and of a rule without one") {
  // Under a delay of 4 plain SGD loses nothing to the worst function; the search apart lost 5 %.
  for (const double condition : {100.0, 1000.0}) {
    const OptimumOptions options{Spec("sgdm"), 4, condition, {}};
    const double best = FindWorstCaseOptimum(options).worst.half_life_updates;
    CHECK(best == Approx(FindOptimum(options).half_life_updates).epsilon(1e-4));
  }
  // A momentum that is held, and a rule without one.
  const WorstCaseOptimum held = FindWorstCaseOptimum({Spec("nesterov"), 0, 100, 9.0 / 11});
  CHECK(held.momentum == 9.0 / 11);
  CHECK(held.worst.rate < CertifyWorstCase(Nesterov(100)).rate);
  const WorstCaseOptimum triple = FindWorstCaseOptimum({TripleMomentum(100).rule, 0, 100, {}});
  CHECK(triple.rate == Approx(1.9).epsilon(1e-3));
  CHECK(std::isnan(triple.momentum));
}

}  // namespace batchless::analysis
