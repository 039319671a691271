#include "pipeline_spectrum.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/spectral_radius.h"
#include "decompositions.h"
#include "rule_state.h"

namespace batchless::analysis {
namespace {

using Complex = std::complex<double>;
using Eigen::Index;
using Eigen::MatrixXcd;
using Eigen::MatrixXd;
using Eigen::VectorXcd;
using Eigen::VectorXd;

// A polynomial and its derivative, highest power first.
std::pair<Complex, Complex> Horner(const std::vector<double>& coefficients, Complex z) {
  Complex value = 0, slope = 0;
  for (const double c : coefficients) {
    slope = slope * z + value;
    value = value * z + c;
  }
  return {value, slope};
}

/// psi(z) = lead f z^-D of every weight of a part, and its derivative:
///   lead = (a + b) z - b m,   f = 1,  1 + T (z - 1)/lead  or  1 + T (1 - 1/z),
/// over (z - 1) cofactor, cofactor = z - m. With the rule `linear` the lead is N, and the cofactor D / (z - 1).
class Loops {
 public:
  Loops(const PipelineOptions& options, const std::vector<PipelineSpectrum::Lateness>& late)
      : options_(options) {
    // Neighbours mostly share a delay.
    for (const PipelineSpectrum::Lateness& own : late) {
      if (kinds_.empty() || !(kinds_.back().late == own)) {
        const auto c = ComputeCoefficients<double>(own.rule, options.momentum, own.delay);
        kinds_.push_back({own, 0, {c.a + c.b, -c.b * options.momentum}, c.horizon});
        if (is_linear()) kinds_.back().lead = options.rule.options.numerator;
      }
      ++kinds_.back().width;
    }
    size_ = static_cast<Index>(late.size());
    if (!is_linear()) {
      cofactor_ = {1, -options.momentum};
      return;
    }
    double carried = 0;
    for (const double d : options.rule.options.denominator) cofactor_.push_back(carried += d);
    cofactor_.pop_back();
  }

  void Evaluate(Complex z, VectorXcd& psi, VectorXcd& derivative) const {
    psi.resize(size_);
    derivative.resize(size_);
    const Complex log_z = std::log(z);
    Index begin = 0;
    for (const Kind& kind : kinds_) {
      auto [value, slope] = Horner(kind.lead, z);
      if (options_.rule.rule.prediction == Prediction::kVelocity) {
        value += kind.horizon * (z - 1.0);
        slope += kind.horizon;
      } else if (options_.rule.rule.prediction == Prediction::kWeight) {
        slope = slope * (1.0 + kind.horizon * (1.0 - 1.0 / z)) + value * kind.horizon / (z * z);
        value *= 1.0 + kind.horizon * (1.0 - 1.0 / z);
      }
      const auto delay = static_cast<double>(kind.late.delay);
      const Complex late = std::exp(-delay * log_z);
      psi.segment(begin, kind.width).setConstant(value * late);
      derivative.segment(begin, kind.width).setConstant((slope - delay * value / z) * late);
      begin += kind.width;
    }
  }

  /// (z - 1) cofactor, which is exact near 1, and its derivative.
  Complex Open(Complex z) const { return (z - 1.0) * Horner(cofactor_, z).first; }
  Complex OpenSlope(Complex z) const {
    if (!is_linear()) return 2.0 * z - 1.0 - options_.momentum;
    const auto [value, slope] = Horner(cofactor_, z);
    return value + (z - 1.0) * slope;
  }
  /// How fast a root leaves 1: it is 1 - pull x for a small loop of gain x.
  double Pull() const {
    return Horner(kinds_.front().lead, 1).first.real() / Horner(cofactor_, 1).first.real();
  }
  /// Roots of (z - 1)(z - m) + x, or D + x N: those of a loop without a delay, but for what mitigates it.
  std::vector<Complex> Undelayed(double x) const {
    if (!is_linear()) {
      const double sum = 1 + options_.momentum;
      const Complex apart = std::sqrt(Complex(sum * sum / 4 - options_.momentum - x));
      return {sum / 2 + apart, sum / 2 - apart};
    }
    const auto order = static_cast<Index>(cofactor_.size());
    MatrixXd update = MatrixXd::Zero(order, order);
    Eigen::RowVectorXd weight = Eigen::RowVectorXd::Zero(order);
    weight[0] = x;
    LinearUpdate(options_.rule, weight, 0, 1, update);
    const VectorXcd roots = EigenpairsOf(update).values;
    return {roots.begin(), roots.end()};
  }

