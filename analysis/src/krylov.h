// Large linear operators by Krylov spaces.
#pragma once

#include <Eigen/Core>
#include <functional>
#include <stdexcept>
#include <string>

namespace batchless::analysis {

// A basis has at most this many vectors before a restart, where nothing asks for more.
inline constexpr Eigen::Index kBasis = 80;

// An iteration that did not come to an end.
class NotSettled : public std::runtime_error {
 public:
  NotSettled(const std::string& what, int restarts)
      : std::runtime_error(what + " under these delays did not settle in " +
                           std::to_string(restarts) + " restarts on its operator") {}
};

using LinearMap = std::function<Eigen::VectorXd(const Eigen::VectorXd&)>;

// Largest modulus of an eigenvalue. `positive`: the operator keeps a cone, so that it is an eigenvalue
// itself. `lags` plain steps before each basis carry a start through the longest delay, which a basis
// shorter than that never sees the end of. Throws NotSettled.
double SpectralRadiusOf(const LinearMap& apply, Eigen::Index lags, Eigen::VectorXd start,
                        bool positive, Eigen::Index basis);

// x = apply(x) + constant, with `lags` and errors as above, by bases of at most `basis` vectors. What is left
// is at most `tolerance` of the constant, or what roundings leave of x. `start`, where it has the constant's
// size, is near x. Where 1 is an eigenvalue of the map to the last bit, to which a search for one comes, x is
// as large as roundings leave it; NaN where numbers overflow.
Eigen::VectorXd FixedPoint(const LinearMap& apply, const Eigen::VectorXd& constant,
                           Eigen::Index lags, Eigen::Index basis, double tolerance,
                           const Eigen::VectorXd& start = {});

}  // namespace batchless::analysis
