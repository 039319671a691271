// The certificate of spectral_radius.h against rigorous ball arithmetic: at every point no root lies
// outside the circle of the upper bound, and one lies outside that of the lower bound. Shares no
// formula with the library but the polynomial of the update equations.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ball.h"
#include "batchless/analysis/rates.h"
#include "batchless/analysis/spectral_radius.h"
#include "batchless/analysis/stability.h"
#include "catch.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using ball::Ball;

constexpr slong kLeastBits = 96, kMostBits = 3000;

/// p(z) = z^n (z - 1)(z - m) + x (k0 + k1 u)(1 + g u), u = z - 1, from the update equations.
struct Loop {
  double n;
  Ball m, mu, x, k0, k1, g;
};

Ball Power(const Ball& m, Delay d) {
  Ball c;
  arb_pow_ui(c.get(), m.get(), static_cast<ulong>(d), ball::precision);
  return c;
}

Loop MakeLoop(std::string_view name, const Ball& mu, Delay delay, const Ball& x) {
  const Ball m = Ball(1) - mu;
  const bool sc = name == "sc" || name == "lwp-v+sc" || name == "lwp-w+sc" || name == "nesterov";
  const Delay d = name == "nesterov" ? 1 : sc ? delay : 0;
  const Ball a = Power(m, d);
  // (1 - m^d) / (1 - m), which is d at m = 1. In every case a + b - b m = 1.
  const Ball b = arb_is_zero(mu.get()) ? Ball(static_cast<double>(d)) : (Ball(1) - a) / mu;
  Loop loop{static_cast<double>(delay), m, mu, x, Ball(1), a + b, Ball(0)};
  const Ball t(static_cast<double>(delay));
  if (name == "lwp-v" || name == "lwp-v+sc") loop.k1 = loop.k1 + t;
  if (name == "lwp-w" || name == "lwp-w+sc") {
    loop.g = Ball(1) + t;
    loop.n += 1;
  }
  return loop;
}

Loop MakeLoop(std::string_view name, double momentum, Delay delay, double rate) {
  return MakeLoop(name, Ball(1) - Ball(momentum), delay, Ball(rate));
}