 private:
  bool is_linear() const { return options_.rule.is_linear(); }

  struct Kind {
    PipelineSpectrum::Lateness late;
    Index width;
    std::vector<double> lead;  // highest power first
    double horizon;
  };
  const PipelineOptions& options_;
  std::vector<Kind> kinds_;
  std::vector<double> cofactor_;
  Index size_ = 0;
};

using Root = PipelineSpectrum::Root;

// Newton's steps end where they are this small against 1, or where |z| is known this well against
// its distance from 1 after so many: at a double root they only halve the error.
constexpr double kConverged = 1e-14;
constexpr int kNewtonSteps = 40;
constexpr double kSlowlyConverged = 1e-6;
// Steps that halved lead no further than one of them; Newton's method may yet leave for another root.
constexpr double kReach = 4;

// Newton steps on the scalar equations end below the one, and are given up above the other.
constexpr double kRoughlyConverged = 1e-6;
constexpr double kLongStep = 3;
constexpr int kStarts = 8;
constexpr double kSameRoot = 1e-3;
constexpr double kSweepStep = 0.3;
constexpr Index kThreadedSize = 32;
// A loop's gain at a point that a root can be near, between the points of a sweep, where it is 1.
constexpr double kLeastGain = 0.3;
constexpr double kLeastGainQuick = 0.6;
constexpr double kLeastGainOfLoop = 0.2;
constexpr double kMostGain = 2;
constexpr double kRadiusGrowth = 1.5;
constexpr int kGainSteps = 3;
constexpr double kFarthest = 1e12;
constexpr double kNearOne = 1e-10;
// Candidates that are followed further, and how often a root's neighbourhood is searched for a larger.
constexpr std::size_t kPolished = 8;
constexpr int kRounds = 4;
// Roots looked for near a point, and the steps that part their eigenvectors from the others.
constexpr Index kNeighbours = 16;
constexpr int kBlockSteps = 5;
constexpr double kBeside = 1e-6;
constexpr double kWorse = 1;
constexpr double kMomentumStep = 1e-6;

bool IsKnown(Complex z, double change) {
  return change <= kSlowlyConverged * std::abs(std::log(std::abs(z)));
}

}  // namespace

PipelineSpectrum::PipelineSpectrum(const PipelineOptions& options, std::size_t most_coupled)
    : options_(options) {
  const Index size = options.hessian.rows();
  std::vector<Lateness> late;
  for (std::size_t s = 0; s < options.delays.size(); ++s) {
    late.insert(late.end(), options.widths[s], {options.delays[s], options.RuleOf(s)});
  }
  std::vector<bool> seen(late.size());
  for (Index first = 0; first < size; ++first) {
    if (seen[static_cast<std::size_t>(first)]) continue;
    std::vector<Index> members = {first};
    seen[static_cast<std::size_t>(first)] = true;
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (Index j = first; j < size; ++j) {
        if (seen[static_cast<std::size_t>(j)] || options.hessian(members[i], j) == 0) continue;
        seen[static_cast<std::size_t>(j)] = true;
        members.push_back(j);
      }
    }
    std::sort(members.begin(), members.end());
    Part part;
    part.hessian = options.hessian(members, members);
    for (const Index i : members) part.late.push_back(late[static_cast<std::size_t>(i)]);
    const bool same = std::all_of(part.late.begin(), part.late.end(),
                                  [&](const Lateness& own) { return own == part.late[0]; });
    RefuseIf(
        !same && part.late.size() > most_coupled, "delays",
        "coupled weights of several delays, " + std::to_string(part.late.size()) + " of them",
        "at most " + std::to_string(most_coupled) + "; fewer stages, or weights that do not meet");
    auto [values, vectors] = SymmetricEigenpairsOf(part.hessian);
    part.eigenvalues = values;
    // What is left of a 0 by rounding.
    const double rounding = std::numeric_limits<double>::epsilon() *
                            static_cast<double>(members.size()) *
                            part.eigenvalues.cwiseAbs().maxCoeff();
    part.eigenvalues = (part.eigenvalues.array().abs() <= rounding).select(0, part.eigenvalues);
    if (same) {
      for (const double eigenvalue : part.eigenvalues) {
        scalars_.emplace_back(part.late[0], eigenvalue);
      }
    } else {
      part.eigenvectors = std::move(vectors);
      part.shares = part.eigenvectors.cwiseAbs2();
      parts_.push_back(std::move(part));
    }
  }
}

