#include "batchless/analysis/pipeline_stability.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/characteristic.h"
#include "batchless/analysis/rates.h"
#include "decompositions.h"
#include "not_finite.h"
#include "pipeline_spectrum.h"
#include "rule_state.h"

namespace batchless::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// The simplex method ends where its corners agree this closely in ln rho and lie this close together,
// and takes few steps there.
constexpr double kFlat = 3e-4;
constexpr double kSmall = 0.02;
constexpr int kSimplexSteps = 60;
constexpr double kLeastLogDamping = -28;
// Steps by slopes: the first one's size, and where they end.
constexpr double kFirstReach = 0.1;
constexpr double kLeastReach = 1e-5;
constexpr double kNoGain = 1e-5;
constexpr int kDescentSteps = 40;
// Where an optimum is looked at from, and how often it is begun anew.
constexpr double kProbe = 1e-3;
constexpr int kBeginnings = 4;
constexpr double kMostCondition = 1e9;

// Largest |H - H'| relative to the largest |H| that counts as symmetric: what rounding leaves of a
// matrix product or of a file with a dozen digits.
constexpr double kAsymmetryTolerance = 1e-10;

// Entries of the state for one weight of a stage, beside its D predictions: w_i, v_i and for the weight form
// w_{i-1}, or those of the rule `linear`.
std::size_t OwnEntries(const RuleSpec& rule) {
  if (rule.is_linear()) return rule.options.denominator.size() - 1;
  return rule.rule.prediction == Prediction::kWeight ? 3 : 2;
}

void CheckHessian(const MatrixXd& hessian) {
  const std::string shape = std::to_string(hessian.rows()) + "x" + std::to_string(hessian.cols());
  RefuseIf(hessian.rows() != hessian.cols() || hessian.rows() == 0, "hessian", shape,
           "a square matrix");
  RefuseIf(!hessian.allFinite(), "hessian", "entries that are not finite", "finite entries");
  const double asymmetry = (hessian - hessian.transpose()).cwiseAbs().maxCoeff();
  RefuseIf(asymmetry > kAsymmetryTolerance * hessian.cwiseAbs().maxCoeff(), "hessian",
           "an asymmetry of " + ToText(asymmetry), "a symmetric matrix");
}

// Where the parts of one stage's state begin.
struct Layout {
  Index width;
  Index hessian;      // first row of the stage in the Hessian
  Index weight;       // w_i
  Index previous;     // w_{i-1}, of the weight form
  Index predictions;  // w_hat_{i-1}
  Index delay;
  Coefficients<double> coefficients = {};  // but of the rule `linear`
};

std::vector<Layout> Layouts(const PipelineOptions& options) {
  std::vector<Layout> layouts;
  Index hessian = 0;
  Index state = 0;
  for (std::size_t s = 0; s < options.delays.size(); ++s) {
    Layout layout;
    layout.width = static_cast<Index>(options.widths[s]);
    layout.hessian = hessian;
    layout.weight = state;
    layout.previous = layout.weight + 2 * layout.width;
    layout.predictions = state + static_cast<Index>(OwnEntries(options.rule)) * layout.width;
    layout.delay = static_cast<Index>(options.delays[s]);
    if (!options.rule.is_linear()) {
      layout.coefficients =
          ComputeCoefficients<double>(options.RuleOf(s), options.momentum, options.delays[s]);
    }
    layouts.push_back(layout);
    hessian += layout.width;
    state = layout.predictions + layout.delay * layout.width;
  }
  return layouts;
}

MatrixXd PredictionRows(const PipelineOptions& options, const Layout& stage, Index dimension) {
  return PredictionRows(options.rule, stage.coefficients.horizon, options.learning_rate,
                        stage.weight, stage.width, dimension);
}

using Point = std::array<double, 2>;  // ln(1 - m), ln(eta)