/// Roots with |z| > e^s, or nothing where this precision does not tell.
///
/// |f|^2 - |g|^2 is a quadratic in c = 1 - cos theta. Between its zeros one of the two dominates and
/// carries arg p; at a zero the nearest whole turn of arg f - arg g joins the two.
std::optional<long> CountOutside(const Loop& k, const Ball& s) {
  const Ball r = ball::Exp(s), d = ball::Expm1(s), pi_ball = ball::Pi();
  const Ball power = ball::Exp(Ball(k.n) * s);
  const Ball one(1), two(2);
  const auto f_at = [&](const Ball& u) { return power * u * (u + k.mu); };
  const auto g_at = [&](const Ball& u) { return k.x * (k.k0 + k.k1 * u) * (one + k.g * u); };
  const Ball far = Ball(0) - (r + one);
  const Ball f0 = f_at(d), g0 = g_at(d), f2 = f_at(far), g2 = g_at(far);

  // Squared moduli |A + B u|^2 = (A + B d)^2 + 2 r B (B - A) c.
  struct Line {
    Ball at, slope;
  };
  const auto line = [&](const Ball& a, const Ball& b) {
    const Ball value = a + b * d;
    return Line{value * value, two * r * b * (b - a)};
  };
  const Line u2 = line(Ball(0), one), m2 = line(k.mu, one), l1 = line(k.k0, k.k1),
             l2 = line(one, k.g);
  const Ball ff = power * power, xx = k.x * k.x;
  const Ball quad = ff * u2.slope * m2.slope - xx * l1.slope * l2.slope;
  const Ball lin =
      ff * (u2.at * m2.slope + u2.slope * m2.at) - xx * (l1.at * l2.slope + l1.slope * l2.at);
  const Ball con = ff * u2.at * m2.at - xx * l1.at * l2.at;
  const Ball end = con + two * lin + Ball(4) * quad;
  if (!con.decided() || !end.decided()) return std::nullopt;
  const bool f_first = con.positive(), f_last = end.positive();

  // Crossings by increasing theta.
  std::vector<Ball> crossings;
  const Ball disc = lin * lin - Ball(4) * quad * con;
  if (f_first != f_last) {
    // Exactly one in (0, 2): the zero that the signs at both ends leave.
    if (!disc.positive() || !lin.decided()) return std::nullopt;
    const Ball root = ball::Sqrt(disc);
    const Ball t = lin.negative() ? root - lin : Ball(0) - (root + lin);
    for (const Ball& c : {two * con / t, t / (two * quad)}) {
      if (!arb_is_finite(c.get())) continue;
      if (c.positive() && (two - c).positive()) crossings.push_back(c);
    }
    if (crossings.size() != 1) return std::nullopt;
  } else if (const Ball bend = ball::Abs(quad);
             f_first ? (con - bend).positive() && (end - bend).positive()
                     : (con + bend).negative() && (end + bend).negative()) {
    // A parabola leaves the chord over (0, 2) by at most its bend: no zero.
  } else {
    if (!quad.decided() || !lin.decided()) return std::nullopt;
    // Two where the sign changes at a vertex inside.
    const bool towards = f_first ? quad.positive() : quad.negative();
    const Ball vertex = Ball(0) - lin / (two * quad);
    if (towards && arb_is_finite(vertex.get())) {
      if (!vertex.decided() || !(two - vertex).decided() || !disc.decided()) return std::nullopt;
      if (vertex.positive() && (two - vertex).positive() && disc.positive()) {
        const Ball root = ball::Sqrt(disc);
        const Ball t = lin.negative() ? root - lin : Ball(0) - (root + lin);
        crossings = {two * con / t, t / (two * quad)};
        const Ball order = crossings[1] - crossings[0];
        if (!order.decided()) return std::nullopt;
        if (order.negative()) std::swap(crossings[0], crossings[1]);
      }
    } else if (towards) {
      return std::nullopt;
    }
  }

  // Phases on the upper half circle, where every factor's argument keeps one sign.
  long joined = 0;
  bool f_before = f_first;
  for (const Ball& c : crossings) {
    const Ball rest = two - c;
    if (!c.positive() || !rest.positive()) return std::nullopt;
    const Ball re_u = d - r * c, im_u = r * ball::Sqrt(c * rest);
    const Ball theta = two * ball::Atan2(ball::Sqrt(c), ball::Sqrt(rest));
    const auto phase = [&](const Ball& a, const Ball& b) {
      return ball::Atan2(b * im_u, a + b * re_u);
    };
    const Ball f = Ball(k.n) * theta + phase(Ball(0), one) + phase(k.mu, one);
    const Ball g = phase(k.k0, k.k1) + phase(one, k.g);
    long turns = 0;
    if (!ball::NearestInteger((f - g) / (two * pi_ball), turns)) return std::nullopt;
    joined += f_before ? turns : -turns;
    f_before = !f_before;
  }

  // In units of pi, from the signs on the real axis; leads have non-negative coefficients here.
  const auto negative = [](const Ball& value, bool& known) {
    known = known && value.decided();
    return value.negative() ? 1L : 0L;
  };
  bool known = true;
  const long start = f_first ? negative(d, known) + negative(d + k.mu, known)
                             : negative(k.k0 + k.k1 * d, known) + negative(one + k.g * d, known);
  const long n = static_cast<long>(k.n);
  const long stop =
      f_last ? n + 2 : negative(k.k0 + k.k1 * far, known) + negative(one + k.g * far, known);
  // Where p has a root on the real axis its sign is that of neither term: both have to differ.
  if (!(f0 + g0).decided() || !(f2 + g2).decided() || !known) return std::nullopt;
  return n + 2 - (stop - start + 2 * joined);
}

/// Whether the bounds hold; nothing where no precision decides.
std::optional<bool> Holds(const std::string& name, double m, Delay delay, double x, double s,
                          double error) {
  for (ball::precision = kLeastBits; ball::precision <= kMostBits; ball::precision *= 2) {
    const Loop loop = MakeLoop(name, m, delay, x);
    const auto above = CountOutside(loop, Ball(s) + Ball(error));
    const auto below = CountOutside(loop, Ball(s) - Ball(error));
    if (above && below) return *above == 0 && *below > 0;
  }
  return std::nullopt;
}

/// The rate at which two real roots meet, to a few roundings of a double; some rate where none do.
double DoubleRootRate(const Characteristic<double>& p) {
  // x(u) = -z^n u (u + mu) / g(u) has its largest value where two roots meet.
  const auto rate = [&](double u) {
    return -std::exp(p.n * std::log1p(u)) * u * (u + p.one_minus_momentum) /
           ((p.kappa + p.beta * u) * (1 + p.gamma * u));
  };
  double lo = -p.one_minus_momentum, hi = 0;
  lo = std::max(lo, -0.9 / (1 + p.beta + p.gamma));
  for (int i = 0; i < 100; ++i) {
    const double a = lo + (hi - lo) * 0.382, b = lo + (hi - lo) * 0.618;
    (rate(a) < rate(b) ? lo : hi) = rate(a) < rate(b) ? a : b;
  }
  return rate((lo + hi) / 2);
}