namespace {

/// M(z) w = 0 of one part, M(z) = (z - 1)(z - m) I + eta H diag(psi(z)).
class WeightProblem {
 public:
  WeightProblem(const PipelineOptions& options, const MatrixXd& hessian, const Loops& loops)
      : eta_(options.learning_rate), hessian_(hessian), loops_(loops) {}

  /// Newton's method by inverse iteration: u = M^-1 M' w,  z <- z - w'w / w'u,  w <- u / |u|. Nothing
  /// where it does not converge, or where steps that shrink no longer lead to |z| >= `least`.
  std::optional<Root> Polish(Root root, double least) const {
    MatrixXcd matrix;
    VectorXcd psi, slope, right;
    double change = kFarStep;
    for (int i = 0; i < kNewtonSteps; ++i) {
      loops_.Evaluate(root.z, psi, slope);
      MakeMatrix(root.z, psi, matrix);
      right = hessian_ * (eta_ * slope.cwiseProduct(root.weights));
      right += loops_.OpenSlope(root.z) * root.weights;
      const VectorXcd u = Solve(matrix, right);
      const Complex step = root.weights.squaredNorm() / root.weights.dot(u);
      // M is singular to the last bit.
      if (!std::isfinite(std::abs(step)) || !u.allFinite()) break;
      root.z -= step;
      root.weights = u.normalized();
      const double before = change;
      change = std::abs(step);
      if (change > kFarStep) return std::nullopt;
      if (change <= kConverged) break;
      if (change < before / 2 && std::abs(root.z) + kReach * change < least) return std::nullopt;
    }
    if (change > kConverged && !IsKnown(root.z, change)) return std::nullopt;
    return root;
  }

  /// Roots near a point to first order. M(z) x = mu x with mu near 0 is the Hessian's eigenvalue k of
  /// H diag(psi) that takes part in the scalar equation mu(z) = (z - 1)(z - m) + eta k(z) = 0. H is
  /// symmetric, so that diag(psi) x is the left eigenvector where x is the right one:
  /// k' = k x' diag(psi') x / x' diag(psi) x, the first dash of a quantity its derivative, that of x its
  /// transpose. The least mu come from inverse iteration on a block of vectors, a little beside the point,
  /// since M is singular at a root.
  std::vector<Root> Neighbours(Complex point) const {
    const Complex z = point + kBeside * (point - 1.0);
    VectorXcd psi, slope;
    loops_.Evaluate(z, psi, slope);
    MatrixXcd matrix;
    MakeMatrix(z, psi, matrix);
    const MatrixXcd basis =
        NearestToZero(matrix, std::min(matrix.rows(), kNeighbours), kBlockSteps);
    const auto [values, vectors] = EigenpairsOf(MatrixXcd(basis.adjoint() * matrix * basis));
    std::vector<Root> roots;
    for (Index j = 0; j < values.size(); ++j) {
      const VectorXcd x = basis * vectors.col(j);
      const Complex mu = values[j];
      const VectorXcd squares = x.array().square();
      const Complex k_slope =
          (mu - loops_.Open(z)) * (squares.transpose() * slope)(0) / (squares.transpose() * psi)(0);
      const Complex step = -mu / (loops_.OpenSlope(z) + k_slope);
      // Not where left and right eigenvector are orthogonal, at a multiple eigenvalue.
      if (std::isfinite(std::abs(step))) roots.push_back({z + step, x});
    }
    return roots;
  }

