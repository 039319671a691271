#include <cmath>

#include "optimizers/definition.h"

#ifndef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/adam.cpp"
#endif
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include "optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// u = m / (sqrt(v_hat) + eps); the rate carries the bias correction of m.
template <class L>
struct Adam {
  static constexpr int kStates = 2;

  const Numbers<L>& own;
  L beta1 = L::Set(own[0]);
  L rest1 = L::Set(own[1]);
  L beta2 = L::Set(own[2]);
  L rest2 = L::Set(own[3]);
  L deviation_scale = L::Set(own[4]);
  L epsilon = L::Set(own[5]);
  L weight_decay = L::Set(own[6]);
  L kept_weight = L::Set(own[7]);

  HWY_INLINE Step<L> operator()(Element<L>& e) const {
    const L gradient = L::MulAdd(weight_decay, e.weight, e.gradient);
    const L last = L::Mul(rest1, gradient);
    L& m = e.states[0];
    L& v = e.states[1];
    m = L::MulAdd(beta1, m, last);
    v = L::MulAdd(beta2, v, L::Mul(L::Mul(rest2, gradient), gradient));
    const L scale = L::Div(L::Set(1), L::MulAdd(deviation_scale, L::Sqrt(v), epsilon));
    return {L::Mul(m, scale), L::Mul(last, scale), L::Mul(kept_weight, e.weight)};
  }
};

OptimizerKernels AdamKernels() { return MakeKernels<Adam>(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(AdamKernels);

// Decay is in the gradient, or of the weights.
template <bool kDecoupled>
void SetAdam(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  const double beta1 = spec.Value("beta1");
  const double beta2 = spec.Value("beta2");
  const auto t = static_cast<double>(point.past.alike + point.update);
  numbers.rate = point.rate / (1 - point.past.beta1_product * std::pow(beta1, t));
  numbers.own = {beta1,
                 1 - beta1,
                 beta2,
                 1 - beta2,
                 1 / std::sqrt(1 - point.past.beta2_product * std::pow(beta2, t)),
                 spec.Value("epsilon"),
                 kDecoupled ? 0 : point.weight_decay,
                 kDecoupled ? 1 - point.rate * point.weight_decay : 1};
}

}  // namespace

OptimizerDefinition AdamDefinition() {
  return {.row = {.name = "adam",
                  .title = "Adam",
                  .equation = "g += wd w; m' = b1 m + (1 - b1) g; v' = b2 v + (1 - b2) g g; "
                              "w' = w - eta u, u = m'/(1 - b1^t) / (sqrt(v'/(1 - b2^t)) + eps)",
                  .source =
                      "Kingma and Ba, arXiv 1412.6980; PyTorch. Look-ahead by T u as in XPipe and "
                      "PipeOptim; spike compensation of its numerator is this project's",
                  .reduces_to = "the sign of the gradient at b1 = b2 = 0 and eps near 0",
                  .arrays = {"mean gradient", "mean square"},
                  .hyperparameters = {{.name = "beta1",
                                       .initial = 0.9,
                                       .high_is_open = true,
                                       .help = "of the mean gradient"},
                                      {.name = "beta2",
                                       .initial = 0.999,
                                       .high_is_open = true,
                                       .help = "of the mean square"},
                                      {.name = "epsilon",
                                       .initial = 1e-8,
                                       .low_is_open = true,
                                       .help = "added to the root of the mean square"}},
                  .momentum = "beta1",
                  .learning_rate = 1e-3,
                  .counts_updates = true},
          .set = SetAdam<false>,
          .kernels = HWY_DYNAMIC_DISPATCH(AdamKernels)()};
}

OptimizerDefinition AdamwDefinition() {
  OptimizerDefinition adamw = AdamDefinition();
  adamw.row.name = "adamw";
  adamw.row.title = "AdamW";
  adamw.row.equation = "as adam, with w' = (1 - eta wd) w - eta u in place of wd in g";
  adamw.row.source = "Loshchilov and Hutter, arXiv 1711.05101; PyTorch. The rest as adam";
  adamw.row.reduces_to = "adam at wd = 0";
  adamw.set = SetAdam<true>;
  return adamw;
}

}  // namespace batchless::training
#endif