double Ulps(double value, int count) {
  const double to = count < 0 ? 0 : 1e300;
  for (int i = 0; i < std::abs(count); ++i) value = std::nextafter(value, to);
  return value;
}

struct Checked {
  std::atomic<int> points = 0, violated = 0, undecided = 0;
};

void CheckRow(const std::string& name, double m, Delay delay, const std::vector<double>& rates,
              Simd simd, Checked& checked) {
  const RuleSpec spec = Spec(name);
  const Track track{MakeCharacteristic<double>(spec, m, delay), &spec, m, delay, rates};
  std::vector<double> s(rates.size()), error(rates.size());
  EvaluateTracks({&track, 1}, {s, error, {}, {}, {}}, simd);
  for (std::size_t j = 0; j < rates.size(); ++j) {
    // Every root is 0, or as good as that: nothing to be told from.
    if (!std::isfinite(s[j])) continue;
    const auto holds = Holds(name, m, delay, rates[j], s[j], error[j]);
    ++checked.points;
    if (!holds) {
      ++checked.undecided;
    } else if (!*holds) {
      ++checked.violated;
    }
  }
}

/// Rows of 20 points by random numbers of their own, on both processors. Half the points are
/// adversarial.
void CheckRule(const std::string& name, int points, Checked& checked) {
  constexpr int kRow = 20;
  std::atomic<int> next = 0;
  const auto work = [&] {
    for (int row; (row = next++) < points / kRow;) {
      std::mt19937_64 engine(static_cast<std::uint64_t>(row) * 977 + name.size());
      std::uniform_real_distribution<double> uniform(0, 1);
      const Delay delay = std::vector<Delay>{0, 1, 2, 4, 16, 66, 336, 10'000'000}[engine() % 8];
      const double v = uniform(engine);
      // Every order of 1 - m, none and all of it.
      const double m = v < 0.05 ? 0 : v < 0.1 ? 1 : 1 - std::pow(10.0, -12 * uniform(engine));
      const auto p = MakeCharacteristic<double>(Spec(name), m, delay);
      std::vector<double> rates;
      const bool adversarial = row % 2 == 1;
      const double cusp = DoubleRootRate(p), edge = CriticalRate(Spec(name), m, delay);
      for (int j = 0; j < kRow; ++j) {
        double x = std::pow(10.0, -8 + 9 * uniform(engine));
        if (!adversarial) {
          x = uniform(engine) < 0.02 ? std::pow(10.0, -60 + 66 * uniform(engine)) : x;
        } else if (j % 2 == 0 && cusp > 0) {
          x = j < 12 ? Ulps(cusp, j - 6) : cusp * (1 + std::pow(10.0, -14 + 12 * uniform(engine)));
        } else if (edge > 0 && std::isfinite(edge)) {
          x = j < 12 ? Ulps(edge, j - 6) : edge * (1 + std::pow(10.0, -14 + 12 * uniform(engine)));
        }
        rates.push_back(std::clamp(x, kMinRate, kMaxRate));
      }
      CheckRow(name, m, delay, rates, row % 4 < 2 ? Simd::kBest : Simd::kScalar, checked);
    }
    flint_cleanup();
  };
  std::jthread other(work);
  work();
}

void CheckBounds(int points) {
  for (const std::string name :
       {"sgdm", "nesterov", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc"}) {
    Checked checked;
    CheckRule(name, points, checked);
    INFO(name << ": " << checked.points << " points, " << checked.undecided << " undecided");
    CHECK(checked.violated == 0);
    // Where a root lies exactly on the circle of a bound no precision tells; hardly ever.
    CHECK(checked.undecided <= checked.points / 1000);
    CHECK(checked.points > 0.9 * points);
  }
}

/// How far around an optimum nothing better is proven: factors of e^0.4 in 1 - m and in the rate.
constexpr double kNeighbourhood = 0.4;

/// A box of ln(1 - m) and ln(x), x the rate at the largest curvature.
struct Box {
  double mu_low, mu_high, x_low, x_high;
};

Ball Between(double low, double high) {
  Ball ball(low);
  arb_t end;
  arb_init(end);
  arb_set_d(end, high);
  arb_union(ball.get(), ball.get(), end, ball::precision);
  arb_clear(end);
  return ball;
}

/// Whether, wherever in the box, some curvature of [1/K, 1] has a root outside |z| = e^s.
bool IsWorse(const std::string& name, Delay delay, double condition, const Box& box,
             const Ball& s) {
  const Ball mu = Between(std::exp(box.mu_low), std::exp(box.mu_high));
  const Ball x = Between(std::exp(box.x_low), std::exp(box.x_high));
  // The ends first, which are what is worst almost everywhere, then near them: where a circle touches
  // a root no count is clear.
  for (const double inwards : {1.0, 0.9998, 0.998, 0.98, 0.88, 0.6}) {
    for (const double curvature : {inwards, 1 / (condition * inwards)}) {
      const auto outside = CountOutside(MakeLoop(name, mu, delay, x * Ball(curvature)), s);
      if (outside && *outside > 0) return true;
    }
  }
  return false;
}

/// Boxes that it took to prove that no momentum and rate of `box` has a half-life below that of s;
/// 0 where that was given up.
int BoxesOfProof(const std::string& name, Delay delay, double condition, const Box& all, double s,
                 int most) {
  ball::precision = 96;
  std::vector<Box> open = {all};
  int boxes = 0;
  while (!open.empty()) {
    const Box box = open.back();
    open.pop_back();
    if (++boxes > most) return 0;
    if (IsWorse(name, delay, condition, box, Ball(s))) continue;
    const bool by_mu = box.mu_high - box.mu_low > box.x_high - box.x_low;
    Box first = box, second = box;
    if (by_mu) {
      first.mu_high = second.mu_low = (box.mu_low + box.mu_high) / 2;
    } else {
      first.x_high = second.x_low = (box.x_low + box.x_high) / 2;
    }
    open.push_back(first);
    open.push_back(second);
  }
  return boxes;
}

}  // namespace

