// NAdam: Adam whose step looks ahead along the mean gradient, by momenta that rise with the updates.
//
//   mu_t = b1 (1 - 0.5 * 0.96^(psi t)),   P_t = mu_1 mu_2 ... mu_t
//   w'   = w - eta (mu_{t+1} m' / (1 - P_{t+1}) + (1 - mu_t) g / (1 - P_t)) / (sqrt(v_hat) + eps)
//
//   t    number of the update, from 1      psi   momentum_decay, 0.004 in PyTorch
//
// State and look-ahead are Adam's. Spike compensation for D updates carries what each of the two terms
// has done by then over to the late gradient: a m^D of the first, and the second with a (1 - m^D)/(1 - m)
// of the first added, m = b1.
#include <cmath>

#include "optimizers/definition.h"

namespace batchless::training {
namespace {

constexpr double kLogOfBase = -0.040821994520255166;  // log 0.96

// P_t as a function of t and of b1^t alone, so that a run that is resumed finds the same bits:
//   log P_t = log b1^t + sum_i log(1 - q^i / 2) = log b1^t - sum_k q^k (1 - q^(k t)) / (1 - q^k) / (k 2^k)
// with q = 0.96^psi. All terms of the sum over k are positive and at most t / 2^k, so the first 64 leave
// less than t 2^-64, and rounding a few units of the sum's last place. Each is less than half of the one
// before: behind one that the sum does not feel there is none that it does.
double ProductOfMomenta(double log_beta1_power, double momentum_decay, double t) {
  // P_t is at most b1^t, which is then less than half of the last place of 1.
  if (log_beta1_power < -40) return 0;
  const double log_q = momentum_decay * kLogOfBase;
  double sum = 0;
  double weight = 1;
  for (int k = 1; k <= 64; ++k) {
    weight /= 2;
    const double log_power = k * log_q;
    const double powers =
        log_q == 0 ? t : std::exp(log_power) * std::expm1(t * log_power) / std::expm1(log_power);
    const double term = weight / k * powers;
    if (sum + term == sum) break;
    sum += term;
  }
  return std::exp(log_beta1_power - sum);
}

double MomentumAt(double beta1, double momentum_decay, double t) {
  return beta1 * (1 - 0.5 * std::exp(t * momentum_decay * kLogOfBase));
}

template <OptimizerDefinition (*kAdam)()>
void Set(const OptimizerSpec& spec, const UpdatePoint& point, UpdateNumbers& numbers) {
  static const auto set_adam = kAdam().set;
  set_adam(spec, point, numbers);
  const double beta1 = spec.Value("beta1");
  const double decay = spec.Value("momentum_decay");
  const auto t = static_cast<double>(point.past.count + point.update);
  const auto alike = static_cast<double>(point.past.alike + point.update);
  const double now = MomentumAt(beta1, decay, t);
  const double next = MomentumAt(beta1, decay, t + 1);
  const double log_of_earlier = std::log(point.past.beta1_product);
  const double product = ProductOfMomenta(log_of_earlier + alike * std::log(beta1), decay, t);
  // Adam's rate is that of m / (1 - b1^t), and the gradient comes as (1 - b1) g.
  const double correction = 1 - point.past.beta1_product * std::pow(beta1, alike);
  const double of_mean = next * correction / (1 - product * next);
  const double of_gradient = (1 - now) * correction / ((1 - product) * (1 - beta1));
  numbers.b = of_gradient + of_mean * numbers.b;
  numbers.a *= of_mean;
}

OptimizerDefinition MakeDefinition(OptimizerDefinition nadam) {
  nadam.row.equation =
      "as adam, with w' = w - eta (mu_{t+1} m'/(1 - P_{t+1}) + (1 - mu_t) g/(1 - P_t)) / "
      "(sqrt(v'/(1 - b2^t)) + eps), mu_t = b1 (1 - 0.5 * 0.96^(psi t)), P_t = mu_1 ... mu_t, psi "
      "momentum_decay";
  nadam.row.source =
      "Dozat, Incorporating Nesterov Momentum into Adam (2016; recalled); PyTorch. The rest as "
      "adam";
  nadam.row.reduces_to =
      "adam at b1 = 0; adam with the rule nesterov for late updates and large psi";
  nadam.row.hyperparameters.push_back({.name = "momentum_decay",
                                       .initial = 0.004,
                                       .high = 1e6,
                                       .help = "psi, by which nadam's momenta rise to beta1"});
  nadam.row.learning_rate = 2e-3;
  return nadam;
}

}  // namespace

OptimizerDefinition NadamDefinition() {
  OptimizerDefinition nadam = MakeDefinition(AdamDefinition());
  nadam.row.name = "nadam";
  nadam.row.title = "NAdam";
  nadam.set = Set<AdamDefinition>;
  return nadam;
}

OptimizerDefinition NadamwDefinition() {
  OptimizerDefinition nadamw = MakeDefinition(AdamwDefinition());
  nadamw.row.name = "nadamw";
  nadamw.row.title = "NAdamW";
  nadamw.row.equation = "as nadam, with (1 - eta wd) w in place of w and of wd in g";
  nadamw.row.reduces_to = "nadam at wd = 0; adamw at b1 = 0";
  nadamw.row.also =
      "asynchronous Nesterov in training (Ajanthan et al., arXiv 2505.01099; secondary reading): "
      "beta1 = 0.99";
  nadamw.set = Set<AdamwDefinition>;
  return nadamw;
}

}  // namespace batchless::training
