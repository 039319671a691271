#include "delay_operator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "decompositions.h"
#include "not_finite.h"

namespace batchless::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

}  // namespace

DelayCoefficients CoefficientsOf(const VaryingDelay& point) {
  DelayCoefficients coefficients;
  const DelayModel& model = point.delays;
  const RuleSpec mean = AtMeanDelay(point.rule, model.mean());
  for (const Delay delay : model.delays) {
    const bool own = point.compensation == DelayCompensation::kOwn;
    coefficients.each.push_back(
        ComputeCoefficients<double>(own ? point.rule : mean, point.momentum, delay));
    const Coefficients<double>& first = coefficients.each.front();
    const Coefficients<double>& last = coefficients.each.back();
    coefficients.same_update &= last.a == first.a && last.b == first.b;
    coefficients.same_horizon &= last.horizon == first.horizon;
  }
  return coefficients;
}

SecondSignal SecondSignalOf(const RuleSpec& spec, const DelayCoefficients& coefficients) {
  if (spec.is_linear()) return {false, false};
  const bool own_velocity =
      spec.rule.prediction == Prediction::kVelocity && !coefficients.same_horizon;
  const bool uncompensated = spec.rule.compensation == Compensation::kNone;
  return {spec.rule.prediction == Prediction::kWeight || (own_velocity && uncompensated),
          own_velocity && !uncompensated};
}

DelaySystem::DelaySystem(const VaryingDelay& point, double rate) {
  const RuleSpec& spec = point.rule;
  const DelayModel& model = point.delays;
  Index lags = AsIndex(static_cast<std::size_t>(model.largest()));
  if (spec.is_linear()) {
    const std::vector<double>& d = spec.options.denominator;
    const std::vector<double>& n = spec.options.numerator;
    const Index order = AsIndex(d.size()) - 1;
    core_ = MatrixXd::Zero(order, order);
    core_.topRightCorner(order - 1, order - 1).setIdentity();
    VectorXd input = VectorXd::Zero(order);
    for (Index k = 0; k < order; ++k) core_(k, 0) -= d[static_cast<std::size_t>(k + 1)];
    for (std::size_t k = 0; k < n.size() && AsIndex(k) < order; ++k) {
      input(order - 1 - AsIndex(k)) = -n[n.size() - 1 - k];
    }
    signals_ = MatrixXd::Zero(1, order);
    signals_(0, 0) = 1;
    input_.assign(model.delays.size(), input);
    dimension_ = order + lags;
    for (const Delay delay : model.delays) {
      read_.push_back({{delay == 0 ? 0 : order + delay - 1, rate}});
    }
    return;
  }
  const DelayCoefficients coefficients = CoefficientsOf(point);
  const Coefficients<double>& first = coefficients.each.front();
  const double m = point.momentum;
  const bool velocity = spec.rule.prediction == Prediction::kVelocity;
  const auto [difference, both] = SecondSignalOf(spec, coefficients);
  core_ = MatrixXd::Zero(2, 2);
  core_ << 1, -m * (coefficients.same_update ? first.a : 1), 0, m;
  signals_ = both ? MatrixXd(MatrixXd::Identity(2, 2)) : MatrixXd(MatrixXd::Identity(1, 2));
  if (velocity && coefficients.same_horizon) signals_(0, 1) = -first.horizon;
  if (difference) ++lags;
  const Index width = signals_.rows();
  dimension_ = 2 + width * lags;
  for (std::size_t i = 0; i < model.delays.size(); ++i) {
    const Coefficients<double>& c = coefficients.each[i];
    VectorXd input(2);
    input << -(c.a + c.b), coefficients.same_update ? 1 : c.a;
    input_.push_back(input);
    std::vector<std::pair<Index, double>> read;
    const auto add = [&](Index signal, Delay lag, double factor) {
      if (lag > 0) {
        read.emplace_back(2 + width * (lag - 1) + signal, rate * factor);
        return;
      }
      for (Index k = 0; k < 2; ++k) {
        if (signals_(signal, k) != 0) read.emplace_back(k, rate * factor * signals_(signal, k));
      }
    };
    const Delay delay = model.delays[i];
    add(0, delay, difference ? 1 + c.horizon : 1);
    if (difference) add(0, delay + 1, -c.horizon);
    if (both) add(1, delay, -c.horizon);
    read_.push_back(std::move(read));
  }
}

