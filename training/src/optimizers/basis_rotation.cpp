#include <cmath>
#include <span>

#include "optimizers/definition.h"
#include "optimizers/eigenbasis.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/basis_rotation.cpp"
#endif
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/small_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// The state and the gradient that the pass finds are u and p, which Prepare made.
template <class L>
struct BasisRotation {
  using Real = typename L::Real;
  static constexpr int kStates = 1;

  const Numbers<L>& own;
  L kept_weight = L::Set(own[7]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    return {e.states[0], e.gradient, L::Mul(kept_weight, e.weight)};
  }

  // U and V where a side is rotated, else null, and room for a matrix and for a square.
  struct Bases {
    Sides sides;
    const Real* left;
    const Real* right;
    Real* other;
    Real* square;

    // x becomes U' x V or, back, U x V'.
    void Rotate(Real*& x, bool is_back = false) {
      if (left != nullptr) {
        const Real* factors = is_back ? left : Transposed(sides.rows, left);
        Product<L>(sides.rows, sides.rows, sides.columns, factors, x, other);
        std::swap(x, other);
      }
      if (right != nullptr) {
        const Real* factors = is_back ? Transposed(sides.columns, right) : right;
        Product<L>(sides.rows, sides.columns, sides.columns, x, factors, other);
        std::swap(x, other);
      }
    }

    const Real* Transposed(std::int64_t side, const Real* basis) {
      Transpose(side, side, basis, square);
      return square;
    }
  };

  // The mean of x x' over the updates, x of (rows, columns), and every so often its eigenvectors.
  static void Follow(std::int64_t rows, std::int64_t columns, const Real* x, Real* square,
                     const Numbers<L>& own, Real* mean, Real* basis) {
    Gram<L>(rows, columns, x, square);
    for (std::int64_t i = 0; i < rows * rows; ++i) {
      mean[i] = own[2] * mean[i] + own[3] * square[i];
    }
    if (own[6] != 0 || !IsBasis(basis, rows)) TurnToEigenvectors(rows, mean, basis);
  }

  // Not before the tensor's first update by this optimizer, which may come on the way of a run.
  static bool IsBasis(const Real* basis, std::int64_t side) {
    return basis != nullptr &&
           std::any_of(basis, basis + side * side, [](Real v) { return v != 0; });
  }

  static void Prepare(const ParameterTensor& tensor, UpdateArguments<Real>& c, Real* workspace) {
    const Sides sides(tensor);
    const Numbers<L>& own = c.coefficients.own;
    const std::int64_t size = tensor.size();
    Real* u = workspace;  // this and p in the stage's order
    Real* p = u + tensor.stored_size;
    Real* gradient = p + tensor.stored_size;
    Real* mean = gradient + size;
    Real* variance = mean + size;
    const auto [left_mean, right_mean, left, right] = c.tensor_arrays;
    Bases bases{sides, IsBasis(left, sides.rows) ? left : nullptr,
                IsBasis(right, sides.columns) ? right : nullptr, variance + size,
                variance + 2 * size};
    for (std::int64_t i = 0; i < c.size; ++i) {
      c.states[0][i] = own[0] * c.states[0][i] + own[1] * c.gradient[i];
    }
    const auto span = [&](Real* x) { return std::span<Real>(x, static_cast<std::size_t>(size)); };
    Unpack<Real>(tensor, c.gradient, span(gradient));
    Unpack<Real>(tensor, c.states[0], span(mean));
    Unpack<Real>(tensor, c.states[1], span(variance));
    bases.Rotate(gradient);
    bases.Rotate(mean);
    for (std::int64_t i = 0; i < size; ++i) {
      variance[i] = own[2] * variance[i] + own[3] * gradient[i] * gradient[i];
      const Real deviation = own[4] * std::sqrt(variance[i]) + own[5];
      mean[i] /= deviation;
      gradient[i] *= own[1] / deviation;
    }
    Pack<Real>(tensor, span(variance), c.states[1]);
    // Padding stays zero.
    std::fill_n(u, 2 * tensor.stored_size, Real(0));
    bases.Rotate(mean, /*is_back=*/true);
    Pack<Real>(tensor, span(mean), u);
    if (c.coefficients.gradient_step != 0) {
      bases.Rotate(gradient, /*is_back=*/true);
      Pack<Real>(tensor, span(gradient), p);
    }
    // After the step: in a basis that is made of the gradient alone, its products are rounding errors,
    // which the division would make steps of full length.
    Unpack<Real>(tensor, c.gradient, span(gradient));
    if (left != nullptr) {
      Follow(sides.rows, sides.columns, gradient, bases.square, own, left_mean, left);
    }
    if (right != nullptr) {
      Transpose(sides.rows, sides.columns, gradient, bases.other);
      Follow(sides.columns, sides.rows, bases.other, bases.square, own, right_mean, right);
    }
    c.states[0] = u;
    c.gradient = p;
  }
};

