#include "chain_moments.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "decompositions.h"
#include "krylov.h"

namespace batchless::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Moments for one growth r. A vector of them has E[c c'] of every regime in turn (lag 0), then E[c s'] with the
// signals s of each lag.
class Moments {
 public:
  Moments(const DelaySystem& system, const Regimes& regimes, double growth);

  // Those that renew themselves: r x = what follows from x, and a noise of the core, a column for each regime.
  VectorXd Stationary(const MatrixXd& noise, double tolerance, const VectorXd& near = {}) const;
  // Whether the covariances of the whole state that follow are positive.
  bool AreCovariances(const VectorXd& moments) const;

  // A matrix of a lag as a column for each regime.
  auto Lag(const VectorXd& moments, Index lag) const {
    return Eigen::Map<const MatrixXd>(moments.data() + Offset(lag), Rows(lag), size_);
  }
  auto Lag(VectorXd& moments, Index lag) const {
    return Eigen::Map<MatrixXd>(moments.data() + Offset(lag), Rows(lag), size_);
  }

 private:
  // What a gradient reads: a number of the core (lag 0), or a signal.
  struct Read {
    Index lag;
    Index index;
    double factor;
  };

  Index Rows(Index lag) const { return core_ * (lag == 0 ? core_ : width_); }
  Index Offset(Index lag) const { return lag == 0 ? 0 : (Rows(0) + (lag - 1) * Rows(1)) * size_; }
  // E[c c_b] or E[c s_b] in a regime.
  auto Column(const VectorXd& moments, Index lag, Index b, Index regime) const {
    return Eigen::Map<const VectorXd>(moments.data() + Offset(lag) + regime * Rows(lag) + b * core_,
                                      core_);
  }
  // One pass over the lags, in which each uses what those before it have become.
  VectorXd Sweep(VectorXd moments, const MatrixXd& noise) const;
  // H_{0, j} of every regime: the newest signal a with b of j updates before in column NewestColumn(j, a, b).
  Index NewestColumn(Index apart, Index a, Index b) const {
    return (apart * width_ + b) * width_ + a;
  }
  MatrixXd NewestOf(const VectorXd& moments) const;
  void SetNewest(const VectorXd& moments, Index apart, MatrixXd& newest) const;
  // E[signal a of lag k * signal b of lag l] in a regime.
  double OfSignals(const MatrixXd& newest, Index regime, Index k, Index a, Index l, Index b) const {
    const Index column = k <= l ? NewestColumn(l - k, a, b) : NewestColumn(k - l, b, a);
    return aged_[static_cast<std::size_t>(regime)].col(std::min(k, l)).dot(newest.col(column));
  }
  // E[c g] and E[g^2].
  VectorXd CoreWithGradient(const VectorXd& moments, Index regime) const;
  double GradientSquare(const VectorXd& moments, const MatrixXd& newest, Index regime) const;

  const MatrixXd& f_;
  const MatrixXd& s_;
  Index core_, width_, size_, past_;  // past: how many lags
  MatrixXd moved_;                    // by an update: Pi / r
  // The core's update on the columns of lag 0, as they become those of lag 1, and from lag to lag.
  MatrixXd on_core_, to_first_, to_next_;
  // H_{0, j} from the columns of lag j, transposed: of j = 0, and of the others.
  MatrixXd newest_, newest_of_past_;
  std::vector<VectorXd> input_;  // by regime, as all that follow
  std::vector<std::vector<Read>> reads_;
  std::vector<MatrixXd> aged_;  // column k: r^-k times the regime's column of Pi^k
};

// The matrix of X -> left X right' on the columns of X behind one another.
MatrixXd OnColumns(const MatrixXd& left, const MatrixXd& right) {
  MatrixXd matrix(left.rows() * right.rows(), left.cols() * right.cols());
  for (Index i = 0; i < right.rows(); ++i) {
    for (Index j = 0; j < right.cols(); ++j) {
      matrix.block(i * left.rows(), j * left.cols(), left.rows(), left.cols()) = right(i, j) * left;
    }
  }
  return matrix;
}