DelaySystem::DelaySystem(const std::vector<double>& factors)
    : dimension_(1), core_(MatrixXd::Zero(1, 1)), signals_(MatrixXd::Identity(1, 1)) {
  for (const double factor : factors) {
    input_.emplace_back(VectorXd::Ones(1));
    read_.push_back({{0, factor}});
  }
}

MatrixXd DelaySystem::Shift(const MatrixXd& states) const {
  const Index core = core_.rows();
  const Index width = signals_.rows();
  MatrixXd next(states.rows(), states.cols());
  next.topRows(core) = core_ * states.topRows(core);
  const Index past = dimension_ - core;
  if (past > 0) {
    next.middleRows(core, width) = signals_ * states.topRows(core);
    next.bottomRows(past - width) = states.middleRows(core, past - width);
  }
  return next;
}

MatrixXd DelaySystem::First(const Draws& draws, const MatrixXd& states) const {
  MatrixXd next = Shift(states);
  for (const auto& [entry, probability] : draws) {
    Eigen::RowVectorXd gradient = Eigen::RowVectorXd::Zero(states.cols());
    for (const auto& [place, factor] : read_[entry]) gradient += factor * states.row(place);
    next.topRows(core_.rows()) += probability * input_[entry] * gradient;
  }
  return next;
}

MatrixXd DelaySystem::Apply(std::size_t entry, const MatrixXd& states) const {
  return First({{entry, 1}}, states);
}

MatrixXd DelaySystem::Second(const Draws& draws, const MatrixXd& covariance) const {
  const Index core = core_.rows();
  // (A0 + G r') P (A0 + G r')'. An antisymmetric part, which roundings make, would grow by itself.
  const MatrixXd symmetric = (covariance + covariance.transpose()) / 2;
  MatrixXd next = Shift(Shift(symmetric).transpose());
  // sum_d p_d P r_d G_d' and sum_d p_d (r_d' P r_d) G_d G_d'.
  MatrixXd reads = MatrixXd::Zero(dimension_, core), square = MatrixXd::Zero(core, core);
  for (const auto& [entry, probability] : draws) {
    VectorXd gradient = VectorXd::Zero(dimension_);
    for (const auto& [place, factor] : read_[entry]) gradient += factor * symmetric.col(place);
    double size = 0;
    for (const auto& [place, factor] : read_[entry]) size += factor * gradient(place);
    const VectorXd weighted = probability * input_[entry];
    reads += gradient * weighted.transpose();
    square += size * weighted * input_[entry].transpose();
  }
  const MatrixXd cross = Shift(reads);
  next.leftCols(core) += cross;
  next.topRows(core) += cross.transpose();
  next.topLeftCorner(core, core) += square;
  return next;
}

Regimes RegimesOf(const DelayModel& model) {
  Regimes regimes;
  const Index size = AsIndex(model.delays.size());
  if (model.kind == DelayModel::Kind::kIndependent) {
    regimes.draws.resize(1);
    for (std::size_t i = 0; i < model.delays.size(); ++i) {
      regimes.draws[0].emplace_back(i, model.shares[i]);
    }
    regimes.transition = MatrixXd::Identity(1, 1);
    regimes.shares = VectorXd::Ones(1);
    return regimes;
  }
  regimes.transition = MatrixXd(size, size);
  regimes.shares = VectorXd(size);
  for (std::size_t i = 0; i < model.delays.size(); ++i) {
    regimes.draws.push_back({{i, 1.0}});
    regimes.shares(AsIndex(i)) = model.shares[i];
    for (std::size_t j = 0; j < model.delays.size(); ++j) {
      regimes.transition(AsIndex(i), AsIndex(j)) = model.transition[i][j];
    }
  }
  return regimes;
}

LinearMap OverRegimes(const Regimes& regimes, Index rows, Index columns, const Step& step) {
  return [=, &regimes](const VectorXd& states) -> VectorXd {
    const Index size = rows * columns;
    MatrixXd stepped(size, AsIndex(regimes.draws.size()));
    for (Index i = 0; i < stepped.cols(); ++i) {
      const MatrixXd state = Eigen::Map<const MatrixXd>(states.data() + i * size, rows, columns);
      const MatrixXd next = step(static_cast<std::size_t>(i), state);
      stepped.col(i) = Eigen::Map<const VectorXd>(next.data(), size);
    }
    const MatrixXd mixed = stepped * regimes.transition;
    return Eigen::Map<const VectorXd>(mixed.data(), mixed.size());
  };
}

