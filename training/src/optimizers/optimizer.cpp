#include "batchless/training/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "batchless/analysis/argument.h"
#include "optimizers/definition.h"

namespace batchless::training {
namespace {

using analysis::InvalidArgument;
using analysis::RefuseIf;

// The table of optimizers.
const auto& Definitions() {
  static const std::array definitions{
      SgdmDefinition(),          AdamDefinition(),        AdamwDefinition(),
      NadamDefinition(),         NadamwDefinition(),      AdaptiveBrakingDefinition(),
      DcAsgdDefinition(),        GapAwareDefinition(),    PipemareDefinition(),
      CgadDefinition(),          EmaNesterovDefinition(), MuonDefinition(),
      BasisRotationDefinition(), LinearDefinition(),
  };
  return definitions;
}

std::string AcceptedText(const Hyperparameter& h) {
  return "a number from " + std::string(h.low_is_open ? "above " : "") + analysis::ToText(h.low) +
         " to " + (h.high_is_open ? "below " : "") + analysis::ToText(h.high);
}

bool Contains(const Hyperparameter& h, double value) {
  return (h.low_is_open ? value > h.low : value >= h.low) &&
         (h.high_is_open ? value < h.high : value <= h.high);
}

}  // namespace

const Hyperparameter* FindHyperparameter(const Optimizer& optimizer, std::string_view name) {
  const auto found = std::ranges::find(optimizer.hyperparameters, name, &Hyperparameter::name);
  return found == optimizer.hyperparameters.end() ? nullptr : &*found;
}

double MomentumOf(const Optimizer& row, const OptimizerSpec& spec, double momentum) {
  if (row.momentum.empty()) return 0;
  return row.momentum == "momentum" ? momentum : spec.Value(row.momentum);
}

namespace {

template <class Real>
UpdateCoefficients<Real> CoefficientsOf(const OptimizerDefinition& definition,
                                        const OptimizerSpec& spec, const analysis::RuleSpec& rule,
                                        const UpdatePoint& point) {
  const analysis::Coefficients<double> c = analysis::ComputeCoefficients<double>(
      rule, MomentumOf(definition.row, spec, point.momentum), point.delay);
  UpdateNumbers numbers{.rate = point.rate, .a = c.a, .b = c.b};
  definition.set(spec, point, numbers);
  UpdateCoefficients<Real> update;
  update.state_step = static_cast<Real>(-numbers.rate * numbers.a);
  update.gradient_step = static_cast<Real>(-numbers.rate * numbers.b);
  if (point.horizons) {
    update.forward_horizon.velocity = static_cast<Real>(-numbers.rate * point.horizons->forward);
    update.backward_horizon.velocity = static_cast<Real>(-numbers.rate * point.horizons->backward);
  } else if (rule.rule.prediction == analysis::Prediction::kVelocity) {
    update.forward_horizon.velocity = static_cast<Real>(-numbers.rate * c.horizon);
  } else if (rule.rule.prediction == analysis::Prediction::kWeight) {
    update.forward_horizon.weight = static_cast<Real>(c.horizon);
  }
  std::transform(numbers.own.begin(), numbers.own.end(), update.own.begin(),
                 [](double number) { return static_cast<Real>(number); });
  return update;
}

}  // namespace

std::vector<Optimizer> Optimizers() {
  std::vector<Optimizer> rows;
  for (const OptimizerDefinition& definition : Definitions()) rows.push_back(definition.row);
  return rows;
}

const Optimizer& FindOptimizer(std::string_view name) {
  static const std::vector<Optimizer> rows = Optimizers();
  return analysis::FindRow(rows, "optimizer", name);
}

double OptimizerSpec::Value(std::string_view name) const {
  if (const auto given = values.find(name); given != values.end()) return given->second;
  const Hyperparameter* hyperparameter = FindHyperparameter(optimizer, name);
  if (hyperparameter != nullptr) return hyperparameter->initial;
  throw InvalidArgument(name, "nothing", "a hyperparameter of " + std::string(optimizer.name));
}

void Validate(const OptimizerSpec& spec) {
  const std::string by_name = " with the optimizer " + std::string(spec.optimizer.name);
  for (const auto& [name, value] : spec.values) {
    const Hyperparameter* hyperparameter = FindHyperparameter(spec.optimizer, name);
    RefuseIf(hyperparameter == nullptr, name, value, "nothing" + by_name);
    RefuseIf(!Contains(*hyperparameter, value), name, value, AcceptedText(*hyperparameter));
  }
  const bool takes_quotients = spec.optimizer.takes_quotients;
  RefuseIf(!takes_quotients && !spec.by_delay.empty(), "by_delay", "quotients of polynomials",
           "none" + by_name);
  RefuseIf(takes_quotients && spec.by_delay.empty(), "by_delay", "nothing",
           "a quotient of polynomials for each delay" + by_name);
  for (const auto& [delay, rule] : spec.by_delay) {
    analysis::Validate(rule);
    const std::size_t order = rule.options.denominator.size() - 1;
    RefuseIf(!rule.is_linear() || order > kMaxLinearOrder, "by_delay",
             "order " + std::to_string(order) + " at delay " + std::to_string(delay),
             "a linear rule of order 1 to " + std::to_string(kMaxLinearOrder) + by_name);
  }
}

std::vector<std::string_view> ArraysThatGoOn(const Optimizer& before, const Optimizer& after,
                                             std::size_t dimensions) {
  const Optimizer& first = DefinitionFor(before, dimensions).row;
  const Optimizer& second = DefinitionFor(after, dimensions).row;
  std::vector<std::string_view> shared;
  bool are_all = true;
  for (const auto arrays : {&Optimizer::arrays, &Optimizer::tensor_arrays}) {
    for (const std::string_view name : second.*arrays) {
      const std::vector<std::string_view>& there = first.*arrays;
      const bool is_there = std::find(there.begin(), there.end(), name) != there.end();
      if (is_there) shared.push_back(name);
      are_all = are_all && is_there;
    }
  }
  if (second.counts_updates && !are_all) return {};
  return shared;
}

PastUpdates PastAfter(const OptimizerSpec& before, const PastUpdates& past, std::int64_t updates,
                      const OptimizerSpec& after, std::size_t dimensions) {
  const bool counts = DefinitionFor(after.optimizer, dimensions).row.counts_updates;
  if (!counts || ArraysThatGoOn(before.optimizer, after.optimizer, dimensions).empty()) return {};
  PastUpdates all = past;
  all.count += updates;
  all.alike += updates;
  // An optimizer of one's own may count its updates for other ends than the means of Adam.
  const auto decay = [](const OptimizerSpec& spec, std::string_view name) {
    return FindHyperparameter(spec.optimizer, name) == nullptr ? 1.0 : spec.Value(name);
  };
  const double beta1 = decay(before, "beta1");
  const double beta2 = decay(before, "beta2");
  if (beta1 == decay(after, "beta1") && beta2 == decay(after, "beta2")) return all;
  const auto power = static_cast<double>(std::exchange(all.alike, 0));
  all.beta1_product *= std::pow(beta1, power);
  all.beta2_product *= std::pow(beta2, power);
  return all;
}

const OptimizerDefinition& DefinitionOf(const Optimizer& optimizer) {
  if (optimizer.own) return *optimizer.own;
  for (const OptimizerDefinition& definition : Definitions()) {
    if (definition.row.name == optimizer.name) return definition;
  }
  throw std::logic_error("no optimizer is named " + std::string(optimizer.name));
}

const OptimizerDefinition& DefinitionFor(const Optimizer& optimizer, std::size_t dimensions) {
  const bool is_vector = dimensions < 2 && !optimizer.for_vectors.empty();
  return DefinitionOf(is_vector ? FindOptimizer(optimizer.for_vectors) : optimizer);
}

template <class Real>
StageCoefficients<Real> MakeCoefficients(const OptimizerSpec& spec, const analysis::RuleSpec& rule,
                                         const UpdatePoint& point) {
  StageCoefficients<Real> c;
  c.matrices = CoefficientsOf<Real>(DefinitionOf(spec.optimizer), spec, rule, point);
  c.vectors = c.matrices;
  const bool has_own = !spec.optimizer.for_vectors.empty();
  if (!has_own && point.past_of_vectors == point.past) return c;
  UpdatePoint of_vectors = point;
  of_vectors.past = point.past_of_vectors;
  if (has_own) of_vectors.rate *= spec.Value("vector_lr_ratio");
  c.vectors = CoefficientsOf<Real>(DefinitionFor(spec.optimizer, 1), spec, rule, of_vectors);
  return c;
}

template StageCoefficients<float> MakeCoefficients(const OptimizerSpec&, const analysis::RuleSpec&,
                                                   const UpdatePoint&);
template StageCoefficients<double> MakeCoefficients(const OptimizerSpec&, const analysis::RuleSpec&,
                                                    const UpdatePoint&);

}  // namespace batchless::training
