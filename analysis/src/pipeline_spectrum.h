// Dominant eigenvalue of a pipeline by its weights alone, prepared once for many momenta and rates.
#pragma once

#include <Eigen/Core>
#include <complex>
#include <cstddef>
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

  /// M(z) weights = 0.
  struct Root {
    std::complex<double> z;
    Eigen::VectorXcd weights;
  };
  /// The largest roots found, of each part: where Newton's method starts at a momentum and rate nearby.
  using Roots = std::vector<std::vector<Root>>;

  /// How closely roots are looked for beside those known: quickly, for many points of which few matter, which
  /// more often overlooks the largest.
  enum class Search { kNone, kQuick, kThorough };

  /// Spectral radius at the momentum and learning rate of the options, from all roots found, which become
  /// `known`.
  double Radius(Roots& known, Search search = Search::kThorough) const;
  /// Largest of the roots that Newton's method comes to from `known` and from the Hessian's eigenvectors: at
  /// most the spectral radius, for a fifth of its time.
  double RadiusFrom(Roots known) const { return Radius(known, Search::kNone); }

  /// ln|z| of a root, and its slopes in ln(1 - m) and ln(eta).
  struct Slope {
    double value;
    double by_damping;
    double by_rate;
  };
  /// The known roots have to be those at the momentum and learning rate of the options. Nothing comes back
  /// where weights without such roots take part.
  std::vector<Slope> Slopes(const Roots& known) const;

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
  // With a search `known` becomes the roots found.
  double CoupledRadius(const Part& part, std::vector<Root>& known, Search search) const;

  const PipelineOptions& options_;
  std::vector<Part> parts_;                           // of mixed delays
  std::vector<std::pair<Lateness, double>> scalars_;  // and an eigenvalue
};

}  // namespace batchless::analysis
