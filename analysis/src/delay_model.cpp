#include "batchless/analysis/delay_model.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "batchless/analysis/argument.h"
#include "decompositions.h"

namespace batchless::analysis {
namespace {

constexpr std::string_view kName = "delays";

void CheckDelays(const std::vector<Delay>& delays) {
  RefuseIf(delays.empty(), kName, "nothing", "at least one delay");
  for (const Delay delay : delays) CheckInteger(kName, delay, 0, kMaxVaryingDelay);
}

// Divides by the sum, which has to be nearly 1.
void Normalise(std::vector<double>& probabilities) {
  for (const double p : probabilities) {
    RefuseIf(!(p >= 0 && p <= 1), kName, p, "probabilities from 0 to 1");
  }
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  RefuseIf(!(std::abs(sum - 1) <= kProbabilityTolerance), kName, sum,
           "probabilities that sum to 1");
  for (double& p : probabilities) p /= sum;
}

// Which states are reached from the first, along arrows or against them.
std::size_t Reached(const std::vector<std::vector<double>>& transition, bool backwards) {
  std::vector<std::size_t> found = {0};
  std::vector<bool> seen(transition.size(), false);
  seen[0] = true;
  for (std::size_t next = 0; next < found.size(); ++next) {
    for (std::size_t j = 0; j < transition.size(); ++j) {
      const double p = backwards ? transition[j][found[next]] : transition[found[next]][j];
      if (p == 0 || seen[j]) continue;
      seen[j] = true;
      found.push_back(j);
    }
  }
  return found.size();
}

// mu' pi = mu', sum 1.
std::vector<double> StationaryShares(const std::vector<std::vector<double>>& transition) {
  const auto n = static_cast<Eigen::Index>(transition.size());
  DenseMatrix<long double> system(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) {
      system(j, i) = transition[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
      if (i == j) system(j, i) -= 1;
    }
  }
  system.row(n - 1).setOnes();
  const auto shares = Solve(system, DenseVector<long double>::Unit(n, n - 1));
  return {shares.begin(), shares.end()};
}

}  // namespace

double DelayModel::mean() const {
  return std::inner_product(shares.begin(), shares.end(), delays.begin(), 0.0);
}

Delay DelayModel::largest() const { return *std::max_element(delays.begin(), delays.end()); }

std::optional<Delay> DelayModel::only() const {
  if (kind != Kind::kIndependent || delays.size() != 1) return std::nullopt;
  return delays.front();
}

DelayModel UniformDelays(Delay low, Delay high) {
  CheckDelays({low, high});
  CheckInteger(kName, high, low, kMaxVaryingDelay);
  DelayModel model;
  for (Delay d = low; d <= high; ++d) model.delays.push_back(d);
  model.shares.assign(model.delays.size(), 1 / static_cast<double>(model.delays.size()));
  return model;
}

DelayModel GeometricDelays(double probability, std::optional<Delay> largest) {
  RefuseIf(!(probability > 0 && probability <= 1), kName, probability,
           "a probability above 0, up to 1");
  if (largest) CheckInteger("largest_delay", *largest, 0, kMaxVaryingDelay);
  DelayModel model;
  double p = probability;
  double rest = 1;
  for (Delay d = 0; !largest || d <= *largest; ++d) {
    RefuseIf(d > kMaxVaryingDelay, kName, probability,
             "a probability whose delays end by " + std::to_string(kMaxVaryingDelay));
    model.delays.push_back(d);
    model.shares.push_back(p);
    rest *= 1 - probability;
    p *= 1 - probability;
    if (rest == 0 || (!largest && rest < kGeometricRest)) break;
  }
  // 1 - rest would have no digits for a small probability.
  const double sum = std::accumulate(model.shares.begin(), model.shares.end(), 0.0);
  for (double& share : model.shares) share /= sum;
  return model;
}

DelayModel IndependentDelays(const std::vector<Delay>& delays,
                             const std::vector<double>& probabilities) {
  CheckDelays(delays);
  RefuseIf(delays.size() != probabilities.size(), kName,
           std::to_string(probabilities.size()) + " probabilities",
           "one for each of " + std::to_string(delays.size()) + " delays");
  std::vector<double> normalised = probabilities;
  Normalise(normalised);
  std::map<Delay, double> shares;
  for (std::size_t i = 0; i < delays.size(); ++i) {
    if (normalised[i] > 0) shares[delays[i]] += normalised[i];
  }
  DelayModel model;
  for (const auto& [delay, share] : shares) {
    model.delays.push_back(delay);
    model.shares.push_back(share);
  }
  return model;
}

DelayModel MarkovDelays(std::vector<Delay> delays, std::vector<std::vector<double>> transition) {
  CheckDelays(delays);
  RefuseIf(delays.size() > kMaxDelayStates, kName, std::to_string(delays.size()) + " states",
           "a chain of at most " + std::to_string(kMaxDelayStates));
  RefuseIf(transition.size() != delays.size(), kName, std::to_string(transition.size()) + " rows",
           "one row of probabilities for each of " + std::to_string(delays.size()) + " delays");
  for (std::vector<double>& row : transition) {
    RefuseIf(row.size() != delays.size(), kName,
             std::to_string(row.size()) + " probabilities in a row",
             "one for each of " + std::to_string(delays.size()) + " delays");
    Normalise(row);
  }
  for (const bool backwards : {false, true}) {
    const std::size_t reached = Reached(transition, backwards);
    RefuseIf(reached != delays.size(), kName,
             "a chain that " + std::string(backwards ? "comes to" : "leaves") +
                 " its first delay " + (backwards ? "from " : "for ") +
                 std::to_string(reached - 1) + " of the " + std::to_string(delays.size() - 1) +
                 " others",
             "a chain in which every delay is reached from every other");
  }
  std::vector<double> shares = StationaryShares(transition);
  return {DelayModel::Kind::kMarkov, std::move(delays), std::move(shares), std::move(transition)};
}

DelayModel TraceDelays(std::vector<Delay> trace) {
  CheckDelays(trace);
  RefuseIf(trace.size() > kMaxTraceLength, kName, std::to_string(trace.size()) + " delays",
           "a trace of at most " + std::to_string(kMaxTraceLength));
  std::vector<double> shares(trace.size(), 1 / static_cast<double>(trace.size()));
  return {DelayModel::Kind::kTrace, std::move(trace), std::move(shares), {}};
}

}  // namespace batchless::analysis