// The step between two bounds that makes the largest of functions of these slopes least, and that value. It
// is a corner of the bounds, where two of the functions are equal at a bound, or three anywhere.
std::pair<Point, double> LeastOfLargest(const std::vector<PipelineSpectrum::Slope>& slopes,
                                        const Point& lowest, const Point& highest) {
  std::pair<Point, double> best{{0, 0}, kInfinity};
  const auto consider = [&](const Point& at) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (!(at[i] >= lowest[i] && at[i] <= highest[i])) return;
    }
    double largest = -kInfinity;
    for (const auto& s : slopes) {
      largest = std::max(largest, s.value + s.by_damping * at[0] + s.by_rate * at[1]);
    }
    if (largest < best.second) best = {at, largest};
  };
  // Lines a x + b y = c.
  struct Line {
    double a, b, c;
  };
  const std::array<Line, 4> bounds = {Line{1, 0, lowest[0]}, Line{1, 0, highest[0]},
                                      Line{0, 1, lowest[1]}, Line{0, 1, highest[1]}};
  std::vector<Line> lines(bounds.begin(), bounds.end());
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      lines.push_back({slopes[i].by_damping - slopes[j].by_damping,
                       slopes[i].by_rate - slopes[j].by_rate, slopes[j].value - slopes[i].value});
    }
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double area = lines[i].a * lines[j].b - lines[j].a * lines[i].b;
      Point at = {(lines[i].c * lines[j].b - lines[j].c * lines[i].b) / area,
                  (lines[i].a * lines[j].c - lines[j].a * lines[i].c) / area};
      // On a bound to the last bit.
      if (j < bounds.size()) {
        const Line& bound = bounds[j];
        at[bound.a == 0 ? 1 : 0] = bound.c;
        if (i < bounds.size()) at[bounds[i].a == 0 ? 1 : 0] = bounds[i].c;
      }
      consider(at);
    }
  }
  return best;
}

}  // namespace

RuleSpec PipelineOptions::RuleOf(std::size_t stage) const {
  if (horizons.empty()) return rule;
  RuleSpec spec{FindRule("lwp-v"), {}};
  spec.options.horizon = horizons[stage];
  return spec;
}

void Validate(const PipelineOptions& options) {
  Validate(options.rule, options.momentum);
  CheckNumber("learning_rate", options.learning_rate, 0, kMaxRate);
  CheckHessian(options.hessian);
  RefuseIf(options.delays.empty(), "delays", "0", "at least one stage");
  for (const Delay delay : options.delays) CheckDelay(delay);
  const std::size_t horizons = options.rule.rule.predicts_by_schedule() ? options.delays.size() : 0;
  RefuseIf(options.horizons.size() != horizons, "horizons",
           std::to_string(options.horizons.size()) + " horizons",
           horizons == 0 ? "none but with spectrain and xpipe"
                         : "one for each of " + std::to_string(horizons) + " stages");
  for (const double horizon : options.horizons) {
    RefuseIf(!(horizon >= 0 && horizon <= kMaxCoefficient), "horizons", horizon,
             "numbers from 0 to " + ToText(kMaxCoefficient));
  }
  RefuseIf(options.widths.size() != options.delays.size(), "widths",
           std::to_string(options.widths.size()) + " widths",
           "one for each of " + std::to_string(options.delays.size()) + " stages");
  const auto size = static_cast<std::size_t>(options.hessian.rows());
  std::size_t sum = 0;
  for (const std::size_t width : options.widths) {
    RefuseIf(width == 0 || width > size, "widths", std::to_string(width),
             "an integer from 1 to " + std::to_string(size));
    sum += width;
  }
  RefuseIf(sum != size, "widths", "a sum of " + std::to_string(sum),
           "the size of the Hessian, " + std::to_string(size));
  RefuseIf(size > kMaxPipelineWeights, "hessian", std::to_string(size) + " weights",
           "at most " + std::to_string(kMaxPipelineWeights));
}

VectorXd HessianEigenvalues(const MatrixXd& hessian) {
  CheckHessian(hessian);
  return SymmetricEigenpairsOf(hessian).values;
}

std::size_t StateDimension(const PipelineOptions& options) {
  std::size_t dimension = 0;
  for (std::size_t s = 0; s < options.delays.size(); ++s) {
    dimension += options.widths[s] *
                 (OwnEntries(options.rule) + static_cast<std::size_t>(options.delays[s]));
  }
  return dimension;
}

