#include "batchless/analysis/inconsistency.h"

#include <cmath>
#include <string>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/characteristic.h"
#include "decompositions.h"
#include "largest_stable.h"
#include "rule_state.h"

namespace batchless::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::RowVectorXd;

// What a radius may be off by at rates below kFirstRate, where two eigenvalues near 1 lie close to each
// other: one that is stable is by more than that below 1, (1 - m) / 2 or the rate itself.
constexpr double kRadiusRoundings = 1e-9;

// One weight: its coefficients, and where its part of the state begins.
struct Weight {
  Coefficients<double> coefficients = {};  // but of the rule `linear`
  Index order;                             // entries of the rule's own
  Index forward_delay;
  Index backward_delay;
  Index begin;   // of w, v, w before
  double gap;    // D - d, updates
  double decay;  // gamma

  Index delta() const { return begin + order; }
  Index hats() const { return delta() + 1; }
  Index bars() const { return hats() + forward_delay; }
  Index end() const { return bars() + backward_delay; }
};

std::vector<Weight> Layout(const InconsistentModel& model, const RuleSpec& rule, double momentum) {
  std::vector<Weight> weights;
  Index begin = 0;
  for (std::size_t k = 0; k < model.forward_delays.size(); ++k) {
    const Delay forward = model.forward_delays[k];
    const Delay backward = model.backward_delays[k];
    Weight weight;
    if (!rule.is_linear()) {
      weight.coefficients = ComputeCoefficients<double>(rule, momentum, forward);
    }
    weight.order = rule.is_linear() ? static_cast<Index>(rule.options.denominator.size()) - 1 : 3;
    weight.forward_delay = static_cast<Index>(forward);
    weight.backward_delay = static_cast<Index>(backward);
    weight.begin = begin;
    weight.gap = static_cast<double>(forward - backward);
    weight.decay = weight.gap > 0 ? std::pow(kCorrectionDecay, 1 / weight.gap) : 0;
    begin = weight.end();
    weights.push_back(weight);
  }
  return weights;
}

}  // namespace

InconsistentModel DiscrepancyModel(double discrepancy, Delay forward_delay, Delay backward_delay) {
  CheckInteger("forward_delay", forward_delay, 0, kMaxInconsistentDelay);
  CheckInteger("backward_delay", backward_delay, 0, kMaxInconsistentDelay);
  RefuseIf(backward_delay > forward_delay, "backward_delay", std::to_string(backward_delay),
           "at most the forward's, " + std::to_string(forward_delay));
  RefuseIf(!(std::abs(discrepancy) <= kMaxDiscrepancy), "discrepancy", discrepancy,
           "numbers from " + ToText(-kMaxDiscrepancy) + " to " + ToText(kMaxDiscrepancy));
  return {MatrixXd::Constant(1, 1, 1 + discrepancy),
          MatrixXd::Constant(1, 1, -discrepancy),
          {forward_delay},
          {backward_delay}};
}

InconsistentModel FactorisationModel(double ratio, Delay delay) {
  CheckInteger("delay", delay, 0, kMaxInconsistentDelay);
  RefuseIf(delay < 2 || delay % 2 != 0, "delay", std::to_string(delay),
           "an even number from 2, the first of two neighbouring stages'");
  RefuseIf(!(ratio >= 0 && ratio < 1), "ratio", ratio, "numbers from 0 to below 1");
  InconsistentModel model;
  model.forward = MatrixXd{{1, 0}, {-ratio, 1}};
  model.backward = MatrixXd{{0, -ratio}, {0, 0}};
  model.forward_delays = {delay, delay - 2};
  model.backward_delays = {0, 0};
  return model;
}

