// Spectral radius over a grid of momenta and normalised rates, threads over rows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "batchless/analysis/spectral_radius.h"

namespace batchless::analysis {

struct SweepOptions {
  RuleSpec rule;
  Delay delay = 0;
  /// Each in [0, 1]; one, which is not read, for the rule `linear`.
  std::vector<double> momenta;
  std::vector<double> rates;  ///< x = eta * lambda, each in [kMinRate, kMaxRate]
  int threads = 0;            ///< 0: as many as the machine has
  Simd simd = Simd::kBest;
  /// Called from the calling thread with the number of rows done; returning false stops the sweep.
  std::function<bool(std::size_t rows_done, std::size_t rows)> progress;
};

/// Throws InvalidArgument with the name of the first member that is out of range.
void Validate(const SweepOptions& options);

struct SweepSummary {
  std::vector<double> log_radius;   ///< (momenta, rates) row-major
  std::vector<double> error_bound;  ///< of rho, absolute
  std::vector<double> spectral_radius;
  std::size_t rows_done = 0;  ///< less than momenta.size() where progress stopped it
  std::size_t refined_long_double = 0;
  std::size_t refined_fifty_digits = 0;
  double seconds = 0;
  double pixels_per_second = 0;
  int threads = 0;
  Simd simd = Simd::kScalar;  ///< the set that ran

  std::string BriefReport() const;
};

/// Throws InvalidArgument where the options are not valid.
SweepSummary RunSweep(const SweepOptions& options);

/// Bytes that a sweep of this size holds while it runs.
double SweepBytes(std::size_t momenta, std::size_t rates);

}  // namespace batchless::analysis

// Example
//   SweepOptions options;
//   options.rule = {FindRule("sgdm"), {}};
//   options.momenta = {0, 0.9};
//   options.rates = {0.1, 0.2, 0.4};
//   const SweepSummary map = RunSweep(options);
//   CHECK(map.rows_done == options.momenta.size());
//   CHECK(map.spectral_radius[2] == Approx(1 - 0.4));
