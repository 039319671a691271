#include "plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/hwmodel/stage_groups.h"
#include "batchless/hwmodel/steady_state.h"
#include "batchless/training/stage.h"
#include "engine/gradient_exchange.h"
#include "engine/gradient_sum.h"

namespace batchless::training {
namespace {

using analysis::InvalidArgument;
using hwmodel::ActionKind;

constexpr std::int64_t kMaxBatch = 1 << 20;
constexpr int kMaxWorkers = 1024;
constexpr std::int64_t kMaxUniformDelay = 10'000;

[[noreturn]] void Refuse(std::string_view name, std::int64_t value, const std::string& accepted) {
  throw InvalidArgument(name, std::to_string(value), accepted);
}

void ValidateBatch(const TrainerOptions& options) {
  if (options.batch < 1 || options.batch > kMaxBatch) {
    Refuse("optimizer.batch", options.batch, "1 to " + std::to_string(kMaxBatch));
  }
  if (options.microbatch < 1 || options.batch % options.microbatch != 0) {
    Refuse("schedule.microbatch", options.microbatch,
           "a divisor of the batch, " + std::to_string(options.batch));
  }
  if (options.schedule == ScheduleKind::kPipelinedBackpropagation &&
      options.microbatch != options.batch) {
    Refuse("schedule.microbatch", options.microbatch,
           "the batch, " + std::to_string(options.batch) +
               ", with the schedule pb: every micro-batch makes an update");
  }
  if (HasLayer(options.network, hwmodel::LayerKind::kBatchNormalization) &&
      (options.microbatch != options.batch || options.batch == 1)) {
    Refuse("schedule.microbatch", options.microbatch,
           "the whole batch, of more than one sample, with batch normalisation");
  }
}

// Of one replica: those that share the stages.
int PipelineProcesses(const TrainerOptions& options) {
  return options.processes == nullptr ? 1 : options.processes->size() / options.replicas;
}

// The ends of the workers' groups of stages.
std::vector<int> ShareStages(const TrainerOptions& options) {
  const int workers = options.PipelineWorkers();
  return options.stage_costs.empty() ? hwmodel::BalancedPartition(options.network, workers)
                                     : hwmodel::BalancedPartition(options.stage_costs, workers);
}

void ValidateReplicas(const TrainerOptions& options) {
  const std::int64_t microbatches = options.batch / options.microbatch;
  if (options.gradient_parts < 1 || microbatches % options.gradient_parts != 0) {
    Refuse(
        "schedule.gradient_parts", options.gradient_parts,
        "a divisor of the number of micro-batches of an update, " + std::to_string(microbatches));
  }
  if (options.replicas < 1 || options.gradient_parts % options.replicas != 0) {
    Refuse("schedule.replicas", options.replicas,
           microbatches == 1
               ? "1 where an update is one micro-batch, which replicas cannot share"
               : "a divisor of schedule.gradient_parts, " + std::to_string(options.gradient_parts));
  }
  if (options.processes == nullptr) return;
  const int processes = options.processes->size();
  if (processes % options.replicas != 0) {
    throw InvalidArgument(
        "schedule.replicas",
        std::to_string(options.replicas) + " in " + std::to_string(processes) + " processes",
        "a divisor of the number of processes");
  }
}

// Parts of an update are summed on their own where nothing else depends on when they are done.
void ValidateParts(const TrainerOptions& options) {
  if (options.gradient_parts == 1) return;
  const PipelinePlan plan = MakePlan(options);
  const std::int64_t per_update = options.MicrobatchesPerUpdate();
  bool is_apart = plan.drains || DrainCycles(plan.program) == 0;
  for (const WorkerProgram& worker : plan.program.workers) {
    for (const ProgramAction& action : worker.actions) {
      if (action.kind != ActionKind::kUpdate) continue;
      is_apart = is_apart && (action.offset + 1) % per_update == 0;
    }
  }
  if (is_apart) return;
  Refuse("schedule.gradient_parts", options.gradient_parts,
         "1 with a schedule that neither drains after each update nor double-buffers its weights");
}

// Whether what the workers do follows from a list of actions.
bool IsList(const TrainerOptions& options) {
  return options.schedule == ScheduleKind::kPipelinedBackpropagation ||
         options.schedule == ScheduleKind::kList;
}

hwmodel::Schedule ListOf(const TrainerOptions& options) {
  if (options.schedule == ScheduleKind::kList) return options.list;
  const int stages = options.network.stage_count();
  // Twice as long with stashing: what the first backwards read is newer than what later ones do.
  const int microbatches = (options.weight_stashing ? 4 : 2) * stages;
  hwmodel::Schedule schedule = hwmodel::PipelinedBackpropagation(stages, microbatches);
  if (options.weight_stashing) schedule.weights = hwmodel::WeightVersions::kStashed;
  return schedule;
}

void ValidateList(const TrainerOptions& options) {
  const hwmodel::Schedule& list = options.list;
  if (list.stages != options.network.stage_count()) {
    Refuse("schedule", list.stages,
           "a list of " + std::to_string(options.network.stage_count()) + " stages, as many as " +
               options.network.name + " has");
  }
  if (list.splits_backward()) {
    throw InvalidArgument("schedule", "weight gradients (W) as actions of their own",
                          "backwards (B) that do both");
  }
  const hwmodel::SteadyState steady = hwmodel::FindSteadyState(list);
  for (const std::vector<hwmodel::SteadyAction>& worker : steady.workers) {
    std::vector<std::int64_t> updates(list.stages);
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
        Refuse("optimizer.batch", options.batch,
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
  if (!costs.empty() && std::ssize(costs) != stages) {
    Refuse("stage_costs", std::ssize(costs),
           "one for each of the " + std::to_string(stages) + " stages, or none");
  }
  for (const double cost : costs) {
    if (!(cost >= 0) || !std::isfinite(cost)) {
      throw InvalidArgument("stage_costs", cost, "finite numbers that are not negative");
    }
  }
}

void ValidateSchedule(const TrainerOptions& options) {
  const bool pipelined = options.schedule == ScheduleKind::kPipelinedBackpropagation;
  const bool uniform = options.schedule == ScheduleKind::kUniformDelay;
  const int processes = PipelineProcesses(options);
  const int stages = options.network.stage_count();
  const bool is_alone = options.schedule == ScheduleKind::kSequential || uniform;
  const std::string together =
      processes > 1 ? " in each of " + std::to_string(processes) + " processes" : "";
  if (is_alone && (options.workers != 1 || processes != 1)) {
    throw InvalidArgument(
        "schedule.workers", std::to_string(options.workers) + together,
        "1, in one process, with the schedules sequential (fill-drain gives the same bits with "
        "more) and uniform-delay");
  }
  const int most = std::min(stages / processes, kMaxWorkers);
  if (options.workers < 1 || options.workers > most) {
    throw InvalidArgument("schedule.workers", std::to_string(options.workers) + together,
                          (most < 1 ? "fewer processes" : "1 to " + std::to_string(most)) +
                              ", a thread for at least one of the " + std::to_string(stages) +
                              " stages each");
  }
  ValidateCosts(options);
  if (IsList(options) && options.samples < 1) {
    Refuse("run.samples", options.samples, "at least 1 with a pipeline that is not drained");
  }
  if (options.schedule == ScheduleKind::kList) ValidateList(options);
  if (options.weight_stashing && !pipelined && !uniform) {
    throw InvalidArgument("schedule.weight_stashing", "true",
                          "false but with the schedules pb, 1f1b, zhang and uniform-delay");
  }
  if (options.delay < 0 || options.delay > kMaxUniformDelay || (options.delay > 0 && !uniform)) {
    Refuse("schedule.delay", options.delay,
           "0 to " + std::to_string(kMaxUniformDelay) +
               " with the schedule uniform-delay; the others' delays follow from the schedule");
  }
  if (options.prediction != PredictionScheme::kSpecTrain) return;
  if (!IsList(options)) {
    throw InvalidArgument("rule.name", "spectrain",
                          "a schedule with delays of its own with it: pb, 1f1b, zhang, a file");
  }
  if (options.schedule == ScheduleKind::kList &&
      options.list.weights != hwmodel::WeightVersions::kNewest) {
    throw InvalidArgument("rule.name", "spectrain",
                          "a schedule whose passes read the newest weights, not " +
                              std::string(Name(options.list.weights)) +
                              " ones: its backward predicts for itself");
  }
  if (options.weight_stashing) {
    throw InvalidArgument("schedule.weight_stashing", "true",
                          "false with spectrain, whose backward predicts for itself");
  }
  if (options.rule.rule.prediction != analysis::Prediction::kNone) {
    throw InvalidArgument("rule.name", options.rule.rule.name,
                          "a rule without a prediction of its own with spectrain");
  }
}

// The updates that a stage makes between each pass of a micro-batch and the step of its last backward,
// in the middle of the list, where all stages are busy.
void FillSpecTrain(const hwmodel::Schedule& list, PipelinePlan& plan) {
  const std::int64_t k = list.microbatches / 2;
  std::int64_t last = 0;
  for (const auto& [step, action] : list.actions) {
    if (action.kind == ActionKind::kBackward && action.microbatch == k) last = std::max(last, step);
  }
  std::vector<bool> forward(list.stages);
  std::vector<bool> backward(list.stages);
  for (const auto& [step, action] : list.actions) {
    const int s = action.stage;
    if (action.kind == ActionKind::kUpdate && step < last) {
      if (forward[s]) ++plan.spectrain[s].forward;
      if (backward[s]) ++plan.spectrain[s].backward;
    }
    if (action.microbatch != k) continue;
    if (action.kind == ActionKind::kForward) forward[s] = true;
    if (action.kind == ActionKind::kBackward) backward[s] = true;
  }
}

// Backward weights of the optimizer's own take the place of the newest ones, and of other predictions.
void ValidateOptimizer(const TrainerOptions& options) {
  Validate(options.optimizer);
  const Optimizer& optimizer = options.optimizer.optimizer;
  if (!optimizer.sets_backward_weights) return;
  const std::string with = " with optimizer.kind = " + std::string(optimizer.name) +
                           ", whose backwards read weights of their own";
  const hwmodel::WeightVersions weights = options.schedule == ScheduleKind::kList
                                              ? options.list.weights
                                              : hwmodel::WeightVersions::kNewest;
  if (options.weight_stashing || weights == hwmodel::WeightVersions::kStashed) {
    throw InvalidArgument("schedule.weight_stashing", "true", "false" + with);
  }
  if (weights == hwmodel::WeightVersions::kDoubleBuffered) {
    throw InvalidArgument("schedule.kind", "2bw", "schedules that read the newest weights" + with);
  }
  if (options.prediction == PredictionScheme::kSpecTrain ||
      options.rule.rule.prediction != analysis::Prediction::kNone) {
    throw InvalidArgument("rule.name",
                          options.prediction == PredictionScheme::kSpecTrain
                              ? std::string_view("spectrain")
                              : options.rule.rule.name,
                          "a rule without a prediction" + with);
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

void Validate(const TrainerOptions& options) {
  if (options.network.stages.empty()) {
    throw InvalidArgument("network.name", options.network.name, "a network");
  }
  ValidateBatch(options);
  ValidateReplicas(options);
  ValidateSchedule(options);
  ValidateParts(options);
  analysis::Validate(options.rule);
  ValidateOptimizer(options);
  Validate(options.learning_rate);
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    throw InvalidArgument("optimizer.momentum", options.momentum, "a number from 0 to below 1");
  }
  if (!(options.weight_decay >= 0 && options.weight_decay <= 1)) {
    throw InvalidArgument("optimizer.weight_decay", options.weight_decay, "a number from 0 to 1");
  }
}

namespace {

// By process of a replica.
std::vector<hwmodel::StageSpan> ProcessSpans(const TrainerOptions& options) {
  const std::vector<int> ends = ShareStages(options);
  std::vector<hwmodel::StageSpan> spans;
  int first = 0;
  for (std::size_t last = options.workers - 1; last < ends.size(); last += options.workers) {
    spans.push_back({first, ends[last]});
    first = ends[last];
  }
  return spans;
}

// By stage, what its kernels ask for with so many samples.
template <class Real>
std::vector<std::int64_t> WorkspaceSizes(const TrainerOptions& options, std::int64_t samples) {
  const std::shared_ptr<const Backend<Real>> backend = MakeBackend<Real>(options.convolution);
  std::vector<std::int64_t> sizes;
  sizes.reserve(options.network.stages.size());
  for (int s = 0; s < options.network.stage_count(); ++s) {
    sizes.push_back(MakeStage<Real>(options.network, s, static_cast<int>(samples), backend)
                        ->layout()
                        .workspace_size);
  }
  return sizes;
}

std::vector<hwmodel::TrainingMemory> PredictReplicaMemory(
    const TrainerOptions& options, std::span<const hwmodel::StageSpan> processes) {
  hwmodel::TrainingMemoryOptions memory;
  memory.gradients_wait = options.replicas > 1;
  for (int r = 0; r < options.replicas; ++r) {
    memory.gradient_sums = std::max(
        memory.gradient_sums, GradientParts(options.gradient_parts, options.replicas, r).slots());
  }
  memory.microbatch = options.microbatch;
  memory.bytes_per_number = options.precision == Precision::kDouble ? 8 : 4;
  memory.workers = options.workers;
  memory.predicts_backward = options.prediction == PredictionScheme::kSpecTrain;
  memory.predicts_forward =
      memory.predicts_backward || options.rule.rule.prediction != analysis::Prediction::kNone;
  const Optimizer& optimizer = options.optimizer.optimizer;
  memory.predicts_backward = memory.predicts_backward || optimizer.sets_backward_weights;
  memory.optimizer_arrays = static_cast<int>(optimizer.arrays.size());
  if (optimizer.keeps_forward_weights) memory.kept_delays = MakePlan(options).delays;
  memory.delay = options.delay;
  const auto workspace_sizes =
      options.precision == Precision::kDouble ? WorkspaceSizes<double> : WorkspaceSizes<float>;
  memory.workspace = workspace_sizes(options, options.microbatch);
  memory.sample_workspace = workspace_sizes(options, 1);
  if (IsList(options)) {
    return hwmodel::PredictTrainingMemory(options.network, ListOf(options), memory, processes);
  }
  // FillDrainProgram's workers run 1F1B within a mini-batch; longer ones keep no more.
  const int workers = options.PipelineWorkers();
  const std::int64_t microbatches =
      std::min<std::int64_t>(options.MicrobatchesPerUpdate(), 2 * workers);
  const hwmodel::Schedule groups = hwmodel::PipeDreamFlush(workers, 2 * microbatches, microbatches);
  return hwmodel::PredictTrainingMemory(
      options.network, hwmodel::ExpandGroups(groups, ShareStages(options)), memory, processes);
}

}  // namespace

std::vector<hwmodel::TrainingMemory> PredictMemoryByProcess(const TrainerOptions& options) {
  const std::vector<hwmodel::StageSpan> spans = ProcessSpans(options);
  const std::vector<hwmodel::TrainingMemory> of_replica = PredictReplicaMemory(options, spans);
  const int number = options.precision == Precision::kDouble ? 8 : 4;
  const std::vector<hwmodel::StageCost> costs = hwmodel::ComputeCosts(options.network);
  std::vector<hwmodel::TrainingMemory> processes;
  for (int r = 0; r < options.replicas; ++r) {
    for (std::size_t p = 0; p < spans.size(); ++p) {
      processes.push_back(of_replica[p]);
      // What it receives from the others.
      for (int s = spans[p].first; options.replicas > 1 && s < spans[p].end; ++s) {
        processes.back().gradients +=
            number *
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
    if (method != ConvolutionMethod::kReference) return MakeVectorBackend(0, method);
  }
  return MakeReferenceBackend<Real>();
}

template std::shared_ptr<const Backend<float>> MakeBackend(ConvolutionMethod method);
template std::shared_ptr<const Backend<double>> MakeBackend(ConvolutionMethod method);

PipelinePlan MakePlan(const TrainerOptions& options) {
  const int stages = options.network.stage_count();
  const std::vector<int> boundaries = ShareStages(options);
  PipelinePlan plan;
  plan.spectrain.resize(stages);
  if (!IsList(options)) {
    plan.program = FillDrainProgram(boundaries, options.MicrobatchesPerUpdate());
    plan.forward_lag = options.delay;
    plan.delays.assign(stages, options.delay);
    plan.version_ages.assign(stages, options.delay);
    if (options.weight_stashing) plan.weights = hwmodel::WeightVersions::kStashed;
    return plan;
  }

  const hwmodel::Schedule schedule = ListOf(options);
  const hwmodel::SteadyState steady =
      hwmodel::FindSteadyState(schedule, WorkersOfStages(boundaries));
  plan.program = SteadyProgram(steady, boundaries);
  // Long enough for every stage to see its whole delay.
  const std::int64_t cycles = 2 * DrainCycles(plan.program) + 3;
  const hwmodel::Schedule run =
      hwmodel::Repeat(steady, schedule, cycles * steady.microbatches_per_cycle);
  const hwmodel::ScheduleSummary summary = hwmodel::Summarize(run);
  for (const hwmodel::StageSummary& stage : summary.stages) {
    plan.delays.push_back(stage.forward_delay_updates);
  }
  plan.weights = schedule.weights;
  plan.drains = schedule.weights == hwmodel::WeightVersions::kDoubleBuffered;
  plan.version_ages.resize(stages);
  for (const std::vector<hwmodel::SteadyAction>& worker : steady.workers) {
    for (const hwmodel::SteadyAction& action : worker) {
      std::int64_t& age = plan.version_ages[action.stage];
      age = std::max(age, action.version_age);
    }
  }
  FillSpecTrain(run, plan);
  return plan;
}

}  // namespace batchless::training