Moments::Moments(const DelaySystem& system, const Regimes& regimes, double growth)
    : f_(system.core_matrix()),
      s_(system.signals()),
      core_(system.core()),
      width_(s_.rows()),
      size_(regimes.transition.rows()),
      past_((system.dimension() - core_) / width_),
      moved_(regimes.transition / growth) {
  for (const DelaySystem::Draws& draws : regimes.draws) {
    const std::size_t entry = draws[0].first;
    input_.push_back(system.input(entry));
    std::vector<Read>& reads = reads_.emplace_back();
    for (const auto& [place, factor] : system.reads(entry)) {
      const Index past = place - core_;
      reads.push_back(past < 0 ? Read{0, place, factor}
                               : Read{past / width_ + 1, past % width_, factor});
    }
  }
  const MatrixXd identity = MatrixXd::Identity(width_, width_);
  on_core_ = OnColumns(f_, f_);
  to_first_ = OnColumns(f_, s_);
  to_next_ = OnColumns(f_, identity);
  newest_ = OnColumns(s_, s_).transpose();
  newest_of_past_ = OnColumns(s_, identity).transpose();
  aged_.assign(regimes.draws.size(), MatrixXd(size_, past_ + 1));
  MatrixXd power = MatrixXd::Identity(size_, size_);
  for (Index k = 0; k <= past_; ++k) {
    for (Index i = 0; i < size_; ++i) aged_[static_cast<std::size_t>(i)].col(k) = power.col(i);
    power = power * moved_;
  }
}

MatrixXd Moments::NewestOf(const VectorXd& moments) const {
  MatrixXd newest(size_, NewestColumn(past_ + 1, 0, 0));
  for (Index j = 0; j <= past_; ++j) SetNewest(moments, j, newest);
  return newest;
}

void Moments::SetNewest(const VectorXd& moments, Index apart, MatrixXd& newest) const {
  newest.middleCols(NewestColumn(apart, 0, 0), width_ * width_).noalias() =
      Lag(moments, apart).transpose() * (apart == 0 ? newest_ : newest_of_past_);
}

VectorXd Moments::CoreWithGradient(const VectorXd& moments, Index regime) const {
  VectorXd sum = VectorXd::Zero(core_);
  for (const Read& read : reads_[static_cast<std::size_t>(regime)]) {
    sum += read.factor * Column(moments, read.lag, read.index, regime);
  }
  return sum;
}

double Moments::GradientSquare(const VectorXd& moments, const MatrixXd& newest,
                               Index regime) const {
  double sum = 0;
  const std::vector<Read>& reads = reads_[static_cast<std::size_t>(regime)];
  for (const Read& a : reads) {
    for (const Read& b : reads) {
      const double product = a.lag == 0 ? Column(moments, b.lag, b.index, regime)(a.index)
                             : b.lag == 0
                                 ? Column(moments, a.lag, a.index, regime)(b.index)
                                 : OfSignals(newest, regime, a.lag, a.index, b.lag, b.index);
      sum += a.factor * b.factor * product;
    }
  }
  return sum;
}

VectorXd Moments::Sweep(VectorXd moments, const MatrixXd& noise) const {
  MatrixXd newest = NewestOf(moments);
  // c' = F c + G g.
  MatrixXd next = on_core_ * Lag(moments, 0);
  for (Index i = 0; i < size_; ++i) {
    const VectorXd& input = input_[static_cast<std::size_t>(i)];
    const MatrixXd cross = f_ * CoreWithGradient(moments, i) * input.transpose();
    const MatrixXd square = GradientSquare(moments, newest, i) * input * input.transpose();
    next.col(i) += (cross + cross.transpose() + square).reshaped();
  }
  Lag(moments, 0) = next * moved_ + noise;
  SetNewest(moments, 0, newest);
  VectorXd gradient(width_);  // with the signals that move to lag j
  for (Index j = 1; j <= past_; ++j) {
    next.noalias() = (j == 1 ? to_first_ : to_next_) * Lag(moments, j - 1);
    for (Index i = 0; i < size_; ++i) {
      if (j == 1) {
        gradient = s_ * CoreWithGradient(moments, i);
      } else {
        gradient.setZero();
        for (const Read& read : reads_[static_cast<std::size_t>(i)]) {
          for (Index b = 0; b < width_; ++b) {
            gradient(b) += read.factor *
                           (read.lag == 0 ? Column(moments, j - 1, b, i)(read.index)
                                          : OfSignals(newest, i, read.lag, read.index, j - 1, b));
          }
        }
      }
      for (Index b = 0; b < width_; ++b) {
        next.col(i).segment(b * core_, core_) += input_[static_cast<std::size_t>(i)] * gradient(b);
      }
    }
    Lag(moments, j).noalias() = next * moved_;
    SetNewest(moments, j, newest);
  }
  return moments;
}