 private:
  static constexpr double kFarStep = 10;

  // M(z), psi that at z.
  void MakeMatrix(Complex z, const VectorXcd& psi, MatrixXcd& matrix) const {
    matrix = hessian_ * psi.asDiagonal() * eta_;
    matrix.diagonal().array() += loops_.Open(z);
  }

  double eta_;
  const MatrixXd& hessian_;
  const Loops& loops_;
};

bool IsLarger(const Root& a, const Root& b) { return std::abs(a.z) > std::abs(b.z); }

}  // namespace

double PipelineSpectrum::CoupledRadius(const Part& part, std::vector<Root>& known,
                                       Search search) const {
  PipelineOptions state{.rule = options_.rule,
                        .momentum = options_.momentum,
                        .learning_rate = options_.learning_rate,
                        .hessian = part.hessian,
                        .delays = {},
                        .widths = std::vector<std::size_t>(part.late.size(), 1)};
  for (const Lateness& own : part.late) {
    state.delays.push_back(own.delay);
    if (!options_.horizons.empty()) state.horizons.push_back(*own.rule.options.horizon);
  }
  if (StateDimension(state) <= kDenseStateDimension) {
    return SpectralRadiusOf(StateMatrix(state));
  }
  const Loops loops(options_, part.late);
  const auto size = static_cast<Index>(part.late.size());
  const double mean = std::accumulate(state.delays.begin(), state.delays.end(), 0.0) /
                      static_cast<double>(state.delays.size());
  const double spacing = std::numbers::pi / std::max(1.0, mean / 3);
  std::vector<Root> candidates;
  VectorXcd psi, slope;
  // Points of the circle as close as a mean delay parts roots, and the gain there of each eigenvector's loop.
  std::vector<std::pair<Complex, VectorXd>> circle;
  for (int k = 1; k <= kStarts; ++k) {
    const Complex z = std::polar(1.0, k * spacing / kStarts);
    loops.Evaluate(z, psi, slope);
    circle.emplace_back(
        z, (part.shares.transpose() * psi).cwiseAbs().cwiseProduct(part.eigenvalues.cwiseAbs()) *
               (options_.learning_rate / std::abs(loops.Open(z))));
  }
  for (Index j = 0; j < size; ++j) {
    const double x = options_.learning_rate * part.eigenvalues[j];
    const std::size_t begin = candidates.size();
    const auto start_at = [&](Complex z) {
      double change = 1;
      for (int i = 0; i < kNewtonSteps && change > kRoughlyConverged; ++i) {
        loops.Evaluate(z, psi, slope);
        const auto shares = part.shares.col(j);
        const Complex value = loops.Open(z) + x * (shares.transpose() * psi)(0);
        const Complex step = value / (loops.OpenSlope(z) + x * (shares.transpose() * slope)(0));
        change = std::abs(step);
        if (!(change < kLongStep)) return;
        z -= step;
      }
      if (!(change <= kRoughlyConverged)) return;
      if (z.imag() < 0) z = std::conj(z);
      for (std::size_t k = begin; k < candidates.size(); ++k) {
        if (std::abs(candidates[k].z - z) < kSameRoot * std::abs(z - 1.0)) return;
      }
      candidates.push_back({z, part.eigenvectors.col(j).cast<Complex>()});
    };
    // The roots without a delay, and points of the circle near which there can be one.
    for (const Complex& root : loops.Undelayed(x)) start_at(root);
    for (const auto& [z, gains] : circle) {
      if (gains[j] > kLeastGainOfLoop) start_at(z);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(), IsLarger);
  candidates.resize(std::min<std::size_t>(candidates.size(), kPolished));
  candidates.insert(candidates.begin(), known.begin(), known.end());

  const WeightProblem problem(options_, part.hessian, loops);
  const auto launch = size < kThreadedSize ? std::launch::deferred : std::launch::async;
  Root best{0, {}};
  std::vector<Root> found;
  // All from the same knowledge, so that it does not matter which of them ends first.
  const auto polish = [&](const std::vector<Root>& from) {
    std::vector<std::future<std::optional<Root>>> roots;
    for (const Root& root : from) {
      if (std::any_of(found.begin(), found.end(), [&](const Root& other) {
            return std::abs(other.z - root.z) < kSameRoot * std::abs(other.z - 1.0);
          })) {
        continue;
      }
      roots.push_back(std::async(launch, [&problem, &root, least = std::abs(best.z)] {
        return problem.Polish(root, least);
      }));
    }
    for (auto& future : roots) {
      const std::optional<Root> root = future.get();
      if (!root) continue;
      found.push_back(*root);
      if (IsLarger(*root, best)) best = *root;
    }
  };
  polish(candidates);
  if (search == Search::kNone && best.z != 0.0) return std::abs(best.z);
  // At higher frequencies stages' loops differ too much for the Hessian's eigenvectors. No root is
  // outside the circle where no loop has a gain.
  const auto polish_larger = [&](Complex z, std::vector<Root> near) {
    const double before = std::log(std::abs(best.z));
    std::erase_if(near, [&](const Root& other) {
      return std::abs(other.z - z) > std::max(std::abs(z - 1.0), 1 / (mean + 1)) ||
             std::log(std::abs(other.z)) - before <= -kWorse * std::abs(before);
    });
    std::stable_sort(near.begin(), near.end(), IsLarger);
    near.resize(std::min<std::size_t>(near.size(), kPolished));
    polish(near);
    return std::log(std::abs(best.z)) > before + 1e-9 * std::abs(before);
  };
  const MatrixXd root_of_hessian = part.eigenvectors *
                                   part.eigenvalues.cwiseAbs().cwiseSqrt().asDiagonal() *
                                   part.eigenvectors.transpose();
  const double largest = part.eigenvalues.cwiseAbs().maxCoeff();
  const double least_gain = search == Search::kThorough ? kLeastGain : kLeastGainQuick;
  // From one point of a sweep to the next the vector hardly turns.
  VectorXcd v = VectorXcd::Ones(size).normalized();
  const auto gain = [&](Complex z) {
    loops.Evaluate(z, psi, slope);
    const double scale = options_.learning_rate / std::abs(loops.Open(z));
    const double most = scale * largest * psi.cwiseAbs().maxCoeff();
    if (most < least_gain) return most;
    double norm = 0;
    for (int i = 0; i < kGainSteps; ++i) {
      v = root_of_hessian * psi.cwiseProduct(root_of_hessian * v);
      v = root_of_hessian * psi.conjugate().cwiseProduct(root_of_hessian * v);
      norm = std::sqrt(v.norm());
      if (norm == 0) break;
      v.normalize();
    }
    if (norm == 0) v = VectorXcd::Ones(size).normalized();
    return scale * norm;
  };
  std::vector<double> angles;
  for (double angle = spacing / 16; angle < std::numbers::pi;
       angle += std::min(angle, spacing * kSweepStep)) {
    angles.push_back(angle);
  }
  angles.push_back(std::numbers::pi);
  // Whether it found a larger root: others may be near that are larger still.
  const auto sweep = [&] {
    std::vector<std::pair<Complex, std::future<std::vector<Root>>>> searches;
    for (const double angle : angles) {
      // Nothing below the largest root found counts. From there outwards, as far as gains are large, in
      // steps that suit the distance from 1, about the open loop's poles.
      double radius = std::max(1.0, std::abs(best.z));
      double here = gain(std::polar(radius, angle));
      if (here < least_gain) continue;
      for (double step = std::min(angle, spacing) / 8; here > kMostGain && radius < kFarthest;
           step *= kRadiusGrowth) {
        radius += step;
        here = gain(std::polar(radius, angle));
      }
      const Complex around = std::polar(radius, angle);
      searches.emplace_back(around,
                            std::async(launch, [&, around] { return problem.Neighbours(around); }));
    }
    bool is_larger = false;
    for (auto& [around, roots] : searches) is_larger |= polish_larger(around, roots.get());
    return is_larger;
  };
  for (int round = 0; round < kRounds && sweep(); ++round) continue;
  if (best.z == 0.0 && HasRootAtOne(part)) return 1;
  if (best.z == 0.0) throw std::runtime_error("no eigenvalue of the pipeline was found");
  for (int round = 0; round < kRounds; ++round) {
    if (!polish_larger(best.z, problem.Neighbours(best.z))) break;
  }
  std::stable_sort(found.begin(), found.end(), IsLarger);
  known.clear();
  for (Root& root : found) {
    if (known.size() == kPolished) break;
    if (known.empty() || std::abs(known.back().z - root.z) >= kConverged * std::abs(root.z)) {
      known.push_back(std::move(root));
    }
  }
  return std::abs(best.z);
}

bool PipelineSpectrum::HasRootAtOne(const Part& part) const {
  const double rounding =
      std::numeric_limits<double>::epsilon() / std::abs(Loops(options_, part.late).Pull());
  return (options_.learning_rate * part.eigenvalues.array().abs() < std::max(kMinRate, rounding))
      .any();
}

double PipelineSpectrum::ScalarRadius(const Lateness& late, double eigenvalue) const {
  const double rate = options_.learning_rate * eigenvalue;
  if (std::abs(rate) < kMinRate) return 1;
  if (rate > kMaxRate) {
    throw InvalidArgument("learning_rate", options_.learning_rate,
                          "at most " + ToText(kMaxRate / eigenvalue) + ", a rate of " +
                              ToText(kMaxRate) + " at the eigenvalue " + ToText(eigenvalue));
  }
  if (rate > 0) {
    return ComputeSpectralRadius(late.rule, options_.momentum, late.delay, rate).radius;
  }
  const MatrixXd one = MatrixXd::Ones(1, 1);
  std::vector<Root> known;
  return CoupledRadius({eigenvalue * one, {late}, eigenvalue * VectorXd::Ones(1), one, one}, known,
                       Search::kThorough);
}

std::vector<PipelineSpectrum::Slope> PipelineSpectrum::Slopes(const Roots& known) const {
  std::vector<Slope> slopes;
  if (!scalars_.empty()) return slopes;
  // The slope of psi in m as a difference, towards the momenta that there are.
  const double step = kMomentumStep * (1 - options_.momentum);
  PipelineOptions beside = options_;
  beside.momentum += step;
  VectorXcd psi, slope, psi_beside, unused;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const Loops loops(options_, parts_[p].late);
    const Loops loops_beside(beside, parts_[p].late);
    if (known[p].empty()) return {};
    for (const Root& root : known[p]) {
      loops.Evaluate(root.z, psi, slope);
      loops_beside.Evaluate(root.z, psi_beside, unused);
      const VectorXcd squares = root.weights.array().square();
      const auto sum = [&](const VectorXcd& of) { return (squares.transpose() * of)(0); };
      // H is symmetric, so that psi w is the left vector u of M, and u' eta H = -(z - 1)(z - m) w'.
      const Complex open = loops.Open(root.z);
      const Complex along = loops.OpenSlope(root.z) * sum(psi) - open * sum(slope);
      const Complex by_rate = open * sum(psi) / along;
      const Complex by_momentum =
          ((root.z - 1.0) * sum(psi) + open * sum(psi_beside - psi) / step) / along;
      slopes.push_back({std::log(std::abs(root.z)),
                        -(1 - options_.momentum) * (by_momentum / root.z).real(),
                        (by_rate / root.z).real()});
    }
  }
  return slopes;
}

double PipelineSpectrum::Radius(Roots& known, Search search) const {
  known.resize(parts_.size());
  double radius = 0;
  for (const auto& [late, eigenvalue] : scalars_) {
    radius = std::max(radius, ScalarRadius(late, eigenvalue));
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const Part& part = parts_[p];
    const double coupled = CoupledRadius(part, known[p], search);
    // With a singular Hessian 1 is a root, of which an iteration finds some rounding.
    const bool at_one = HasRootAtOne(part) && coupled < 1 + kNearOne;
    radius = std::max(radius, at_one ? 1 : coupled);
  }
  return radius;
}

}  // namespace batchless::analysis
