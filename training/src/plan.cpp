#include "plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/memory_plan.h"
#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/hwmodel/stage_groups.h"
#include "batchless/hwmodel/steady_state.h"
#include "batchless/training/stage.h"
#include "engine/gradient_exchange.h"
#include "engine/gradient_sum.h"
#include "engine/stage_parameters.h"

namespace batchless::training {
namespace {

using analysis::InvalidArgument;
using analysis::RefuseIf;
using hwmodel::ActionKind;
using hwmodel::WeightVersions;

constexpr std::int64_t kMaxBatch = 1 << 20;
constexpr int kMaxWorkers = 1024;

void ValidateBatch(const TrainerOptions& options) {
  analysis::CheckInteger("batch", options.batch, 1, kMaxBatch);
  RefuseIf(options.microbatch < 1 || options.batch % options.microbatch != 0, "microbatch",
           options.microbatch, "a divisor of the batch, " + std::to_string(options.batch));
  RefuseIf(HasLayer(options.network, hwmodel::LayerKind::kBatchNormalization) &&
               (options.microbatch != options.batch || options.batch == 1),
           "microbatch", options.microbatch,
           "the whole batch, of more than one sample, with batch normalisation");
}

// The processes of one replica, which share the stages.
int PipelineProcesses(const TrainerOptions& options) {
  return options.processes == nullptr ? 1 : options.processes->size() / options.replicas;
}

void ValidateReplicas(const TrainerOptions& options) {
  const std::int64_t microbatches = options.batch / options.microbatch;
  RefuseIf(
      options.gradient_parts < 1 || microbatches % options.gradient_parts != 0, "gradient_parts",
      options.gradient_parts,
      "a divisor of the number of micro-batches of an update, " + std::to_string(microbatches));
  RefuseIf(options.replicas < 1 || options.gradient_parts % options.replicas != 0, "replicas",
           options.replicas,
           microbatches == 1
               ? "1 where an update is one micro-batch, which replicas cannot share"
               : "a divisor of gradient_parts, " + std::to_string(options.gradient_parts));
  if (options.processes == nullptr) return;
  const int processes = options.processes->size();
  RefuseIf(processes % options.replicas != 0, "replicas",
           std::to_string(options.replicas) + " in " + std::to_string(processes) + " processes",
           "a divisor of the number of processes");
}

// Parts of an update are summed on their own where nothing else depends on when they are done.
void ValidateParts(const TrainerOptions& options, const PipelinePlan& plan) {
  const bool is_apart = plan.drains || DrainCycles(plan.program) == 0;
  RefuseIf(
      options.gradient_parts > 1 && !is_apart, "gradient_parts", options.gradient_parts,
      "1 with a schedule that neither drains after each update nor double-buffers its weights");
}

// Every stage updates after whole mini-batches, from the first on.
void ValidateUpdates(const TrainerOptions& options, const hwmodel::SteadyState& steady) {
  for (const std::vector<hwmodel::SteadyAction>& worker : steady.workers) {
    std::vector<std::int64_t> updates(steady.stages);
    for (const hwmodel::SteadyAction& action : worker) {
      if (action.kind == ActionKind::kUpdate) ++updates[action.stage];
    }
    for (const hwmodel::SteadyAction& action : worker) {
      const std::int64_t per_update = steady.microbatches_per_cycle / updates[action.stage];
      if (action.kind == ActionKind::kUpdate && (action.offset + 1) % per_update != 0) {
        throw InvalidArgument(
            "schedule",
            "an update of stage " + std::to_string(action.stage) + " after another micro-batch",
            "updates after every " + std::to_string(per_update) +
                " micro-batches, from the first on");
      }
      const std::int64_t samples = per_update * options.microbatch * options.replicas;
      if (options.batch != samples) {
        const std::string in_each =
            options.replicas > 1 ? " in each of " + std::to_string(options.replicas) + " replicas"
                                 : "";
        throw InvalidArgument(
            "batch", std::to_string(options.batch),
            std::to_string(samples) + ", which stage " + std::to_string(action.stage) +
                " of the schedule updates after: " + std::to_string(per_update) +
                " micro-batches of " + std::to_string(options.microbatch) + in_each);
      }
    }
  }
}

void ValidateCosts(const TrainerOptions& options) {
  const std::vector<double>& costs = options.stage_costs;
  const int stages = options.network.stage_count();
  RefuseIf(!costs.empty() && std::ssize(costs) != stages, "stage_costs", std::ssize(costs),
           "one for each of the " + std::to_string(stages) + " stages, or none");
  for (const double cost : costs) {
    RefuseIf(!(cost >= 0) || !std::isfinite(cost), "stage_costs", cost,
             "finite numbers that are not negative");
  }
}

void ValidateWorkers(const TrainerOptions& options) {
  const int processes = PipelineProcesses(options);
  const int stages = options.network.stage_count();
  const int most = std::min(stages / processes, kMaxWorkers);
  RefuseIf(options.workers < 1 || options.workers > most, "workers",
           std::to_string(options.workers) +
               (processes > 1 ? " in each of " + std::to_string(processes) + " processes" : ""),
           (most < 1 ? "fewer processes" : "1 to " + std::to_string(most)) +
               ", a thread for at least one of the " + std::to_string(stages) + " stages each");
}

bool HasDelays(const PipelinePlan& plan) {
  return std::ranges::any_of(plan.delays, [](std::int64_t delay) { return delay > 0; });
}

// SpecTrain's passes predict to steps that have to differ from theirs, XPipe's those of a pipeline.
void ValidatePrediction(const TrainerOptions& options, const PipelinePlan& plan) {
  const analysis::Rule& rule = options.rule.rule;
  RefuseIf(rule.predicts_by_place &&
               (options.schedule.actions.empty() ||
                plan.schedule.weights != WeightVersions::kNewest || !HasDelays(plan)),
           "rule", rule.name,
           "a pipeline with delays and without stashed weights with it: pb, 1f1b, paci, "
           "amdp, zhang, a file");
  const auto looks_ahead = [](const Horizons& horizons) {
    return horizons.forward != 0 || horizons.backward != 0;
  };
  RefuseIf(
      rule.predicts_to_last_backward && std::ranges::none_of(plan.horizons, looks_ahead), "rule",
      rule.name,
      "a schedule with delays with it: pb, 1f1b, 2bw, paci, amdp, zhang, uniform-delay, a file");
}

// What a run of the cycle adds to the delays and to SpecTrain's horizons.
void AddDelays(const hwmodel::SteadyState& steady, PipelinePlan& plan) {
  // Long enough for every stage to see its whole delay.
  hwmodel::Schedule list = hwmodel::Repeat(
      steady, plan.schedule, (2 * DrainCycles(plan.program) + 3) * steady.microbatches_per_cycle);
  list.forward_lag = 0;
  const hwmodel::ScheduleSummary summary = hwmodel::Summarize(list);
  for (int s = 0; s < list.stages; ++s) {
    const hwmodel::StageSummary& stage = summary.stages[s];
    plan.delays[s] += stage.forward_delay_updates;
    plan.horizons[s].forward += static_cast<double>(stage.forward_horizon_updates);
    plan.horizons[s].backward += static_cast<double>(stage.backward_horizon_updates);
  }
}

void SetHorizonsByPlace(PipelinePlan& plan) {
  const std::vector<hwmodel::PlaceHorizons> by_place = hwmodel::HorizonsByPlace(plan.schedule);
  for (std::size_t s = 0; s < by_place.size(); ++s) {
    plan.horizons[s] = {by_place[s].forward_updates, by_place[s].backward_updates};
  }
}

// The versions that passes read, by stage.
void SetVersions(const hwmodel::SteadyState& steady, PipelinePlan& plan) {
  constexpr std::int64_t kUnknown = -1;
  plan.version_ages.resize(plan.schedule.stages);
  plan.forward_lags.assign(plan.schedule.stages, kUnknown);
  for (const std::vector<hwmodel::SteadyAction>& worker : steady.workers) {
    for (const hwmodel::SteadyAction& action : worker) {
      std::int64_t& age = plan.version_ages[action.stage];
      age = std::max(age, action.version_age);
      if (action.kind != ActionKind::kForward) continue;
      std::int64_t& lag = plan.forward_lags[action.stage];
      RefuseIf(plan.schedule.weights == WeightVersions::kVerticalSync && lag != kUnknown &&
                   lag != action.version_age,
               "weights", Name(plan.schedule.weights),
               "a schedule that updates after every micro-batch with it");
      lag = action.version_age;
    }
  }
}

// The stages that a worker of the schedule has, and one of the run too; of the workers that are chosen.
std::vector<hwmodel::StageSpan> RecomputedGroups(const PipelinePlan& plan,
                                                 const std::vector<int>& boundaries,
                                                 const std::vector<int>& chosen) {
  RefuseIf(plan.schedule.weights == WeightVersions::kNewest && HasDelays(plan), "recompute", "true",
           "false with a schedule whose backwards do not read the weights of their "
           "forwards, with which the same values could be made again");
  std::vector<hwmodel::StageSpan> groups;
  const auto holds = [](const std::vector<int>& numbers, int number) {
    return std::ranges::find(numbers, number) != numbers.end();
  };
  for (int s = 0; s < plan.schedule.stages; ++s) {
    const int worker = plan.schedule.worker(s);
    if (!chosen.empty() && !holds(chosen, worker)) continue;
    if (s == 0 || worker != plan.schedule.worker(s - 1) || holds(boundaries, s)) {
      groups.push_back({s, s});
    }
    groups.back().end = s + 1;
  }
  return groups;
}

// The stages whose workers hand a shrunk gradient to the one before them.
std::vector<bool> ShrinkingStages(const TrainerOptions& options,
                                  const hwmodel::Schedule& schedule) {
  std::vector<bool> shrinks(schedule.stages);
  if (options.gradient_shrink == 1) return shrinks;
  analysis::CheckNumber("gradient_shrink", options.gradient_shrink, 0, 1);
  RefuseIf(options.schedule.actions.empty(), "gradient_shrink", options.gradient_shrink,
           "1 with a schedule that is no pipeline of several workers");
  const hwmodel::MemoryPlan values(options.network, /*splits_backward=*/false);
  for (int s = 1; s < schedule.stages; ++s) {
    if (schedule.worker(s) == schedule.worker(s - 1)) continue;
    const std::vector<int> crossing = values.CrossingValues(s);
    RefuseIf(crossing.size() != 1 || options.network.stages[s].inputs != crossing,
             "gradient_shrink", options.gradient_shrink,
             "1 where more than one value goes on to stage " + std::to_string(s) +
                 ", as inside a residual block or with tied embeddings");
    shrinks[s] = true;
  }
  return shrinks;
}

void ValidateRecomputed(const TrainerOptions& options) {
  const int workers = options.schedule.actions.empty() ? 1 : options.schedule.workers();
  int before = -1;
  for (const int worker : options.recomputed_workers) {
    RefuseIf(!options.recompute, "recomputed_workers", worker, "nothing without recompute");
    RefuseIf(
        worker <= before || worker >= workers, "recomputed_workers", worker,
        "ascending numbers from 0 to " + std::to_string(workers - 1) + ", the pipeline's stages");
    before = worker;
  }
}

// Backward weights of the optimizer's own take the place of the newest ones, and of other predictions.
void ValidateOptimizer(const TrainerOptions& options) {
  Validate(options.optimizer);
  const Optimizer& optimizer = options.optimizer.optimizer;
  const analysis::Rule& rule = options.rule.rule;
  RefuseIf(options.rule.is_linear(), "rule", rule.name,
           "a rule of a momentum; the optimizer linear takes quotients");
  RefuseIf(optimizer.momentum.empty() && rule.name != "sgdm", "rule", rule.name,
           "sgdm with the optimizer " + std::string(optimizer.name) + ", which is a whole rule");
  if (!optimizer.sets_backward_weights) return;
  const std::string with = " with the optimizer " + std::string(optimizer.name) +
                           ", whose backwards read weights of their own";
  RefuseIf(options.schedule.weights != WeightVersions::kNewest, "weights",
           Name(options.schedule.weights), "newest" + with);
  RefuseIf(options.random_delays.has_value(), "schedule", "random delays", "others" + with);
  RefuseIf(rule.prediction != analysis::Prediction::kNone, "rule", rule.name,
           "a rule without a prediction" + with);
}

// Whether the rule changes more than its look-ahead from delay to delay.
bool UpdateVaries(const TrainerOptions& options) {
  const OptimizerSpec& spec = options.optimizer;
  const double momentum = MomentumOf(spec.optimizer, spec, options.momentum);
  return !analysis::CoefficientsOf(
              {options.rule, momentum, *options.random_delays, options.compensation})
              .same_update;
}

// What random delays do not go with.
void ValidateDelays(const TrainerOptions& options) {
  if (!options.random_delays) return;
  const analysis::DelayModel& model = *options.random_delays;
  const hwmodel::Schedule& schedule = options.schedule;
  RefuseIf(model.kind != analysis::DelayModel::Kind::kIndependent, "delays",
           model.kind == analysis::DelayModel::Kind::kTrace ? "a trace" : "a chain",
           "delays that are drawn independently");
  RefuseIf(model.delays.empty() || model.delays.size() != model.shares.size(), "delays",
           std::to_string(model.shares.size()) + " shares",
           "at least one delay, with a share each");
  RefuseIf(!schedule.actions.empty() || schedule.forward_lag != 0 ||
               schedule.weights != WeightVersions::kNewest,
           "schedule", "delays of its own", "none with random delays");
  const Optimizer& optimizer = options.optimizer.optimizer;
  RefuseIf(options.rule.rule.predicts_by_schedule(), "rule", options.rule.rule.name,
           "a rule that is made for a delay, with random delays");
  RefuseIf(optimizer.takes_quotients, "optimizer", optimizer.name,
           "with random delays an optimizer that takes no quotient for each");
  RefuseIf(optimizer.name != "sgdm" && UpdateVaries(options), "compensate", "own",
           "mean with rule " + std::string(options.rule.rule.name) + " and optimizer " +
               std::string(optimizer.name) +
               "; own needs sgdm where a and b differ from delay to delay");
}

void ValidateQuotients(const OptimizerSpec& spec, const PipelinePlan& plan) {
  if (!spec.optimizer.takes_quotients) return;
  for (std::size_t s = 0; s < plan.delays.size(); ++s) {
    RefuseIf(!spec.by_delay.contains(plan.delays[s]), "by_delay",
             "no quotient for a delay of " + std::to_string(plan.delays[s]),
             "one for the delay of every stage, here stage " + std::to_string(s));
  }
}

}  // namespace

int TrainerOptions::PipelineWorkers() const { return workers * PipelineProcesses(*this); }

TrainerOptions TrainerOptions::OfOneReplica() const {
  TrainerOptions options = *this;
  options.processes = nullptr;
  options.batch /= replicas;
  options.gradient_parts /= replicas;
  options.replicas = 1;
  return options;
}

namespace {

// Refuses what arithmetic in Real would make 0 or infinite, or not below `end` any longer. The reciprocal of
// what it holds is finite, too.
template <class Real>
void CheckHeld(std::string_view name, double value,
               double end = std::numeric_limits<double>::infinity()) {
  constexpr double kLeast = std::numeric_limits<Real>::min();
  constexpr double kMost = std::numeric_limits<Real>::max();
  const double size = std::abs(value);
  const std::string of = sizeof(Real) == sizeof(float) ? "that float holds" : "that double holds";
  RefuseIf(size != 0 && !(size >= kLeast && size <= kMost), name, value,
           "a number " + of + ", " + analysis::ToText(kLeast) + " to " + analysis::ToText(kMost) +
               " in size");
  RefuseIf(!(static_cast<Real>(value) < static_cast<Real>(end)), name, value,
           "a number below " + analysis::ToText(end) + " " + of + ", at most " +
               analysis::ToText(std::nextafter(static_cast<Real>(end), Real(0))));
}

template <class Real>
void CheckNumbers(const TrainerOptions& options) {
  for (const Hyperparameter& h : options.optimizer.optimizer.hyperparameters) {
    const double end = h.high_is_open ? h.high : std::numeric_limits<double>::infinity();
    CheckHeld<Real>(h.name, options.optimizer.Value(h.name), end);
  }
  for (const auto& [delay, rule] : options.optimizer.by_delay) {
    for (const auto* coefficients : {&rule.options.numerator, &rule.options.denominator}) {
      for (const double c : *coefficients) CheckHeld<Real>("by_delay", c);
    }
  }
  struct Number {
    std::string_view name;
    std::optional<double> value;
    double end = std::numeric_limits<double>::infinity();
  };
  const analysis::RuleOptions& rule = options.rule.options;
  const LearningRate& rate = options.learning_rate;
  for (const auto& [name, value, end] : {Number{"momentum", options.momentum, 1},
                                         {"deepest_momentum", options.deepest_momentum, 1},
                                         {"weight_decay", options.weight_decay},
                                         {"gradient_shrink", options.gradient_shrink},
                                         {"max_gradient_norm", options.max_gradient_norm},
                                         {"sc_delay", rule.sc_delay},
                                         {"horizon", rule.horizon},
                                         {"sc_a", rule.sc_a},
                                         {"sc_b", rule.sc_b},
                                         {"sc_delay_scale", rule.sc_delay_scale},
                                         {"horizon_scale", rule.horizon_scale},
                                         {"base", rate.base},
                                         {"start", rate.start},
                                         {"final", rate.final}}) {
    if (value) CheckHeld<Real>(name, *value, end);
  }
  for (const LearningRateDrop& drop : rate.drops) CheckHeld<Real>("factor", drop.factor);
}

void CheckMomentum(std::string_view name, double momentum) {
  RefuseIf(!(momentum >= 0 && momentum < 1), name, momentum, "a number from 0 to below 1");
}

void ValidateDeepestMomentum(const TrainerOptions& options) {
  if (!options.deepest_momentum) return;
  constexpr std::string_view kName = "deepest_momentum";
  const double momentum = *options.deepest_momentum;
  CheckMomentum(kName, momentum);
  RefuseIf(options.random_delays.has_value(), kName, momentum,
           "nothing with random delays, which all stages share");
  const Optimizer& optimizer = options.optimizer.optimizer;
  RefuseIf(optimizer.momentum.empty(), kName, momentum,
           "nothing with the optimizer " + std::string(optimizer.name) + ", which has no momentum");
}

// All but the schedule.
void ValidateOptions(const TrainerOptions& options) {
  RefuseIf(options.network.stages.empty(), "network", options.network.name, "a network");
  ValidateBatch(options);
  RefuseIf(options.samples < 0, "samples", options.samples, "0, until Finish, or more");
  ValidateReplicas(options);
  ValidateWorkers(options);
  ValidateCosts(options);
  analysis::Validate(options.rule);
  ValidateOptimizer(options);
  ValidateRecomputed(options);
  ValidateDelays(options);
  Validate(options.learning_rate);
  CheckMomentum("momentum", options.momentum);
  ValidateDeepestMomentum(options);
  analysis::CheckNumber("weight_decay", options.weight_decay, 0, 1);
  if (const std::optional<double>& norm = options.max_gradient_norm) {
    RefuseIf(!(*norm > 0), "max_gradient_norm", *norm, "a number above 0");
  }
  ValidatePrecision(options);
}

}  // namespace

void ValidatePrecision(const TrainerOptions& options) {
  options.precision == Precision::kDouble ? CheckNumbers<double>(options)
                                          : CheckNumbers<float>(options);
}

PipelinePlan MakePlan(const TrainerOptions& options) {
  ValidateOptions(options);
  // The ends of the workers' groups of stages.
  const int workers = options.PipelineWorkers();
  const std::vector<int> boundaries =
      options.stage_costs.empty() ? hwmodel::BalancedPartition(options.network, workers)
                                  : hwmodel::BalancedPartition(options.stage_costs, workers);
  PipelinePlan plan;
  plan.schedule = options.schedule;
  hwmodel::Schedule& schedule = plan.schedule;
  if (schedule.actions.empty()) {
    schedule = hwmodel::MiniBatches(boundaries, options.MicrobatchesPerUpdate());
    schedule.weights = options.schedule.weights;
    schedule.forward_lag = options.schedule.forward_lag;
  }
  if (options.random_delays) {
    schedule.weights = WeightVersions::kStashed;
    schedule.forward_lag = options.random_delays->largest();
    plan.compensates_each = UpdateVaries(options);
  }
  RefuseIf(schedule.stages != options.network.stage_count(), "schedule", schedule.stages,
           "a list of " + std::to_string(options.network.stage_count()) + " stages, as many as " +
               options.network.name + " has");
  const hwmodel::SteadyState steady =
      hwmodel::FindSteadyState(schedule, WorkersOfStages(boundaries));
  ValidateUpdates(options, steady);
  SetVersions(steady, plan);
  plan.program = SteadyProgram(steady, boundaries);
  if (schedule.splits_backward()) plan.completes = ActionKind::kWeightGradient;
  plan.drains = schedule.weights == WeightVersions::kDoubleBuffered;
  plan.predicts_forward = options.rule.rule.prediction != analysis::Prediction::kNone;
  plan.predicts_backward = schedule.weights == WeightVersions::kNewest &&
                           (options.rule.rule.predicts_by_schedule() ||
                            options.optimizer.optimizer.sets_backward_weights);
  ValidateParts(options, plan);

  const auto lag = static_cast<double>(schedule.forward_lag);
  plan.delays.assign(schedule.stages, schedule.forward_lag);
  plan.horizons.assign(schedule.stages, {.forward = lag});
  // Where mini-batches drain and the newest weights are read, nothing else is late.
  if (plan.drains || DrainCycles(plan.program) > 0) AddDelays(steady, plan);
  if (options.rule.rule.predicts_by_place) SetHorizonsByPlace(plan);
  if (options.recompute) {
    plan.recomputed = RecomputedGroups(plan, boundaries, options.recomputed_workers);
  }
  plan.shrinks = ShrinkingStages(options, schedule);
  ValidatePrediction(options, plan);
  ValidateQuotients(options.optimizer, plan);
  return plan;
}

void Validate(const TrainerOptions& options) { static_cast<void>(MakePlan(options)); }

bool TrainerOptions::IsValid(std::string* why) const {
  try {
    Validate(*this);
  } catch (const InvalidArgument& error) {
    if (why != nullptr) *why = error.what();
    return false;
  }
  return true;
}

namespace {

// What the memory of a run takes from its stages: their kernels' and the optimizer's scratch, and what the
// optimizer keeps beside tensors.
template <class Real>
void AddStages(const TrainerOptions& options, hwmodel::TrainingMemoryOptions& memory) {
  const std::shared_ptr<const Backend<Real>> backend = MakeBackend<Real>(options.convolution);
  const Optimizer& optimizer = options.optimizer.optimizer;
  const auto beside_tensors = static_cast<std::ptrdiff_t>(optimizer.tensor_arrays.size());
  for (int s = 0; s < options.network.stage_count(); ++s) {
    const auto layout = [&](std::int64_t samples) {
      return MakeStage<Real>(options.network, s, static_cast<int>(samples), backend)->layout();
    };
    const StageLayout trained = layout(options.microbatch);
    const StageParameters<Real> parameters(trained, {}, optimizer, backend->block());
    memory.workspace.push_back(parameters.workspace_size());
    memory.sample_workspace.push_back(layout(1).workspace_size);
    const std::vector<int>& outputs = options.network.stages[s].outputs;
    const std::int64_t output =
        trained.splits ? options.network.values[outputs[0]].shape.elements() * options.microbatch
                       : 0;
    memory.held.push_back(trained.input_part + output);
    const auto end =
        parameters.array_sizes().begin() + static_cast<std::ptrdiff_t>(parameters.running_place());
    memory.optimizer_numbers.push_back(std::reduce(end - beside_tensors, end, std::int64_t{0}));
  }
}

}  // namespace

std::vector<hwmodel::TrainingMemory> PredictMemoryByProcess(const TrainerOptions& options) {
  const PipelinePlan plan = MakePlan(options);
  const Optimizer& optimizer = options.optimizer.optimizer;
  hwmodel::TrainingMemoryOptions memory{
      .microbatch = options.microbatch,
      .bytes_per_number = options.precision == Precision::kDouble ? 8 : 4,
      .workers = options.workers,
      .gradients_wait = options.replicas > 1,
      .predicts_forward = plan.predicts_forward,
      .predicts_backward = plan.predicts_backward,
      .optimizer_arrays = static_cast<int>(optimizer.arrays.size()),
      .recomputed = plan.recomputed};
  for (int r = 0; r < options.replicas; ++r) {
    memory.gradient_sums = std::max(
        memory.gradient_sums, GradientParts(options.gradient_parts, options.replicas, r).slots());
  }
  if (optimizer.keeps_forward_weights) memory.kept_delays = plan.delays;
  (options.precision == Precision::kDouble ? AddStages<double> : AddStages<float>)(options, memory);
  const std::vector<hwmodel::StageSpan> spans =
      SpansOfProcesses(plan.program, PipelineProcesses(options));
  const std::vector<hwmodel::TrainingMemory> of_replica =
      hwmodel::PredictTrainingMemory(options.network, plan.schedule, memory, spans);
  const std::vector<hwmodel::StageCost> costs = hwmodel::ComputeCosts(options.network);
  std::vector<hwmodel::TrainingMemory> processes;
  for (int r = 0; r < options.replicas; ++r) {
    for (std::size_t p = 0; p < spans.size(); ++p) {
      processes.push_back(of_replica[p]);
      // What it receives from the others.
      for (int s = spans[p].first; options.replicas > 1 && s < spans[p].end; ++s) {
        processes.back().gradients +=
            memory.bytes_per_number *
            ExchangeBufferSize(options.gradient_parts, options.replicas, r, costs[s].parameters);
      }
    }
  }
  return processes;
}

hwmodel::TrainingMemory PredictMemory(const TrainerOptions& options) {
  hwmodel::TrainingMemory all;
  for (const hwmodel::TrainingMemory& process : PredictMemoryByProcess(options)) all += process;
  return all;
}

template <class Real>
std::shared_ptr<const Backend<Real>> MakeBackend(ConvolutionMethod method) {
  if constexpr (std::is_same_v<Real, float>) {
    if (method != ConvolutionMethod::kReference) return MakeVectorBackend(method);
  }
  return MakeReferenceBackend<Real>();
}

template std::shared_ptr<const Backend<float>> MakeBackend(ConvolutionMethod method);
template std::shared_ptr<const Backend<double>> MakeBackend(ConvolutionMethod method);

}  // namespace batchless::training
