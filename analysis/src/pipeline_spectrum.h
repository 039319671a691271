// Dominant eigenvalue of a pipeline by its weights alone, prepared once for many momenta and rates.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "batchless/analysis/pipeline_stability.h"

namespace batchless::analysis {

/// A quadratic's independent parts. Weights that no entry of the Hessian joins do not meet, and those
/// that share one delay part further, along the eigenvectors of their Hessian.
class PipelineSpectrum {
 public:
  // What the equations of two weights differ in, beside the Hessian.
  struct Lateness {
    Delay delay = 0;
    RuleSpec rule;

    // The rule is one but for the horizon.
    bool operator==(const Lateness& other) const {
      return delay == other.delay && rule.options.horizon == other.rule.options.horizon;
    }
  };

  /// `options` have to be valid and to outlive this. Throws InvalidArgument where more weights than
  /// that depend on each other under several delays.
  PipelineSpectrum(const PipelineOptions& options, std::size_t most_coupled);

  /// Spectral radius at the momentum and learning rate of the options. Where it is above `enough`, some
  /// root above that, not the largest: a search needs no more of what is worse than what it has.
  double Radius(double enough = std::numeric_limits<double>::infinity()) const;

 private:
  struct Part {
    Eigen::MatrixXd hessian;
    std::vector<Lateness> late;   // of each weight
    Eigen::VectorXd eigenvalues;  // of the Hessian
    Eigen::MatrixXd eigenvectors;
    Eigen::MatrixXd shares;  // squared entries of the eigenvectors
  };

  bool HasRootAtOne(const Part& part) const;
  double ScalarRadius(const Lateness& late, double eigenvalue) const;
  double CoupledRadius(const Part& part, double enough) const;

  const PipelineOptions& options_;
  std::vector<Part> parts_;                           // of mixed delays
  std::vector<std::pair<Lateness, double>> scalars_;  // and an eigenvalue
};

}  // namespace batchless::analysis