TEST_CASE("Ball arithmetic counts the roots of a quadratic that is solved by hand") {
  // z^2 - (2 - 0.1 - 0.5) z + 0.9 - 0.4: SGDM without delay at m = 0.5 and x = 0.1.
  ball::precision = 128;
  const Loop loop = MakeLoop("sgdm", 0.5, 0, 0.1);
  // The roots are (1.4 +- sqrt(1.96 - 2)) / 2, of modulus sqrt(0.5).
  CHECK(CountOutside(loop, Ball(std::log(0.5) / 2 + 1e-9)) == 0);
  CHECK(CountOutside(loop, Ball(std::log(0.5) / 2 - 1e-9)) == 2);
  // A bound that does not hold is seen.
  CHECK(Holds("sgdm", 0.5, 0, 0.1, std::log(0.5) / 2, 1e-9) == true);
  CHECK(Holds("sgdm", 0.5, 0, 0.1, std::log(0.5) / 2 + 1e-8, 1e-9) == false);
  CHECK(Holds("sgdm", 0.5, 0, 0.1, std::log(0.5) / 2 - 1e-8, 1e-9) == false);
}

TEST_CASE("No bound is violated on three thousand points a rule, adversarial ones among them") {
  CheckBounds(3000);
}

TEST_CASE("No bound is violated on a hundred thousand points a rule, adversarial ones among them",
          "[.long]") {
  CheckBounds(100'000);
}

TEST_CASE("No momentum and rate around the optimum beats it by more than 0.1 %") {
  struct Case {
    std::string rule;
    Delay delay;
    double condition;
  };
  const Case c = GENERATE(values<Case>({{"sgdm", 0, 10},
                                        {"sgdm", 0, 1000},
                                        {"sgdm", 1, 10},
                                        {"sc", 1, 10},
                                        {"sc", 4, 10},
                                        {"lwp-v", 1, 10},
                                        {"lwp-v", 1, 1000},
                                        {"lwp-v", 4, 10},
                                        {"lwp-v", 4, 1000},
                                        {"lwp-v+sc", 1, 1000},
                                        {"lwp-v+sc", 4, 1000},
                                        {"lwp-w+sc", 1, 1000},
                                        {"lwp-w+sc", 4, 1000}}));
  CAPTURE(c.rule, c.delay, c.condition);
  const Optimum optimum = FindOptimum({Spec(c.rule), c.delay, c.condition, std::nullopt});
  const double mu = std::log1p(-optimum.momentum), x = std::log(optimum.rate);
  const Box all{mu - kNeighbourhood, std::min(0.0, mu + kNeighbourhood), x - kNeighbourhood,
                x + kNeighbourhood};
  CHECK(BoxesOfProof(c.rule, c.delay, c.condition, all, 1.001 * optimum.worst.log_radius, 100000) >
        0);
  flint_cleanup();
}

TEST_CASE("A half-life that is attained is not proven to be impossible") {
  const Optimum optimum = FindOptimum({Spec("sc"), 1, 10, std::nullopt});
  const Box near{std::log1p(-optimum.momentum) - 0.01, std::log1p(-optimum.momentum) + 0.01,
                 std::log(optimum.rate) - 0.01, std::log(optimum.rate) + 0.01};
  CHECK(BoxesOfProof("sc", 1, 10, near, 0.999 * optimum.worst.log_radius, 3000) == 0);
}

}  // namespace batchless::analysis
