// Rate against noise: the least stationary loss that a rule has at a given half-life.
//
//   spectrum    kSpectrumPoints curvatures from 1/K to 1, their logarithms evenly spaced
//   half-life   -ln 2 / ln r with r the largest rho over all curvatures in [1/K, 1], in steps
//   loss        mean over the spectrum of lambda / 2 times the variance of w, in units of
//               sigma^2 / lambda_max: (x^2 / 2) mean_j lambda_j V(x lambda_j), V as in noise.h
//   frontier    least loss over (x, m) with a half-life of at most h
//
// A step is the time in which a pipeline takes in one sample. Methods that wait make an update
// every s steps with the mean of N gradients: their half-life is s times, their loss 1/N of that of
// a rule without delay, such as SGDM or Nesterov's momentum. For a pipeline with delay D:
//   wait        s = D + 1, N = D + 1: D + 1 workers that wait for one another; what a late method
//               has to beat to be worth its lateness
//   mini-batch  s = N + D: a mini-batch of N fills and drains the pipeline, the best N of 1, 4,
//               16, ..., 1024
//   undelayed   s = N = 1: no pipeline can have it
//
// At long half-lives the best (x, m) damp the smallest curvature critically, (1 - m)^2 = 4 x / K, and
// loss * h = K ln 2 / 8 for every method: delay and waiting cost nothing there. With `average` the
// loss is that of the running mean of the weights, with the same half-life h.
#pragma once

#include <vector>

#include "batchless/analysis/noise.h"

namespace batchless::analysis {

/// Curvatures of the spectrum that the loss is a mean over.
inline constexpr int kSpectrumPoints = 17;
/// Longest half-life of a frontier, steps.
inline constexpr double kMaxFrontierHalfLife = 1e9;
/// Largest delay of a frontier: a variance is computed some ten thousand times.
inline constexpr Delay kMaxFrontierDelay = 400;

struct FrontierOptions {
  RuleSpec rule;
  Delay delay = 0;
  double condition = 1000;
  std::vector<double> half_lives;   ///< h, steps, each in (0, kMaxFrontierHalfLife]
  double steps_per_update = 1;      ///< s >= 1
  double gradients_per_update = 1;  ///< N >= 1
  bool average = false;             ///< loss of the running average in place of the weights'
};

/// Throws InvalidArgument with the name of the first member that is out of range.
void Validate(const FrontierOptions& options);

struct FrontierPoint {
  double half_life = 0;             ///< h as it was asked for, steps
  double loss = 0;                  ///< sigma^2 / lambda_max; NaN where no (x, m) is that fast
  double momentum = 0;              ///< NaN of the rule `linear`, whose rate alone is searched for
  double rate = 0;                  ///< eta * lambda_max
  double gradients_per_update = 1;  ///< N; NaN where no mini-batch is that fast
};

/// Mean over the spectrum of lambda / 2 times the variance, in units of sigma^2 / lambda_max; NaN
/// where it is not finite.
double StationaryLoss(const RuleSpec& spec, double momentum, Delay delay, double rate,
                      double condition, double average = kMinAverage);

/// One point for each half-life. The momentum is searched for on a grid and then between its
/// points; the rate is the smallest with the half-life, because the loss grows with the rate. Both
/// leave the loss within 5 % of the least one. Throws InvalidArgument.
std::vector<FrontierPoint> Frontier(const FrontierOptions& options);

/// The same for mini-batches of 1, 4, 16, ..., 1024 samples that fill and drain a pipeline of delay
/// `options.delay`, the best of them for each half-life; s and N of the options are not used.
std::vector<FrontierPoint> MiniBatchFrontier(const FrontierOptions& options);

}  // namespace batchless::analysis

// Example
//   FrontierOptions options;
//   options.rule = {FindRule("sgdm"), {}};
//   options.delay = 1;
//   options.condition = 10;
//   options.half_lives = {50, 200};  // steps
//   const std::vector<FrontierPoint> points = Frontier(options);
//   CHECK(points[0].half_life == 50);
//   CHECK(points[1].loss < points[0].loss);  // slower rates average more noise
