#include <span>

#include "optimizers/definition.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/muon.cpp"
#endif
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/small_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// The gradient that the pass finds is the orthogonal direction that Prepare made.
template <class L>
struct Muon {
  using Real = typename L::Real;
  static constexpr int kStates = 0;

  const Numbers<L>& own;
  L kept_weight = L::Set(own[3]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    return {e.gradient, L::Set(0), L::Mul(kept_weight, e.weight)};
  }

  // Five steps x <- (3.4445 - 4.7750 s + 2.0315 s s) x, s = x x', towards the orthogonal factor of
  // x (rows, columns), rows <= columns. Returns where it is then: x, or `other` of the same size.
  // `square`: room for two of (rows, rows).
  static Real* Orthogonalise(std::int64_t rows, std::int64_t columns, Real* x, Real* other,
                             Real* square) {
    double norm = 0;
    for (std::int64_t i = 0; i < rows * columns; ++i) norm += double{x[i]} * double{x[i]};
    const auto scale = static_cast<Real>(1 / (std::sqrt(norm) + 1e-7));
    for (std::int64_t i = 0; i < rows * columns; ++i) x[i] *= scale;
    Real* factors = square + rows * rows;
    for (int step = 0; step < 5; ++step) {
      Gram<L>(rows, columns, x, square);
      // The Gram matrix of a symmetric matrix is its square.
      Gram<L>(rows, rows, square, factors);
      for (std::int64_t i = 0; i < rows * rows; ++i) {
        factors[i] = Real(-4.7750) * square[i] + Real(2.0315) * factors[i];
      }
      for (std::int64_t i = 0; i < rows; ++i) factors[i * rows + i] += Real(3.4445);
      Product<L>(rows, rows, columns, factors, x, other);
      std::swap(x, other);
    }
    return x;
  }

  static void Prepare(const ParameterTensor& tensor, UpdateArguments<Real>& c, Real* workspace) {
    const std::int64_t outs = tensor.sizes[0];
    const std::int64_t ins = tensor.size() / outs;
    const Numbers<L>& own = c.coefficients.own;
    Real* direction = workspace;  // in the stage's order
    Real* x = direction + tensor.stored_size;
    Real* other = x + tensor.size();
    for (std::int64_t i = 0; i < c.size; ++i) {
      Real& velocity = c.states[0][i];
      velocity = own[0] * velocity + c.gradient[i];
      direction[i] = own[1] * velocity + own[2] * c.gradient[i];
    }
    const auto transpose = [&](std::int64_t rows, std::int64_t columns) {
      Transpose(rows, columns, x, other);
      std::swap(x, other);
    };
    const auto size = static_cast<std::size_t>(tensor.size());
    Unpack<Real>(tensor, direction, std::span<Real>(x, size));
    if (outs > ins) transpose(outs, ins);
    Real* result = Orthogonalise(std::min(outs, ins), std::max(outs, ins), x, other,
                                 workspace + tensor.stored_size + 2 * tensor.size());
    if (result == other) std::swap(x, other);
    if (outs > ins) transpose(ins, outs);
    const double ratio = static_cast<double>(outs) / static_cast<double>(ins);
    const auto scale = static_cast<Real>(std::sqrt(std::max(1.0, ratio)));
    for (std::size_t i = 0; i < size; ++i) x[i] *= scale;
    Pack<Real>(tensor, std::span<const Real>(x, size), direction);
    c.gradient = direction;
  }
};

OptimizerKernels MuonKernels() { return MakeKernels<Muon>(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(MuonKernels);

// As published the direction is that of Nesterov's momentum: spike compensation with d = 1.
void SetMuon(const OptimizerSpec& /*spec*/, const UpdatePoint& point, UpdateNumbers& numbers) {
  const bool is_plain = numbers.a == 1 && numbers.b == 0;
  numbers.own = {point.momentum, is_plain ? point.momentum : numbers.a, is_plain ? 1 : numbers.b,
                 1 - point.rate * point.weight_decay};
  numbers.a = 1;
  numbers.b = 0;
}

// The direction, the matrix twice, and two squares of its shorter side.
std::int64_t MuonWorkspace(const ParameterTensor& tensor) {
  const std::int64_t rows = std::min(tensor.sizes[0], tensor.size() / tensor.sizes[0]);
  return tensor.stored_size + 2 * tensor.size() + 2 * rows * rows;
}

}  // namespace

OptimizerDefinition MuonDefinition() {
  OptimizerDefinition muon{
      .row = {.name = "muon",
              .title = "Muon",
              .equation = "B' = m B + g; U = g + m B' (a B' + b g with compensation); "
                          "w' = (1 - eta wd) w - eta sqrt(max(1, rows/columns)) orthogonal(U), "
                          "by five Newton-Schulz steps; vectors by adamw",
              .source = "Jordan et al., Muon (2024); spike compensation is this project's",
              .reduces_to = "the same with compensation at D = 1",
              .arrays = {"velocity"},
              .hyperparameters = AdamwDefinition().row.hyperparameters,
              .learning_rate = 0.02,
              .for_vectors = "adamw"},
      .set = SetMuon,
      .kernels = HWY_DYNAMIC_DISPATCH(MuonKernels)(),
      .workspace_size = MuonWorkspace};
  muon.row.hyperparameters.push_back(
      {.name = "vector_lr_ratio",
       .initial = 1,
       .high = 1e6,
       .help = "rate of biases and norms, times lr, with muon and basis-rotation"});
  return muon;
}

}  // namespace batchless::training
#endif
