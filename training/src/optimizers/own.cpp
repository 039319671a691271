// The pass over memory of optimizers of the user's own: a piece at a time, their loop says what u, p and
// w0 are, and the rest is as for all others.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "optimizers/definition.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/own.cpp"
#endif
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// States u and w0, with p in the gradient's place.
template <class L>
struct Given {
  static constexpr int kStates = 2;

  const Numbers<L>& own;

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    return {e.states[0], e.gradient, e.states[1]};
  }
};

template <class L>
void UpdateOwn(const UpdateArguments<typename L::Real>& c) {
  using Real = typename L::Real;
  constexpr std::int64_t kPiece = 256;
  struct alignas(64) Block : std::array<Real, kPiece> {};
  Block u;
  Block p;
  Block w0;
  std::array<Block, kMaxStates> none{};
  UpdateArguments<Real> rest = c;
  for (std::int64_t i = 0; i < c.size; i += kPiece) {
    const auto from = [i](Real* array) { return array == nullptr ? nullptr : array + i; };
    const auto state = [&](int s) {
      return c.states[s] == nullptr ? none[s].data() : c.states[s] + i;
    };
    rest.size = std::min(kPiece, c.size - i);
    c.own(c.coefficients.own, rest.size, c.gradient + i, c.weights + i, state(0), state(1),
          u.data(), p.data(), w0.data());
    rest.gradient = p.data();
    rest.weights = c.weights + i;
    rest.states = {u.data(), w0.data()};
    rest.forward = from(c.forward);
    rest.backward = from(c.backward);
    for (std::size_t k = 0; k < c.copies.size(); ++k) {
      rest.copies[k].weights = from(c.copies[k].weights);
    }
    Update<Given, L>(rest);
  }
}

OptimizerKernels OwnKernels() {
  return {.single = {UpdateOwn<Number<float, false>>},
          .twofold = {UpdateOwn<Number<double, false>>},
          .vectors = {UpdateOwn<Lanes<kBlock>>}};
}

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(OwnKernels);

void SetOwn(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  numbers.own = spec.optimizer.own->own.numbers(spec, point);
}

void Validate(const Optimizer& row) {
  const auto refuse_if = [](bool refused, std::string_view field, std::string_view got,
                            const std::string& accepted) {
    analysis::RefuseIf(refused, field, got, accepted + " with an optimizer of one's own");
  };
  const std::vector<Optimizer> table = Optimizers();
  const bool is_known = std::any_of(table.begin(), table.end(),
                                    [&row](const Optimizer& of) { return of.name == row.name; });
  refuse_if(row.name.empty() || is_known, "name", row.name,
            "a name that no optimizer of the table has");
  const auto count = static_cast<int>(row.arrays.size());
  refuse_if(count > kMaxStates, "arrays", std::to_string(count),
            "at most " + std::to_string(kMaxStates) + " names");
  for (const std::string_view array : row.tensor_arrays) {
    refuse_if(true, "tensor_arrays", array, "none");
  }
  refuse_if(!row.for_vectors.empty(), "for_vectors", row.for_vectors, "none");
  refuse_if(row.keeps_forward_weights, "keeps_forward_weights", "true", "false");
  refuse_if(row.sets_backward_weights, "sets_backward_weights", "true", "false");
  refuse_if(row.takes_quotients, "takes_quotients", "true", "false");
  refuse_if(!row.momentum.empty() && row.momentum != "momentum" &&
                FindHyperparameter(row, row.momentum) == nullptr,
            "momentum", row.momentum, "nothing, momentum, or a hyperparameter");
}

}  // namespace

Optimizer MakeOptimizer(Optimizer row, const OwnFunctions& functions) {
  Validate(row);
  row.own = std::make_shared<const OptimizerDefinition>(OptimizerDefinition{
      .row = row, .set = SetOwn, .kernels = HWY_DYNAMIC_DISPATCH(OwnKernels)(), .own = functions});
  return row;
}

}  // namespace batchless::training
#endif