MatrixXd InconsistentStateMatrix(const InconsistentModel& model, const RuleSpec& rule,
                                 BackwardWeights backward, double momentum, double learning_rate) {
  Validate(rule, momentum);
  CheckRate(learning_rate);
  InconsistentModel read = model;
  if (backward == BackwardWeights::kStashed) read.backward_delays = model.forward_delays;
  const std::vector<Weight> weights = Layout(read, rule, momentum);
  const Index dimension = weights.back().end();
  const auto count = static_cast<Index>(weights.size());
  const double eta = learning_rate;

  // Rows over the state: w_hat and w_bar of today, and what the two passes of gradient i read.
  MatrixXd hat = MatrixXd::Zero(count, dimension);
  MatrixXd bar = MatrixXd::Zero(count, dimension);
  MatrixXd forward_reads = MatrixXd::Zero(count, dimension);
  MatrixXd backward_reads = MatrixXd::Zero(count, dimension);
  // The oldest of the values that are kept from `begin` to `end`, or without any today's.
  const auto oldest = [&](const RowVectorXd& today, Index begin, Index end) -> RowVectorXd {
    return begin == end ? today : RowVectorXd::Unit(dimension, end - 1);
  };
  for (Index k = 0; k < count; ++k) {
    const Weight& weight = weights[static_cast<std::size_t>(k)];
    hat.row(k) = PredictionRows(rule, weight.coefficients.horizon, eta, weight.begin, 1, dimension);
    bar(k, weight.begin) = 1;
    if (backward == BackwardWeights::kStashed) bar.row(k) = hat.row(k);
    if (backward == BackwardWeights::kCorrected) bar(k, weight.delta()) = -weight.gap;
    forward_reads.row(k) = oldest(hat.row(k), weight.hats(), weight.bars());
    backward_reads.row(k) = oldest(bar.row(k), weight.bars(), weight.end());
  }
  const MatrixXd gradient = read.forward * forward_reads + read.backward * backward_reads;

  MatrixXd matrix = MatrixXd::Zero(dimension, dimension);
  const auto keep = [&](const RowVectorXd& today, Index begin, Index end) {
    if (begin == end) return;
    matrix.row(begin) = today;
    matrix.block(begin + 1, begin, end - begin - 1, end - begin - 1).setIdentity();
  };
  for (Index k = 0; k < count; ++k) {
    const Weight& weight = weights[static_cast<std::size_t>(k)];
    OwnUpdate(rule, weight.coefficients, momentum, eta, gradient.row(k), weight.begin, 1, matrix);
    if (!rule.is_linear()) matrix(weight.begin + 2, weight.begin) = 1;
    // The move w' - w.
    RowVectorXd move = matrix.row(weight.begin);
    move(weight.begin) -= 1;
    matrix.row(weight.delta()) = (1 - weight.decay) * move;
    matrix(weight.delta(), weight.delta()) += weight.decay;
    keep(hat.row(k), weight.hats(), weight.bars());
    keep(bar.row(k), weight.bars(), weight.end());
  }
  return matrix;
}

double InconsistentSpectralRadius(const InconsistentModel& model, const RuleSpec& rule,
                                  BackwardWeights backward, double momentum, double learning_rate) {
  return SpectralRadiusOf(InconsistentStateMatrix(model, rule, backward, momentum, learning_rate));
}

double InconsistentCriticalRate(const InconsistentModel& model, const RuleSpec& rule,
                                BackwardWeights backward, double momentum) {
  const auto radius = [&](double rate) {
    return InconsistentSpectralRadius(model, rule, backward, momentum, rate);
  };
  const auto stable = [&](double rate) { return radius(rate) < 1; };
  const auto critical_from = [&](double first) {
    return LargestStable(first, kLastRate, 1.2, 1e-6, stable, stable);
  };
  double critical = critical_from(kFirstRate);
  for (const double first : {1e-5, 1e-6, kLeastRate}) {
    if (critical > 0) break;
    if (radius(first) < 1 - kRadiusRoundings) critical = critical_from(first);
  }
  return critical;
}

}  // namespace batchless::analysis