MatrixXd StateMatrix(const PipelineOptions& options) {
  Validate(options);
  const std::vector<Layout> stages = Layouts(options);
  const auto dimension = static_cast<Index>(StateDimension(options));
  RefuseIf(dimension > static_cast<Index>(kMaxStateDimension), "delays",
           "a state of dimension " + std::to_string(dimension),
           "at most " + std::to_string(kMaxStateDimension) +
               "; fewer stages, shorter delays or fewer weights");
  const Index size = options.hessian.rows();

  // The forward weights that gradient i is taken at, as rows over the state: those of D_k updates
  // ago, which is the oldest prediction kept, or without delay today's.
  MatrixXd forward = MatrixXd::Zero(size, dimension);
  for (const Layout& stage : stages) {
    if (stage.delay == 0) {
      forward.middleRows(stage.hessian, stage.width) = PredictionRows(options, stage, dimension);
    } else {
      const Index oldest = stage.predictions + (stage.delay - 1) * stage.width;
      forward.block(stage.hessian, oldest, stage.width, stage.width).setIdentity();
    }
  }
  const MatrixXd gradient = options.hessian * forward;

  MatrixXd matrix = MatrixXd::Zero(dimension, dimension);
  for (const Layout& stage : stages) {
    const auto g = gradient.middleRows(stage.hessian, stage.width);
    OwnUpdate(options.rule, stage.coefficients, options.momentum, options.learning_rate, g,
              stage.weight, stage.width, matrix);
    if (options.rule.rule.prediction == Prediction::kWeight) {
      matrix.block(stage.previous, stage.weight, stage.width, stage.width).setIdentity();
    }
    if (stage.delay > 0) {
      matrix.middleRows(stage.predictions, stage.width) = PredictionRows(options, stage, dimension);
      const Index kept = (stage.delay - 1) * stage.width;
      matrix.block(stage.predictions + stage.width, stage.predictions, kept, kept).setIdentity();
    }
  }
  return matrix;
}

PipelineSummary PipelineStability(const PipelineOptions& options) {
  Validate(options);
  PipelineSpectrum::Roots known;
  return {PipelineSpectrum(options, kMaxCoupledWeights).Radius(known), StateDimension(options)};
}

