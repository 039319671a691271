// The second moments of a rule under delays that vary, by their operator (random_delay.h).
//
// The state is a core c (weight and velocity; for the rule `linear` the observer form of N/D, whose first
// number is the weight) and, `lags` updates back, the signals S c that delays read:
//
//   c' = F c + G_d g,   g = x (reads of d)' s,   newest signals' = S c, the others move by one
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "batchless/analysis/random_delay.h"
#include "krylov.h"

namespace batchless::analysis {

inline Eigen::Index AsIndex(std::size_t value) { return static_cast<Eigen::Index>(value); }

// What a gradient is taken at beside the weight, where that is no one signal for all delays. Velocity-form
// prediction reads the difference of weights in the velocity's place where there is no compensation, eta
// times as large.
struct SecondSignal {
  bool difference;  ///< the last step of the weight
  bool velocity;    ///< the velocity, by each delay's own horizon
};
SecondSignal SecondSignalOf(const RuleSpec& spec, const DelayCoefficients& coefficients);

// A_d for every entry d of a model's list of delays.
class DelaySystem {
 public:
  DelaySystem(const VaryingDelay& point, double rate);
  // Scalar systems s' = a_d s.
  explicit DelaySystem(const std::vector<double>& factors);

  Eigen::Index dimension() const { return dimension_; }
  Eigen::Index core() const { return core_.rows(); }
  const Eigen::MatrixXd& core_matrix() const { return core_; }                     // F
  const Eigen::MatrixXd& signals() const { return signals_; }                      // S
  const Eigen::VectorXd& input(std::size_t entry) const { return input_[entry]; }  // G_d
  // What a delay reads, times the rate: places in the state and their factors.
  using Reads = std::vector<std::pair<Eigen::Index, double>>;
  const Reads& reads(std::size_t entry) const { return read_[entry]; }

  // A s for each column of `states`.
  Eigen::MatrixXd Apply(std::size_t entry, const Eigen::MatrixXd& states) const;
  // sum_d p_d A_d P A_d' over entries with probabilities.
  using Draws = std::vector<std::pair<std::size_t, double>>;
  Eigen::MatrixXd Second(const Draws& draws, const Eigen::MatrixXd& covariance) const;
  // sum_d p_d A_d s.
  Eigen::MatrixXd First(const Draws& draws, const Eigen::MatrixXd& states) const;

 private:
  // The part that no delay changes.
  Eigen::MatrixXd Shift(const Eigen::MatrixXd& states) const;

  Eigen::Index dimension_ = 0;
  Eigen::MatrixXd core_;
  Eigen::MatrixXd signals_;
  std::vector<Eigen::VectorXd> input_;  // G_d
  std::vector<Reads> read_;
};

// Draws of a chain of regimes, each with delays of its own: one regime for independent delays, one for each
// delay of a chain.
struct Regimes {
  std::vector<DelaySystem::Draws> draws;
  Eigen::MatrixXd transition;
  Eigen::VectorXd shares;
};
Regimes RegimesOf(const DelayModel& model);

// An operator on one matrix for each regime, behind one another in a vector: a step of each, and a draw.
using Step = std::function<Eigen::MatrixXd(std::size_t, const Eigen::MatrixXd&)>;
LinearMap OverRegimes(const Regimes& regimes, Eigen::Index rows, Eigen::Index columns,
                      const Step& step);

double OperatorMeanRadius(const DelaySystem& system, const Regimes& regimes);

// Over one period of a trace of entries 0..length-1.
double TraceRadius(const DelaySystem& system, const std::vector<std::size_t>& entries);
double TraceVariance(const DelaySystem& system, const std::vector<std::size_t>& entries);

LogRate SimulateLogRate(const DelaySystem& system, const Regimes& regimes, std::uint64_t seed,
                        std::size_t updates);

}  // namespace batchless::analysis
