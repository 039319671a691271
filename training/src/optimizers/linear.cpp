#include "optimizers/definition.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/linear.cpp"
#endif
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// With E(z) = D(z)/(z - 1) = z^2 + e1 z + e2 a step is q(z) = N(z)/E(z) g(z), in the transposed form
// that needs no older weights or gradients:
//
//   q = n0 g + s1,   s1' = n1 g - e1 q + s2,   s2' = n2 g - e2 q
template <class L>
struct Linear {
  static constexpr int kStates = 2;

  const Numbers<L>& own;
  L n0 = L::Set(own[0]);
  L n1 = L::Set(own[1]);
  L n2 = L::Set(own[2]);
  L minus_e1 = L::Set(own[3]);
  L minus_e2 = L::Set(own[4]);
  L weight_decay = L::Set(own[5]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L gradient = L::MulAdd(weight_decay, e.weight, e.gradient);
    L& s1 = e.states[0];
    L& s2 = e.states[1];
    const L q = L::MulAdd(n0, gradient, s1);
    s1 = L::MulAdd(n1, gradient, L::MulAdd(minus_e1, q, s2));
    s2 = L::MulAdd(n2, gradient, L::Mul(minus_e2, q));
    return {q, gradient, e.weight};
  }
};

OptimizerKernels LinearKernels() { return MakeKernels<Linear>(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(LinearKernels);

void SetLinear(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  const analysis::RuleOptions& rule = spec.by_delay.at(point.delay).options;
  const auto degree = static_cast<std::ptrdiff_t>(rule.denominator.size()) - 1;
  // N and E in falling powers from z^2; a factor z in both changes nothing.
  std::array<double, kMaxLinearOrder> n{};
  std::copy_backward(rule.numerator.begin(), rule.numerator.end(), n.begin() + degree);
  std::array<double, kMaxLinearOrder> e{};
  double sum = 0;
  for (std::ptrdiff_t k = 0; k < degree; ++k) e[k] = sum += rule.denominator[k];
  numbers.own = {n[0], n[1], n[2], -e[1], -e[2], point.weight_decay};
}

}  // namespace

const OptimizerDefinition& LinearDefinition() {
  static const OptimizerDefinition definition{
      .row = {.name = "linear",
              .title = "Linear",
              .equation = "g += wd w; w(z) = -eta N(z)/D(z) g(z), D of degree 3 at most, a "
                          "quotient for each delay from optimizer.file",
              .source = "this project; batchless design finds the fastest ones",
              .reduces_to = "sgdm at N = z, D = (z - 1)(z - m); under a delay of all stages alike "
                            "with stashed weights, lwp-w+sc for that rule's quotient",
              .arrays = {"first delayed sum", "second delayed sum"},
              .momentum = "",
              .takes_quotients = true},
      .set = SetLinear,
      .kernels = HWY_DYNAMIC_DISPATCH(LinearKernels)()};
  return definition;
}

}  // namespace batchless::training
#endif