PipelineOptimum FindPipelineOptimum(PipelineOptions options) {
  options.momentum = 0;
  options.learning_rate = 0;
  Validate(options);
  RefuseLinear(options.rule);
  struct Vertex {
    Point at;
    double radius;
    bool operator<(const Vertex& other) const { return radius < other.radius; }
  };
  const PipelineSpectrum spectrum(options, kMaxCoupledWeightsOfOptimum);
  PipelineSpectrum::Roots known;
  const auto move_to = [&](Point& at) {
    at[0] = std::clamp(at[0], kLeastLogDamping, 0.0);
    at[1] = std::min(at[1], std::log(kMaxRate));
    options.momentum = 0 - std::expm1(at[0]);
    options.learning_rate = std::min(std::exp(at[1]), kMaxRate);
  };
  const auto evaluate_known = [&](Point at) {
    move_to(at);
    return Vertex{at, spectrum.RadiusFrom(known)};
  };
  const auto evaluate_all = [&](Point at) {
    move_to(at);
    return Vertex{at, spectrum.Radius(known, PipelineSpectrum::Search::kQuick)};
  };
  const auto mix = [](const Point& a, const Point& b, double t) {
    return Point{a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])};
  };
  const auto search = [&](const Point& start) {
    evaluate_all(start);
    std::array<Vertex, 3> simplex = {evaluate_known(start),
                                     evaluate_known({start[0], start[1] - 0.5}),
                                     evaluate_known({start[0] - 0.4, start[1]})};
    for (int step = 0; step < kSimplexSteps; ++step) {
      std::sort(simplex.begin(), simplex.end());
      const double best = std::log(simplex[0].radius);
      const double size = std::abs(simplex[2].at[0] - simplex[0].at[0]) +
                          std::abs(simplex[2].at[1] - simplex[0].at[1]);
      if (std::log(simplex[2].radius) - best <= kFlat * std::abs(best) && size < kSmall) break;
      const Point centre = mix(simplex[0].at, simplex[1].at, 0.5);
      const Vertex reflected = evaluate_known(mix(simplex[2].at, centre, 2));
      if (reflected < simplex[0]) {
        simplex[2] = std::min(reflected, evaluate_known(mix(simplex[2].at, centre, 3)));
      } else if (reflected < simplex[1]) {
        simplex[2] = reflected;
      } else {
        const Vertex inner =
            evaluate_known(mix(simplex[2].at, centre, reflected < simplex[2] ? 1.5 : 0.5));
        if (inner < std::min(reflected, simplex[2])) {
          simplex[2] = inner;
        } else {
          simplex[1] = evaluate_known(mix(simplex[0].at, simplex[1].at, 0.5));
          simplex[2] = evaluate_known(mix(simplex[0].at, simplex[2].at, 0.5));
        }
      }
    }
    return *std::min_element(simplex.begin(), simplex.end());
  };
  // From there by steps that make the largest of the roots least if all keep their slopes.
  const auto descend = [&](const Point& start) {
    Vertex best = evaluate_all(start);
    auto slopes = spectrum.Slopes(known);
    // Roots that were larger where a step was not taken, as seen from the best point.
    std::vector<PipelineSpectrum::Slope> others;
    double reach = kFirstReach;
    for (int step = 0; step < kDescentSteps && !slopes.empty() && reach > kLeastReach; ++step) {
      const Point& at = best.at;
      std::vector<PipelineSpectrum::Slope> all = slopes;
      all.insert(all.end(), others.begin(), others.end());
      const auto [by, least] =
          LeastOfLargest(all, {std::max(-reach, kLeastLogDamping - at[0]), -reach},
                         {std::min(reach, -at[0]), std::min(reach, std::log(kMaxRate) - at[1])});
      const double expected = std::log(best.radius) - least;
      if (!(expected > kNoGain * std::abs(std::log(best.radius)))) {
        if (others.empty()) break;
        // From too far away to say so.
        others.clear();
        reach /= 3;
        continue;
      }
      const Vertex next = evaluate_all({at[0] + by[0], at[1] + by[1]});
      const double gain = std::log(best.radius) - std::log(next.radius);
      auto there = spectrum.Slopes(known);
      auto& moved = gain > 0 ? others : there;
      const double sign = gain > 0 ? 1 : -1;
      for (auto& slope : moved) {
        slope.value += sign * (slope.by_damping * by[0] + slope.by_rate * by[1]);
      }
      if (gain > 0) {
        best = next;
        slopes = std::move(there);
      } else {
        others = std::move(there);
      }
      if (gain < expected / 4) reach /= 3;
      if (gain > expected * 3 / 4) reach *= 2;
    }
    return best;
  };

  const VectorXd eigenvalues = HessianEigenvalues(options.hessian).cwiseAbs();
  const double largest = eigenvalues.maxCoeff();
  RefuseIf(largest == 0, "hessian", "0", "a matrix that is not 0");
  const double condition = std::min(largest / eigenvalues.minCoeff(), kMostCondition);
  double sum = 0;
  for (std::size_t s = 0; s < options.delays.size(); ++s) {
    sum += static_cast<double>(options.widths[s]) * static_cast<double>(options.delays[s]);
  }
  const Delay mean = std::llround(sum / static_cast<double>(options.hessian.rows()));
  const Delay longest = *std::max_element(options.delays.begin(), options.delays.end());
  Vertex best{{0, 0}, kInfinity};
  for (const Delay delay : {mean, longest}) {
    const RuleSpec rule = options.horizons.empty() ? options.rule : RuleSpec{FindRule("lwp-v"), {}};
    const Optimum start = FindOptimum({rule, delay, condition, std::nullopt});
    best = std::min(best, evaluate_all(search({std::log1p(-std::min(start.momentum, 1 - 1e-12)),
                                               std::log(start.rate / largest)})
                                           .at));
    if (mean == longest) break;
  }
  // A point where a search overlooks the largest root looks best of all. Roots followed there from all sides
  // show it, or a closer look.
  const auto holds = [&](Vertex& vertex) {
    const auto is_no_larger = [&](double radius) {
      const double before = std::log(vertex.radius);
      vertex.radius = std::max(vertex.radius, radius);
      return std::log(radius) - before <= kNoGain * std::abs(before);
    };
    for (const Point& by :
         {Point{kProbe, 0}, Point{-kProbe, 0}, Point{0, kProbe}, Point{0, -kProbe}}) {
      evaluate_all({vertex.at[0] + by[0], vertex.at[1] + by[1]});
      move_to(vertex.at);
      if (!is_no_larger(spectrum.RadiusFrom(known))) {
        return false;
      }
    }
    return is_no_larger(spectrum.Radius(known));
  };
  for (int round = 0; round < kBeginnings; ++round) {
    best = descend(best.at);
    if (holds(best)) break;
  }
  move_to(best.at);
  PipelineOptimum optimum;
  optimum.spectral_radius = best.radius;
  if (best.radius < 1) {
    optimum.half_life_updates = -std::log(2.0) / std::log(best.radius);
    optimum.momentum = options.momentum;
    optimum.learning_rate = options.learning_rate;
  }
  return optimum;
}

}  // namespace batchless::analysis