double OperatorMeanRadius(const DelaySystem& system, const Regimes& regimes) {
  if (regimes.draws.size() == 1) {
    const Index dimension = system.dimension();
    const MatrixXd mean = system.First(regimes.draws[0], MatrixXd::Identity(dimension, dimension));
    return SpectralRadiusOf(mean);
  }
  const auto step = [&](std::size_t regime, const MatrixXd& state) {
    return system.First(regimes.draws[regime], state);
  };
  // Any start with a part in every direction.
  VectorXd start(system.dimension() * AsIndex(regimes.draws.size()));
  std::mt19937_64 random(1);
  for (double& value : start) value = 0.5 + Uniform(random);
  return SpectralRadiusOf(OverRegimes(regimes, system.dimension(), 1, step), 3 * system.dimension(),
                          start, false, kBasis);
}

double TraceRadius(const DelaySystem& system, const std::vector<std::size_t>& entries) {
  MatrixXd product = MatrixXd::Identity(system.dimension(), system.dimension());
  double log_scale = 0;
  for (const std::size_t entry : entries) {
    product = system.Apply(entry, product);
    const double size = product.cwiseAbs().maxCoeff();
    if (size == 0) return 0;
    if (size < 1e50 && size > 1e-50) continue;
    product /= size;
    log_scale += std::log(size);
  }
  return std::exp((std::log(SpectralRadiusOf(product)) + log_scale) /
                  static_cast<double>(entries.size()));
}

double TraceVariance(const DelaySystem& system, const std::vector<std::size_t>& entries) {
  const Index dimension = system.dimension();
  MatrixXd product = MatrixXd::Identity(dimension, dimension);
  MatrixXd covariance = MatrixXd::Zero(dimension, dimension);
  const auto step = [&](std::size_t entry) {
    covariance = system.Second({{entry, 1.0}}, covariance);
    covariance.topLeftCorner(system.core(), system.core()) +=
        system.input(entry) * system.input(entry).transpose();
  };
  for (const std::size_t entry : entries) {
    product = system.Apply(entry, product);
    step(entry);
  }
  // What all earlier periods left, by doubling their number.
  for (int doubling = 0; doubling < 100 && product.cwiseAbs().maxCoeff() > 1e-30; ++doubling) {
    covariance += product * covariance * product.transpose();
    product = product * product;
  }
  double sum = 0;
  for (const std::size_t entry : entries) {
    step(entry);
    sum += covariance(0, 0);
  }
  return sum / static_cast<double>(entries.size());
}

LogRate SimulateLogRate(const DelaySystem& system, const Regimes& regimes, std::uint64_t seed,
                        std::size_t updates) {
  constexpr std::size_t kParts = 20;
  std::mt19937_64 random(seed);
  const auto draw = [&](const auto& probability, std::size_t size) {
    double left = Uniform(random);
    std::size_t i = 0;
    while (i + 1 < size && left >= probability(i)) left -= probability(i++);
    return i;
  };
  MatrixXd state = MatrixXd::Ones(system.dimension(), 1);
  std::size_t regime =
      draw([&](std::size_t i) { return regimes.shares(AsIndex(i)); }, regimes.draws.size());
  std::vector<double> slopes;
  const std::size_t length = std::max<std::size_t>(updates / kParts, 1);
  // The first part is on the way to where the others are.
  for (std::size_t part = 0; part <= kParts; ++part) {
    double log_growth = 0;
    for (std::size_t i = 0; i < length; ++i) {
      const DelaySystem::Draws& draws = regimes.draws[regime];
      const std::size_t chosen = draw([&](std::size_t k) { return draws[k].second; }, draws.size());
      state = system.Apply(draws[chosen].first, state);
      const double size = state.cwiseAbs().maxCoeff();
      if (size == 0) return {-kInfinity, 0};
      state /= size;
      log_growth += std::log(size);
      regime = draw([&](std::size_t j) { return regimes.transition(AsIndex(regime), AsIndex(j)); },
                    regimes.draws.size());
    }
    if (part > 0) slopes.push_back(log_growth / static_cast<double>(length));
  }
  LogRate result;
  for (const double slope : slopes) result.rate += slope / kParts;
  double squares = 0;
  for (const double slope : slopes) squares += (slope - result.rate) * (slope - result.rate);
  result.standard_error = std::sqrt(squares / (kParts * (kParts - 1)));
  return result;
}

}  // namespace batchless::analysis
