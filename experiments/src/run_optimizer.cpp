#include "run_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/training/hyperparameter_scaling.h"
#include "quotient_file.h"

namespace batchless {
namespace {

constexpr double kDefaultMomentum = 0.9;

// Adam and its kin, whose betas scale to the batch, and the rate by a power of it.
bool HasBetas(const training::Optimizer& optimizer) { return optimizer.momentum == "beta1"; }

constexpr double kDefaultReferenceExponent = 0.5;

// With reference_lr; of an optimizer that has betas.
training::AdamHyperparameters ScaledAdam(const Configuration& c,
                                         const training::OptimizerSpec& reference) {
  const auto& o = c.optimizer;
  return InSection("optimizer", [&] {
    return training::ScaleToBatch({.learning_rate = *o.reference_lr,
                                   .beta1 = reference.Value("beta1"),
                                   .beta2 = reference.Value("beta2"),
                                   .batch = *o.reference_batch},
                                  o.batch,
                                  o.reference_exponent.value_or(kDefaultReferenceExponent));
  });
}

// A scaled decay that the precision holds no more: nothing is left of it after an update.
double HeldDecay(const Configuration& c, double decay) {
  const bool is_held =
      c.run.precision == "double" || decay >= double{std::numeric_limits<float>::min()};
  return is_held ? decay : 0;
}

// As it is given.
training::OptimizerSpec GivenOptimizer(const Configuration& c) {
  training::OptimizerSpec spec{training::FindOptimizer(c.optimizer.kind), {}};
  for (const auto& [name, value] : c.optimizer.hyperparameters) {
    if (value) spec.values.emplace(name, *value);
  }
  return spec;
}

bool TakesMomentum(const training::Optimizer& optimizer) {
  return optimizer.momentum == "momentum";
}

}  // namespace

double CeilOfProduct(double a, double b) {
  constexpr double kRounding = 1e-12;
  const double nearest = std::round(a * b);
  return std::abs(a * b - nearest) <= kRounding * std::abs(nearest) ? nearest : std::ceil(a * b);
}

training::OptimizerSpec OptimizerOf(const Configuration& c) {
  training::OptimizerSpec spec = GivenOptimizer(c);
  if (HasBetas(spec.optimizer) && c.optimizer.reference_lr && c.optimizer.reference_batch) {
    InSection("optimizer", [&] { training::Validate(spec); });
    const training::AdamHyperparameters scaled = ScaledAdam(c, spec);
    spec.values["beta1"] = HeldDecay(c, scaled.beta1);
    spec.values["beta2"] = HeldDecay(c, scaled.beta2);
  }
  if (!c.optimizer.file.empty()) {
    spec.by_delay = ReadQuotientFile("optimizer.file", c.optimizer.file);
  }
  return spec;
}

RateAndMomentum RateAndMomentumOf(const Configuration& c) {
  const auto& o = c.optimizer;
  const training::OptimizerSpec given = GivenOptimizer(c);
  const training::Optimizer& optimizer = given.optimizer;
  RefuseIf(o.reference_exponent && !(HasBetas(optimizer) && o.reference_lr),
           "optimizer.reference_exponent", o.reference_exponent,
           "nothing but with reference_lr and an optimizer.kind that has beta1 and no "
           "momentum");
  if (!TakesMomentum(optimizer)) {
    for (const auto& [name, value] : {std::pair("momentum", o.momentum),
                                      std::pair("reference_momentum", o.reference_momentum)}) {
      // A quotient has the drift of some momentum, by which reference rates scale.
      const bool is_taken = optimizer.takes_quotients && std::string_view(name) != "momentum";
      RefuseIf(value && !is_taken, fmt::format("optimizer.{}", name), value,
               fmt::format("nothing with optimizer.kind = {}, which has lr and {}", o.kind,
                           optimizer.momentum.empty() ? "file" : optimizer.momentum));
    }
  }
  if (!o.reference_lr && !o.reference_momentum && !o.reference_batch) {
    return {o.lr.value_or(optimizer.learning_rate), o.momentum.value_or(kDefaultMomentum)};
  }
  const bool has_betas = HasBetas(optimizer);
  RefuseIf(
      o.reference_lr && !has_betas && !optimizer.for_vectors.empty(), "optimizer.reference_lr",
      o.reference_lr,
      fmt::format("nothing with optimizer.kind = {}, whose steps have a given length", o.kind));
  const char* const accepted =
      has_betas ? "either lr, or reference_lr and reference_batch"
                : "either lr and momentum, or reference_lr, reference_momentum and reference_batch";
  RefuseIf(o.lr || o.momentum, o.lr ? "optimizer.lr" : "optimizer.momentum",
           o.lr ? o.lr : o.momentum, accepted);
  for (const auto& [name, is_there] :
       {std::pair("reference_lr", o.reference_lr.has_value()),
        std::pair("reference_momentum", has_betas || o.reference_momentum.has_value()),
        std::pair("reference_batch", o.reference_batch.has_value())}) {
    RefuseIf(!is_there, fmt::format("optimizer.{}", name), "nothing", accepted);
  }
  if (has_betas) return {ScaledAdam(c, given).learning_rate, kDefaultMomentum};
  const training::Hyperparameters scaled = InSection("optimizer", [&] {
    return training::ScaleToBatch({*o.reference_lr, *o.reference_momentum, *o.reference_batch},
                                  o.batch);
  });
  RefuseIf(!(scaled.momentum < 1), "optimizer.reference_batch", o.reference_batch,
           fmt::format("one from which the momentum scales to less than 1 at batch {}", o.batch));
  return {scaled.learning_rate, HeldDecay(c, scaled.momentum)};
}

// Defaults are in every resolved file.
void CheckRateSchedule(const Configuration& c) {
  const Configuration defaults;
  const auto& o = c.optimizer;
  const auto refuse = [](const char* key, const std::string& value, const char* schedules) {
    throw UsageError(fmt::format("optimizer.{}", key), value,
                     fmt::format("nothing but with optimizer.schedule = {}", schedules));
  };
  const bool is_one_cycle = o.schedule == "one-cycle";
  const bool is_steps = o.schedule == "steps";
  const auto refuse_unless = [&](bool is_read, const char* key, double value, double initial,
                                 const char* schedules) {
    if (!is_read && value != initial) refuse(key, analysis::ToText(value), schedules);
  };
  refuse_unless(is_one_cycle, "start", o.start, defaults.optimizer.start, "one-cycle");
  refuse_unless(is_one_cycle, "peak", o.peak, defaults.optimizer.peak, "one-cycle");
  refuse_unless(!is_steps, "final", o.final, defaults.optimizer.final,
                "cosine, warmup-cosine or one-cycle");
  if (!is_steps && !o.decay_points.empty()) {
    refuse("decay_points", fmt::format("[{}]", fmt::join(o.decay_points, ", ")), "steps");
  }
  RefuseIf(o.decay_points.empty() && o.decay_factor != defaults.optimizer.decay_factor,
           "optimizer.decay_factor", o.decay_factor, "nothing without optimizer.decay_points");
}

training::LearningRate LearningRateOf(const Configuration& c, std::int64_t samples) {
  const auto& o = c.optimizer;
  training::LearningRate rate;
  rate.base = RateAndMomentumOf(c).rate;
  rate.samples = samples;
  rate.start = o.start;
  rate.final = o.final;
  rate.peak_fraction = o.peak;
  rate.warm_up_samples = o.warmup_samples;
  RefuseIf(o.warmup_samples > samples, "optimizer.warmup_samples", o.warmup_samples,
           fmt::format("0 to {}, the samples of the run", samples));
  if (o.schedule == "cosine") rate.shape = training::LearningRateShape::kCosine;
  if (o.schedule == "warmup-cosine") rate.shape = training::LearningRateShape::kWarmUpCosine;
  if (o.schedule == "one-cycle") rate.shape = training::LearningRateShape::kOneCycle;
  if (o.schedule == "steps") {
    RefuseIf(!std::is_sorted(o.decay_points.begin(), o.decay_points.end()),
             "optimizer.decay_points", fmt::format("[{}]", fmt::join(o.decay_points, ", ")),
             "numbers from 0 to 1 in ascending order");
    for (const double point : o.decay_points) {
      const double sample = CeilOfProduct(point, static_cast<double>(samples));
      rate.drops.push_back({static_cast<std::int64_t>(sample), o.decay_factor});
    }
  }
  return rate;
}

void FillInOptimizer(Configuration& c, const training::Optimizer& optimizer,
                     const RateAndMomentum& trained) {
  auto& o = c.optimizer;
  if (!o.reference_lr) {
    o.lr = trained.rate;
    if (TakesMomentum(optimizer)) o.momentum = trained.momentum;
  } else if (HasBetas(optimizer) && !o.reference_exponent) {
    o.reference_exponent = kDefaultReferenceExponent;
  }
  for (const training::Hyperparameter& h : optimizer.hyperparameters) {
    std::optional<double>& value = o.hyperparameters[std::string(h.name)];
    if (!value) value = h.initial;
  }
}

}  // namespace batchless