OptimizerKernels BasisRotationKernels() { return MakeKernels<BasisRotation>(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(BasisRotationKernels);

constexpr std::int64_t kUpdatesOfBasis = 10;

// Adam's numbers, but for the decay of gradients, in whose place is whether bases turn.
void SetBasisRotation(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  static const auto set_adamw = AdamwDefinition().set;
  set_adamw(spec, point, numbers);
  numbers.own[6] = (point.past.count + point.update - 1) % kUpdatesOfBasis == 0 ? 1 : 0;
}

// Two directions in the stage's order, four matrices, and a square.
std::int64_t BasisRotationWorkspace(const ParameterTensor& tensor) {
  return 2 * tensor.stored_size + 4 * tensor.size() + Sides(tensor).largest_basis();
}

// Means and bases by turns of rows and columns.
std::vector<std::int64_t> BasisRotationArray(const ParameterTensor& tensor, std::size_t number) {
  const Sides sides(tensor);
  const bool is_left = number % 2 == 0;
  if (!(is_left ? sides.rotates_rows() : sides.rotates_columns())) return {};
  const std::int64_t side = is_left ? sides.rows : sides.columns;
  return {side, side};
}

}  // namespace

OptimizerDefinition BasisRotationDefinition() {
  return {
      .row = {.name = "basis-rotation",
              .title = "Basis rotation",
              .equation =
                  "m' = b1 m + (1 - b1) g; v' = b2 v + (1 - b2) (U^T g V)^2; "
                  "w' = (1 - eta wd) w - eta u, u = U (U^T m' V/(1 - b1^t) / "
                  "(sqrt(v'/(1 - b2^t)) + eps)) V^T; then L' = b2 L + (1 - b2) g g^T, "
                  "R' = b2 R + (1 - b2) g^T g, and every 10 updates U, V: at first eigenvectors "
                  "of L', R', later Q of L' U, R' V; no rotation of a side above 1024; "
                  "vectors by adamw",
              .source =
                  "arXiv 2602.03515, by its equations and not its code. Bases after the step, "
                  "those of what no gradient has had yet, the bound on sides, and rules on top, "
                  "as for adam, are this project's",
              .reduces_to = "adamw at its first update, and where both sides are above 1024, or 1",
              .arrays = {"mean gradient", "mean square in the bases"},
              .tensor_arrays = {"mean of rows", "mean of columns", "basis of rows",
                                "basis of columns"},
              .hyperparameters = MuonDefinition().row.hyperparameters,
              .momentum = "beta1",
              .learning_rate = 1e-3,
              .for_vectors = "adamw",
              .counts_updates = true},
      .set = SetBasisRotation,
      .kernels = HWY_DYNAMIC_DISPATCH(BasisRotationKernels)(),
      .workspace_size = BasisRotationWorkspace,
      .tensor_array_shape = BasisRotationArray};
}

}  // namespace batchless::training
#endif