VectorXd Moments::Stationary(const MatrixXd& noise, double tolerance, const VectorXd& near) const {
  const VectorXd nothing = VectorXd::Zero(Offset(past_ + 1));
  const MatrixXd silence = MatrixXd::Zero(noise.rows(), noise.cols());
  // A basis longer than all lags, without which the longest settle late.
  return FixedPoint([&](const VectorXd& x) { return Sweep(x, silence); }, Sweep(nothing, noise), 0,
                    kBasis + 2 * past_, tolerance, near);
}

bool Moments::AreCovariances(const VectorXd& moments) const {
  const MatrixXd newest = NewestOf(moments);
  const Index dimension = core_ + past_ * width_;
  for (Index i = 0; i < size_; ++i) {
    MatrixXd covariance = MatrixXd::Zero(dimension, dimension);
    for (Index b = 0; b < core_; ++b) covariance.col(b).head(core_) = Column(moments, 0, b, i);
    for (Index l = 1; l <= past_; ++l) {
      for (Index b = 0; b < width_; ++b) {
        auto column = covariance.col(core_ + (l - 1) * width_ + b);
        column.head(core_) = Column(moments, l, b, i);
        for (Index k = 1; k <= l; ++k) {
          for (Index a = 0; a < width_; ++a) {
            column(core_ + (k - 1) * width_ + a) = OfSignals(newest, i, k, a, l, b);
          }
        }
      }
    }
    const double size = covariance.diagonal().sum();
    const MatrixXd symmetric = covariance.selfadjointView<Eigen::Upper>();
    // Roundings leave no more than that of a zero.
    if (!(size >= 0 && IsPositive(symmetric, 1e-9 * size))) return false;
  }
  return true;
}

}  // namespace

double ChainMargin(const DelaySystem& system, const Regimes& regimes, double growth,
                   VectorXd& moments) {
  // Roundings make so much of a margin, between which a search would go on for nothing.
  constexpr double kRoundings = 2e-15;
  constexpr double kBeside = 1e-7;
  const MatrixXd each = MatrixXd::Identity(system.core(), system.core()) / growth;
  const VectorXd noise = each.reshaped();
  // A sign and an interpolation need no more digits; near the pole roundings decide how far it settles.
  const auto stationary = [&](const Moments& operation, const VectorXd& near) {
    return operation.Stationary(noise.replicate(1, regimes.transition.rows()), 1e-8, near);
  };
  // The last update's noise is part of a covariance. Products of other eigenvalues than the largest are
  // poles, too, right above which the whole is so large that a negative rest looks like a rounding of it.
  const auto are_covariances = [&](const Moments& operation, const VectorXd& found) {
    const auto cores = operation.Lag(found, 0).colwise();
    return operation.AreCovariances(found) &&
           std::all_of(cores.begin(), cores.end(), [&](const auto& core) {
             const MatrixXd rest = core.reshaped(system.core(), system.core()) - each / 2;
             return IsPositive(rest, 1e-13 * rest.trace());
           });
  };
  const Moments operation(system, regimes, growth);
  moments = stationary(operation, moments);
  const double margin = 1 / (noise.transpose() * operation.Lag(moments, 0)).sum();
  if (std::abs(margin) >= kRoundings) {
    return are_covariances(operation, moments) ? margin : -std::abs(margin);
  }
  // Of a pole's moments roundings decide the sign.
  const Moments above(system, regimes, growth * (1 + kBeside));
  return are_covariances(above, stationary(above, {})) ? 0 : -kRoundings;
}

std::optional<double> ChainVariance(const DelaySystem& system, const Regimes& regimes) {
  const Moments moments(system, regimes, 1);
  MatrixXd noise(system.core() * system.core(), regimes.transition.rows());
  for (Index i = 0; i < noise.cols(); ++i) {
    const VectorXd& input = system.input(regimes.draws[static_cast<std::size_t>(i)][0].first);
    noise.col(i) = (regimes.shares(i) * input * input.transpose()).reshaped();
  }
  const VectorXd stationary = moments.Stationary(noise * regimes.transition, 1e-12);
  if (!moments.AreCovariances(stationary)) return std::nullopt;
  return moments.Lag(stationary, 0).row(0).sum();
}

}  // namespace batchless::analysis
