// Time of one certified spectral radius, one thread: rows of a sweep with each instruction set, and
// points on their own, beside all roots from the companion matrix (Eigen's PolynomialSolver).

#include <Eigen/Core>
#include <algorithm>
#include <complex>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "batchless/analysis/spectral_radius.h"
#include "bench_grid.h"
#include "effort.h"
// Needs Eigen/Core before it.
#include <unsupported/Eigen/Polynomials>

namespace batchless::analysis {
namespace {

// Tracks of one group of the widest walk, and the points along each.
constexpr std::size_t kTracks = 8;
constexpr std::size_t kPoints = 512;
// Microseconds a point.
constexpr double kVectorisedBar = 0.1;
constexpr double kScalarBar = 2;
// The companion matrix costs D^3 operations; minutes a point at the largest delay.
constexpr Delay kLongestCompanion = 336;

void Rows(benchmark::State& state, const std::string& rule, Delay delay, Simd simd, double bar) {
  const RuleSpec spec = Spec(rule);
  const std::vector<double> rates = Rates(kPoints);
  std::vector<Track> tracks;
  for (const double m : Momenta(kTracks)) {
    tracks.push_back({MakeCharacteristic<double>(spec, m, delay), &spec, m, delay, rates});
  }
  constexpr std::size_t kSize = kTracks * kPoints;
  std::vector<double> log_radius(kSize), log_error(kSize), radius(kSize), error(kSize);
  std::vector<Precision> precision(kSize);
  for ([[maybe_unused]] auto _ : state) {
    EvaluateTracks(tracks, {log_radius, log_error, radius, error, precision}, simd);
    benchmark::DoNotOptimize(radius.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kSize));
  CountMicroseconds(state, "per_point_us", kSize);
  if (bar > 0) SetBar(state, "per_point_us", bar);
  state.counters["refined_share"] =
      static_cast<double>(std::count_if(precision.begin(), precision.end(),
                                        [](Precision p) { return p != Precision::kDouble; })) /
      static_cast<double>(kSize);
}

/// Some of the points of the rows, each from nothing.
struct Sample {
  std::vector<double> momenta, rates;
};

void Points(benchmark::State& state, const std::string& rule, Delay delay) {
  const RuleSpec spec = Spec(rule);
  const Sample sample = {Momenta(kTracks), Rates(32)};
  for ([[maybe_unused]] auto _ : state) {
    for (const double m : sample.momenta) {
      for (const double x : sample.rates) {
        benchmark::DoNotOptimize(ComputeSpectralRadius(spec, m, delay, x));
      }
    }
  }
  const std::size_t size = sample.momenta.size() * sample.rates.size();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(size));
  CountMicroseconds(state, "per_point_us", static_cast<double>(size));
}

void CompanionMatrix(benchmark::State& state, const std::string& rule, Delay delay) {
  const RuleSpec spec = Spec(rule);
  const Sample sample = delay > 100  ? Sample{Momenta(2), Rates(2)}
                        : delay > 10 ? Sample{Momenta(3), Rates(4)}
                                     : Sample{Momenta(kTracks), Rates(8)};
  std::vector<Eigen::VectorXd> polynomials;
  for (const double m : sample.momenta) {
    const auto p = MakeCharacteristic<double>(spec, m, delay);
    for (const double x : sample.rates) {
      const std::vector<double> c = DenseCoefficients(p, x);
      polynomials.emplace_back(
          Eigen::Map<const Eigen::VectorXd>(c.data(), static_cast<Eigen::Index>(c.size())));
    }
  }
  for ([[maybe_unused]] auto _ : state) {
    for (const Eigen::VectorXd& c : polynomials) {
      const Eigen::PolynomialSolver<double, Eigen::Dynamic> solver(c);
      benchmark::DoNotOptimize(std::abs(solver.greatestRoot()));
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(polynomials.size()));
  CountMicroseconds(state, "per_point_us", static_cast<double>(polynomials.size()));
}

template <class Body>
void Register(const std::string& name, const std::string& point, double seconds, Body body) {
  auto* registered = benchmark::RegisterBenchmark((name + "/" + point).c_str(), body);
  ForSeconds(registered, seconds, 3)->Unit(benchmark::kMicrosecond);
}

// The name says best for the widest set that the machine has.
const bool kRegistered = [] {
  for (const char* rule : {"sgdm", "sc", "lwp-w+sc"}) {
    for (const Delay delay : {1, 4, 32, 128, 336, 100'000}) {
      const std::string name = rule;
      const std::string point = name + "/D:" + std::to_string(delay);
      const auto rows = [=](Simd simd, double bar) {
        return [=](benchmark::State& state) { Rows(state, name, delay, simd, bar); };
      };
      if (delay <= kLongestCompanion) {
        Register("Eigen", point, 0.05,
                 [=](benchmark::State& state) { CompanionMatrix(state, name, delay); });
      }
      Register("Points", point, 0.05, [=](benchmark::State& state) { Points(state, name, delay); });
      Register("RowsScalar", point, 0.05, rows(Simd::kScalar, kScalarBar));
      if (IsAvailable(Simd::kAvx2)) Register("RowsAvx2", point, 0.05, rows(Simd::kAvx2, 0));
      Register("RowsBest", point, 0.05, rows(Simd::kBest, kVectorisedBar));
    }
  }
  return true;
}();

}  // namespace
}  // namespace batchless::analysis
