#include "engine/pipeline.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/collective.h"
#include "engine/pinning.h"

namespace batchless::training {
namespace {

using hwmodel::ActionKind;
using hwmodel::MemoryUse;
using hwmodel::StageSpan;
using hwmodel::WeightVersions;
using Clock = std::chrono::steady_clock;

// Thrown in workers that wait for one that failed.
struct Stopped {};

// Vectors of every slot are aligned.
constexpr std::int64_t kGradientAlignment = 16;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void PauseProcessor() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

template <class Real>
Pipeline<Real>::Pipeline(Options options)
    : options_(std::move(options)),
      parts_(options_.gradient_parts, replicas(), replica()),
      values_(PlanValues(*options_.network, options_.backend->block())),
      progress_(options_.program.workers.size()),
      times_(options_.program.workers.size()) {
  options_.traced_microbatches = std::min(options_.traced_microbatches, options_.microbatches);
  const hwmodel::Network& network = *options_.network;
  const std::size_t processes =
      options_.group == nullptr ? 1 : static_cast<std::size_t>(options_.group->size());
  rank_ = options_.group == nullptr ? 0 : options_.group->rank();
  const std::size_t workers = options_.program.workers.size() / processes;
  for (std::size_t p = 0; p < processes; ++p) {
    spans_.push_back({options_.program.workers[p * workers].first_stage,
                      options_.program.workers[(p + 1) * workers - 1].end_stage});
  }
  for (std::size_t w = 0; w < times_.size(); ++w) {
    times_[w].first_stage = options_.program.workers[w].first_stage;
    times_[w].end_stage = options_.program.workers[w].end_stage;
  }
  first_worker_ = rank_ * workers;
  end_worker_ = first_worker_ + workers;
  for (int s = 0; s < network.stage_count(); ++s) {
    StageSlot slot;
    slot.description = &network.stages[s];
    slot.compute = options_.make_stage
                       ? options_.make_stage(s)
                       : MakeStage<Real>(network, s, options_.microbatch, options_.backend);
    stages_.push_back(std::move(slot));
  }
  plan_ = std::make_unique<hwmodel::MemoryPlan>(network);
  PlanMemory();
  PlanParameters();
  PlanBoundaries();
}

template <class Real>
void Pipeline<Real>::PlanMemory() {
  const int value_count = static_cast<int>(values_.size());
  value_rings_.resize(value_count);
  gradient_rings_.resize(value_count);
  // In the order in which states are saved.
  const auto add = [&](Ring<Real>& ring, std::int64_t size, auto use_of) {
    // A slot as it lies in memory, for every process.
    const std::int64_t elements = Ring<Real>(size, 0).slot_size();
    Tenancy tenancy{.ring = &ring, .slot_bytes = elements * sizeof(Real), .uses = {}};
    for (const StageSpan& process : spans_) tenancy.uses.push_back(use_of(process));
    tenancies_.push_back(std::move(tenancy));
  };
  std::vector<std::int64_t> sizes;
  for (int v = 0; v < value_count; ++v) {
    sizes.push_back(options_.microbatch * values_[v].stored_size);
    add(value_rings_[v], sizes.back(),
        [&](const StageSpan& process) { return plan_->ValueUse(v, process); });
  }
  for (int v = 0; v < value_count; ++v) {
    sizes.push_back(options_.microbatch * values_[v].stored_size);
    add(gradient_rings_[v], sizes.back(),
        [&](const StageSpan& process) { return plan_->GradientUse(v, process); });
  }
  for (int s = 0; s < stage_count(); ++s) {
    sizes.push_back(layout(s).saved_size);
    add(stages_[s].saved, sizes.back(), [&](const StageSpan& process) -> std::optional<MemoryUse> {
      if (!process.Holds(s)) return std::nullopt;
      return MemoryUse{.write = {ActionKind::kForward, s},
                       .releases = {{ActionKind::kBackward, s}}};
    });
  }
  // The micro-batch itself, from its first forward to its last backward.
  std::vector<MemoryUse> uses{
      {.write = {ActionKind::kForward, 0}, .releases = {{ActionKind::kBackward, 0}}}};
  for (const Tenancy& tenancy : tenancies_) {
    const std::optional<MemoryUse>& own = tenancy.uses[rank_];
    uses.push_back(own ? *own : MemoryUse{});
  }
  const std::vector<std::int64_t> depths = RingDepths(options_.program, uses);
  for (std::size_t i = 0; i < tenancies_.size(); ++i) {
    if (tenancies_[i].uses[rank_]) *tenancies_[i].ring = Ring<Real>(sizes[i], depths[i + 1]);
  }
  for (int s = span().first; s < span().end; ++s) {
    stages_[s].forward_versions.resize(depths[1 + 2 * value_count + s]);
  }
  microbatches_.resize(depths[0]);
  for (MicrobatchSlot& slot : microbatches_) {
    slot.labels.resize(options_.microbatch);
    slot.losses.resize(options_.microbatch);
    slot.correct.resize(options_.microbatch);
    slot.microbatch.seed = options_.seed;
    slot.microbatch.gradient_scale =
        Real(1) /
        static_cast<Real>(options_.microbatch * options_.microbatches_per_update * replicas());
    slot.microbatch.labels = slot.labels.data();
    slot.microbatch.losses = slot.losses.data();
    slot.microbatch.correct = slot.correct.data();
  }
}

template <class Real>
void Pipeline<Real>::PlanParameters() {
  for (int s = 0; s < stage_count(); ++s) {
    VersionCounts& counts = stages_[s].versions;
    const std::int64_t age = options_.version_ages[s];
    if (age > 0 || options_.predicts_forward) counts.forward = age + 1;
    counts.predicted_backward = options_.predicts_backward;
    if (span().Holds(s)) {
      stages_[s].parameters = std::make_unique<StageParameters<Real>>(layout(s), counts);
    }
  }
  const bool waits = !UpdatesAtOnce(options_.program) || replicas() > 1;
  updates_pieces_ = !waits;
  for (std::size_t w = first_worker_; w < end_worker_; ++w) {
    const WorkerProgram& worker = options_.program.workers[w];
    std::int64_t workspace = 0;
    std::int64_t gradient = 0;
    for (int s = worker.first_stage; s < worker.end_stage; ++s) {
      workspace = std::max(workspace, layout(s).workspace_size);
      gradient = std::max(gradient, layout(s).parameter_size);
    }
    workspaces_.emplace_back(workspace);
    traces_.emplace_back();
    // Its passes, and two waits for a micro-batch.
    traces_.back().reserve(options_.traced_microbatches *
                           (3 * (worker.end_stage - worker.first_stage) + 2));
    if (!waits) gradients_.emplace_back(gradient);
    for (int s = worker.first_stage; s < worker.end_stage; ++s) {
      StageSlot& slot = stages_[s];
      slot.gradient_size = RoundUp(layout(s).parameter_size, kGradientAlignment);
      if (waits) gradients_.emplace_back(parts_.slots() * slot.gradient_size);
      slot.gradient = gradients_.back().data();
      if (replicas() == 1 || slot.gradient_size == 0) continue;
      slot.exchange = std::make_unique<GradientExchange<Real>>(
          *options_.peers, options_.backend, options_.gradient_parts, ExchangeChannel(s),
          slot.gradient, slot.gradient_size);
    }
  }
}

template <class Real>
void Pipeline<Real>::PlanBoundaries() {
  const auto plan = [&](Boundary& boundary, int stage, bool forward, bool out) {
    const std::vector<int> crossing =
        forward ? plan_->CrossingValues(stage) : plan_->CrossingGradients(stage);
    std::int64_t elements = 0;
    for (const int v : crossing) {
      boundary.rings.push_back(forward ? &value_rings_[v] : &gradient_rings_[v]);
      elements += boundary.rings.back()->slot_size();
    }
    const int from = forward ? stage - 1 : stage;
    const int to = forward ? stage : stage - 1;
    const ActionKind kind = forward ? ActionKind::kForward : ActionKind::kBackward;
    const std::vector<std::int64_t> depths =
        RingDepths(options_.program, {{.write = {kind, from}, .releases = {{kind, to}}}});
    const LinkChannel channel = forward ? LinkChannel::kForward : LinkChannel::kBackward;
    const int partner = forward == out ? rank_ + 1 : rank_ - 1;
    boundary.link =
        out ? Link<Real>::Outgoing(*options_.group, partner, channel, elements, depths[0])
            : Link<Real>::Incoming(*options_.group, partner, channel, elements, depths[0]);
  };
  if (!is_first_process()) {
    plan(forwards_in_, span().first, /*forward=*/true, /*out=*/false);
    plan(backwards_out_, span().first, /*forward=*/false, /*out=*/true);
  }
  if (!is_last_process()) {
    plan(forwards_out_, span().end, /*forward=*/true, /*out=*/true);
    plan(backwards_in_, span().end, /*forward=*/false, /*out=*/false);
  }
}

template <class Real>
std::int64_t Pipeline<Real>::memory_bytes() const {
  std::int64_t bytes = 0;
  for (const StageSlot& stage : stages_) {
    bytes += stage.saved.bytes();
    if (stage.parameters) bytes += stage.parameters->bytes();
    if (stage.exchange) bytes += stage.exchange->bytes();
  }
  for (const Ring<Real>& ring : value_rings_) bytes += ring.bytes();
  for (const Ring<Real>& ring : gradient_rings_) bytes += ring.bytes();
  for (const AlignedBuffer<Real>& workspace : workspaces_) bytes += workspace.bytes();
  for (const AlignedBuffer<Real>& gradient : gradients_) bytes += gradient.bytes();
  for (const Boundary* boundary :
       {&forwards_in_, &forwards_out_, &backwards_in_, &backwards_out_}) {
    if (boundary->link) bytes += boundary->link->bytes();
  }
  return bytes;
}

template <class Real>
NetworkWeights<Real> Pipeline<Real>::CollectWeights() const {
  NetworkWeights<Real> all;
  for (std::size_t p = 0; p < spans_.size(); ++p) {
    for (int s = spans_[p].first; s < spans_[p].end; ++s) {
      const bool own = spans_[p].Holds(s) && static_cast<int>(p) == rank_;
      const auto collect = [&](const Real* data, std::int64_t size) -> const Real* {
        if (spans_.size() == 1 || size == 0) return data;
        AlignedBuffer<Real> copy(size);
        if (own) std::copy_n(data, size, copy.data());
        options_.group->Broadcast(
            static_cast<int>(p),
            std::as_writable_bytes(std::span<Real>(copy.data(), static_cast<std::size_t>(size))));
        all.copies.push_back(std::move(copy));
        return all.copies.back().data();
      };
      const StageParameters<Real>* parameters = stages_[s].parameters.get();
      all.weights.push_back(
          collect(own ? parameters->weights() : nullptr, layout(s).parameter_size));
      all.states.push_back(collect(own ? parameters->state() : nullptr, layout(s).state_size));
    }
  }
  return all;
}

template <class Real>
std::vector<WorkerTimes> Pipeline<Real>::worker_times() const {
  std::vector<WorkerTimes> times = times_;
  if (options_.group == nullptr) return times;
  const std::size_t each = times.size() / spans_.size();
  for (std::size_t p = 0; p < spans_.size(); ++p) {
    options_.group->Broadcast(static_cast<int>(p),
                              std::as_writable_bytes(std::span(times).subspan(p * each, each)));
  }
  return times;
}

template <class Real>
std::vector<TraceEvent> Pipeline<Real>::trace() const {
  std::vector<TraceEvent> own;
  for (const std::vector<TraceEvent>& events : traces_) {
    own.insert(own.end(), events.begin(), events.end());
  }
  if (options_.group == nullptr) return own;
  std::vector<TraceEvent> all;
  for (int p = 0; p < options_.group->size(); ++p) {
    std::vector<TraceEvent> events = own;
    BroadcastVector(*options_.group, p, events);
    all.insert(all.end(), events.begin(), events.end());
  }
  return all;
}

template <class Real>
double Pipeline<Real>::Now() const {
  return SecondsSince(*started_);
}

template <class Real>
void Pipeline<Real>::Trace(std::size_t worker, const ProgramAction& action, std::int64_t k,
                           bool is_wait, double start) {
  traces_[worker - first_worker_].push_back({.worker = static_cast<int>(worker),
                                             .kind = action.kind,
                                             .is_wait = is_wait,
                                             .stage = action.stage,
                                             .microbatch = InRun(k),
                                             .start = start,
                                             .end = Now()});
}

template <class Real>
void Pipeline<Real>::Feed(const SampleSource& source, std::int64_t k) {
  MicrobatchSlot& slot = microbatch(k);
  slot.microbatch.first_sample = InRun(k) * options_.microbatch;
  for (std::int64_t i = 0; i < options_.microbatch; ++i) {
    slot.labels[i] = source.At(slot.microbatch.first_sample + i).label;
  }
}

template <class Real>
void Pipeline<Real>::FeedImages(const SampleSource& source, std::int64_t k) {
  const std::int64_t size = values_[0].stored_size;
  Real* images = value_rings_[0].Slot(k);
  for (std::int64_t i = 0; i < options_.microbatch; ++i) {
    const std::int64_t position = microbatch(k).microbatch.first_sample + i;
    if constexpr (std::is_same_v<Real, float>) {
      source.Read(position, std::span<float>(images + i * size, size));
    } else {
      std::vector<float> image(size);
      source.Read(position, image);
      std::copy(image.begin(), image.end(), images + i * size);
    }
  }
}

template <class Real>
void Pipeline<Real>::Forward(int stage, std::int64_t k, Real* workspace) {
  StageSlot& slot = stages_[stage];
  const std::int64_t version =
      std::max<std::int64_t>(0, options_.weights == WeightVersions::kDoubleBuffered
                                    ? k / options_.microbatches_per_update - 1
                                    : slot.parameters->updates() - options_.forward_lag);
  slot.forward_versions[k % static_cast<std::int64_t>(slot.forward_versions.size())] = version;
  if (options_.on_read) options_.on_read({ActionKind::kForward, stage, InRun(k), version});
  ForwardArguments<Real> arguments;
  arguments.microbatch = &microbatch(k).microbatch;
  arguments.parameters = slot.parameters->forward(version);
  for (std::size_t i = 0; i < slot.description->inputs.size(); ++i) {
    arguments.inputs[i] = value_rings_[slot.description->inputs[i]].Slot(k);
  }
  for (std::size_t i = 0; i < slot.description->outputs.size(); ++i) {
    arguments.outputs[i] = value_rings_[slot.description->outputs[i]].Slot(k);
  }
  arguments.saved = slot.saved.Slot(k);
  arguments.state = slot.parameters->state();
  arguments.workspace = workspace;
  slot.compute->Forward(arguments);
}

// Updates a stage's largest tensor while its backward makes the gradient: weights, gradient and
// predictions pass through the caches once.
template <class Real>
class Pipeline<Real>::PieceUpdate final : public GradientConsumer<Real> {
 public:
  PieceUpdate(const StageSlot& slot, const Backend<Real>& backend,
              const UpdateCoefficients<Real>& coefficients)
      : parameters_(*slot.parameters),
        tensor_(slot.compute->layout().parameters[slot.compute->layout().consumed]),
        backend_(backend),
        coefficients_(coefficients) {}

  void Take(std::int64_t first, std::int64_t size, const Real* gradient) override {
    parameters_.UpdatePiece(backend_, tensor_, first, size, gradient, coefficients_);
  }

 private:
  StageParameters<Real>& parameters_;
  const ParameterTensor& tensor_;
  const Backend<Real>& backend_;
  UpdateCoefficients<Real> coefficients_;
};

template <class Real>
void Pipeline<Real>::Backward(int stage, std::int64_t k, Real* workspace) {
  StageSlot& slot = stages_[stage];
  const StageLayout& layout = slot.compute->layout();
  const bool reads_newest = options_.weights == WeightVersions::kNewest;
  const std::int64_t version =
      !reads_newest
          ? slot.forward_versions[k % static_cast<std::int64_t>(slot.forward_versions.size())]
          : slot.parameters->updates();
  if (options_.on_read) options_.on_read({ActionKind::kBackward, stage, InRun(k), version});
  if (layout.passes_gradient) return;
  const int input = slot.description->inputs[0];
  BackwardArguments<Real> arguments;
  arguments.microbatch = &microbatch(k).microbatch;
  arguments.parameters =
      reads_newest ? slot.parameters->backward() : slot.parameters->forward(version);
  if (layout.keeps_input) arguments.input = value_rings_[input].Slot(k);
  if (layout.keeps_output) {
    arguments.output = value_rings_[slot.description->outputs[0]].Slot(k);
  }
  arguments.saved = slot.saved.Slot(k);
  for (std::size_t i = 0; i < slot.description->outputs.size(); ++i) {
    arguments.output_gradients[i] =
        gradient_rings_[plan_->gradient_of(slot.description->outputs[i])].Slot(k);
  }
  if (plan_->gradient_of(input) >= 0) {
    arguments.input_gradient = gradient_rings_[plan_->gradient_of(input)].Slot(k);
    arguments.add_input_gradient = options_.network->values[input].consumers.back() != stage;
  }
  arguments.gradient = slot.gradient + parts_.slot(PartOf(k)) * slot.gradient_size;
  arguments.add_gradient = slot.has_pending_gradient;
  arguments.workspace = workspace;
  std::optional<PieceUpdate> update;
  if (updates_pieces_ && layout.consumed >= 0) {
    arguments.consumer = &update.emplace(slot, *options_.backend, Coefficients(stage, k));
  }
  slot.compute->Backward(arguments);
  slot.has_pending_gradient = true;
  if (options_.gradient_parts > 1) SumParts(slot, k);
}

template <class Real>
std::int64_t Pipeline<Real>::PartOf(std::int64_t k) const {
  if (options_.gradient_parts == 1) return 0;
  const std::int64_t share = options_.microbatches_per_update;
  return k % share * parts_.count() / share;
}

template <class Real>
void Pipeline<Real>::SumParts(StageSlot& slot, std::int64_t k) {
  const std::int64_t share = options_.microbatches_per_update;
  if ((k + 1) % (share / parts_.count()) != 0) return;
  const std::int64_t part = PartOf(k);
  std::int64_t last = parts_.slot(part);
  for (int i = 0; i < parts_.additions(part); ++i, --last) AddSums(slot, last);
  // The next one has a slot of its own.
  slot.has_pending_gradient = false;
}

template <class Real>
void Pipeline<Real>::AddSums(StageSlot& slot, std::int64_t last) {
  Real* from = slot.gradient + last * slot.gradient_size;
  Real* to = from - slot.gradient_size;
  options_.backend->Add(slot.gradient_size, to, from, to);
}

template <class Real>
UpdateCoefficients<Real> Pipeline<Real>::Coefficients(int stage, std::int64_t k) const {
  const std::int64_t samples =
      (k + 1 - options_.microbatches_per_update) * replicas() * options_.microbatch;
  return options_.coefficients(stage, samples);
}

template <class Real>
void Pipeline<Real>::Update(int stage, std::int64_t k) {
  StageSlot& slot = stages_[stage];
  const StageLayout& layout = slot.compute->layout();
  slot.parameters->Update(*options_.backend, layout, slot.gradient, Coefficients(stage, k),
                          updates_pieces_ ? layout.consumed : -1);
  slot.has_pending_gradient = false;
  slot.exchanged = -1;
}

template <class Real>
void Pipeline<Real>::Execute(const ProgramAction& action, std::int64_t k, Real* workspace) {
  StageSlot& slot = stages_[action.stage];
  switch (action.kind) {
    case ActionKind::kForward:
      Forward(action.stage, k, workspace);
      break;
    case ActionKind::kBackward:
      if (action.stage == stage_count() - 1) AppendResults(k);
      Backward(action.stage, k, workspace);
      break;
    case ActionKind::kWeightGradient:  // the backward does both
      break;
    case ActionKind::kUpdate:
      if (slot.exchange) {
        slot.exchange->Start();
        slot.exchanged = k;
        break;
      }
      for (auto last = static_cast<std::int64_t>(parts_.sums().size()) - 1; last > 0; --last) {
        AddSums(slot, last);
      }
      Update(action.stage, k);
      break;
  }
}

template <class Real>
void Pipeline<Real>::AppendResults(std::int64_t k) {
  const MicrobatchSlot& slot = microbatch(k);
  for (std::int64_t i = 0; i < options_.microbatch; ++i) {
    finished_.push_back({.sample = slot.microbatch.first_sample + i,
                         .label = slot.labels[i],
                         .loss = slot.losses[i],
                         .correct = slot.correct[i] != 0});
  }
}

template <class Real>
double Pipeline<Real>::AwaitUpdate(std::size_t worker, const ProgramAction& action) {
  if (stages_[action.stage].exchanged < 0) return 0;
  // A forward that reads an older version than the update makes has nothing to wait for.
  const bool reads_older =
      action.kind == ActionKind::kForward && options_.weights == WeightVersions::kDoubleBuffered;
  return reads_older ? 0 : AwaitUpdate(worker, action.stage);
}

template <class Real>
double Pipeline<Real>::AwaitUpdate(std::size_t worker, int stage) {
  const std::int64_t k = stages_[stage].exchanged;
  if (k < 0) return 0;
  BringForward(worker);
  return Await({.kind = ActionKind::kUpdate,
                .worker = worker,
                .neighbour = worker,
                .microbatch = k,
                .is_full = false,
                .exchange = stage},
               [&] { return stages_[stage].exchanged < 0; });
}

template <class Real>
template <class IsReady>
double Pipeline<Real>::Await(const Queue& queue, IsReady is_ready) {
  if (is_ready()) return 0;
  const Clock::time_point start = Clock::now();
  // A neighbour is rarely far behind; past that the processor may be needed by it.
  constexpr int kSpins = 2000;
  constexpr double kYieldSeconds = 0.005;
  constexpr auto kNap = std::chrono::microseconds(50);
  // A process that was stopped for an hour has not waited for an hour.
  constexpr double kLongestLook = 1;
  double looked = 0;
  double last = 0;
  for (int spins = 0; !is_ready(); ++spins) {
    BringForward(queue.worker);
    if (stop_.load(std::memory_order_relaxed)) throw Stopped();
    if (spins < kSpins) {
      PauseProcessor();
      continue;
    }
    const double now = SecondsSince(start);
    looked += std::min(now - last, kLongestLook);
    last = now;
    if (options_.watchdog_seconds > 0 && looked > options_.watchdog_seconds) {
      throw std::runtime_error(Describe(queue, looked));
    }
    if (now < kYieldSeconds) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
  return SecondsSince(start);
}

template <class Real>
void Pipeline<Real>::BringForward(std::size_t worker) {
  if (worker == first_worker_ && backwards_out_.link) backwards_out_.link->Progress();
  if (worker + 1 == end_worker_ && forwards_out_.link) forwards_out_.link->Progress();
  if (replicas() == 1) return;
  const WorkerProgram& program = options_.program.workers[worker];
  for (int s = program.first_stage; s < program.end_stage; ++s) {
    StageSlot& slot = stages_[s];
    if (slot.exchanged >= 0 && slot.exchange->Progress()) Update(s, slot.exchanged);
  }
}

template <class Real>
std::string Pipeline<Real>::Describe(const Queue& queue, double seconds) const {
  const auto worker = [&](std::size_t number) {
    const WorkerProgram& program = options_.program.workers[number];
    return "worker " + std::to_string(number) + " (stages " + std::to_string(program.first_stage) +
           " to " + std::to_string(program.end_stage - 1) + ")";
  };
  if (queue.exchange >= 0) {
    return worker(queue.worker) + " of replica " + std::to_string(replica()) + " has waited " +
           std::to_string(std::llround(seconds)) + " s for replica " +
           std::to_string(stages_[queue.exchange].exchange->Missing()) +
           " to exchange the gradient of stage " + std::to_string(queue.exchange) +
           ": it is stuck (run.watchdog_seconds)";
  }
  const char* what = queue.kind == ActionKind::kForward ? "forwards" : "backwards";
  return worker(queue.worker) + " has waited " + std::to_string(std::llround(seconds)) +
         " s for micro-batch " + std::to_string(queue.microbatch) + " in the queue of " + what +
         (queue.is_full ? " to " : " from ") + worker(queue.neighbour) +
         ": it is stuck (run.watchdog_seconds)";
}

template <class Real>
double Pipeline<Real>::AwaitProgress(const Queue& queue) {
  const Progress& neighbour = progress_[queue.neighbour];
  const std::atomic<std::int64_t>& progress =
      queue.kind == ActionKind::kForward ? neighbour.forwards : neighbour.backwards;
  return Await(queue, [&] { return progress.load(std::memory_order_acquire) > queue.microbatch; });
}

template <class Real>
double Pipeline<Real>::Send(Boundary& boundary, Queue queue) {
  queue.is_full = true;
  const double waited = Await(queue, [&] { return boundary.link->IsReady(); });
  Real* to = boundary.link->data();
  for (Ring<Real>* ring : boundary.rings) {
    to = std::copy_n(ring->Slot(queue.microbatch), ring->slot_size(), to);
  }
  boundary.link->Pass();
  return waited;
}

template <class Real>
double Pipeline<Real>::Receive(Boundary& boundary, const Queue& queue) {
  const double waited = Await(queue, [&] { return boundary.link->IsReady(); });
  const Real* from = boundary.link->data();
  for (Ring<Real>* ring : boundary.rings) {
    std::copy_n(from, ring->slot_size(), ring->Slot(queue.microbatch));
    from += ring->slot_size();
  }
  boundary.link->Pass();
  return waited;
}

template <class Real>
void Pipeline<Real>::RunWorker(std::size_t worker, const SampleSource& source, std::int64_t first,
                               std::int64_t last) {
  const Clock::time_point start = Clock::now();
  const Program& program = options_.program;
  const WorkerProgram& own = program.workers[worker];
  Real* workspace = workspaces_[worker - first_worker_].data();
  const bool first_here = worker == first_worker_;
  const bool last_here = worker + 1 == end_worker_;
  double waited = 0;
  for (std::int64_t cycle = first; cycle < last; ++cycle) {
    for (const ProgramAction& action : own.actions) {
      const std::int64_t k = cycle * program.microbatches_per_cycle + action.offset;
      if (k < begin_) continue;
      const bool forward = action.kind == ActionKind::kForward;
      const bool backward = action.kind == ActionKind::kBackward;
      const bool is_first = action.stage == own.first_stage;
      const bool is_last = action.stage == own.end_stage - 1;
      const bool traced = InRun(k) < options_.traced_microbatches;
      const bool comes_in = forward && is_first && worker > 0;
      const bool comes_back = backward && is_last && worker + 1 < program.workers.size();
      if (comes_in || comes_back) {
        const double before = traced ? Now() : 0;
        const Queue queue{action.kind, worker, comes_in ? worker - 1 : worker + 1, k};
        if (comes_in) {
          waited += first_here ? Receive(forwards_in_, queue) : AwaitProgress(queue);
        } else {
          waited += last_here ? Receive(backwards_in_, queue) : AwaitProgress(queue);
        }
        if (traced) Trace(worker, action, k, /*is_wait=*/true, before);
      }
      // Past the run's last micro-batch nothing is done, but workers still wait for one another: the
      // depth of the rings rests on it.
      if (k < end_) {
        waited += AwaitUpdate(worker, action);
        if (forward && is_first && first_here) Feed(source, k);
        const double before = traced ? Now() : 0;
        if (forward && action.stage == 0) FeedImages(source, k);
        Execute(action, k, workspace);
        if (traced) Trace(worker, action, k, /*is_wait=*/false, before);
      }
      if (forward && is_last) {
        if (last_here && !is_last_process()) {
          waited += Send(forwards_out_, {action.kind, worker, worker + 1, k});
        }
        progress_[worker].forwards.store(k + 1, std::memory_order_release);
      }
      if (backward && is_first) {
        if (first_here && !is_first_process()) {
          waited += Send(backwards_out_, {action.kind, worker, worker - 1, k});
        }
        progress_[worker].backwards.store(k + 1, std::memory_order_release);
      }
      BringForward(worker);
    }
  }
  for (int s = own.first_stage; s < own.end_stage; ++s) waited += AwaitUpdate(worker, s);
  // Whoever waits for the last messages would wait for the next run else.
  const std::int64_t end = last * program.microbatches_per_cycle;
  if (first_here && backwards_out_.link) {
    waited += Await({ActionKind::kBackward, worker, worker - 1, end, /*is_full=*/true},
                    [&] { return backwards_out_.link->Progress(); });
  }
  if (last_here && forwards_out_.link) {
    waited += Await({ActionKind::kForward, worker, worker + 1, end, /*is_full=*/true},
                    [&] { return forwards_out_.link->Progress(); });
  }
  times_[worker].waiting_seconds += waited;
  times_[worker].busy_seconds += SecondsSince(start) - waited;
}

template <class Real>
void Pipeline<Real>::Run(const SampleSource& source, std::int64_t first, std::int64_t last,
                         std::vector<SampleResult>& results) {
  if (!started_) started_ = Clock::now();
  finished_.clear();
  const std::int64_t microbatches = (last - first) * options_.program.microbatches_per_cycle;
  finished_.reserve(microbatches * options_.microbatch);
  end_ = options_.microbatches;
  if (options_.drains) {
    begin_ = first * options_.program.microbatches_per_cycle;
    end_ = std::min(begin_ + microbatches, options_.microbatches);
    last += DrainCycles(options_.program);
  }
  stop_ = false;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&](std::size_t worker) {
    try {
      std::optional<PinnedThread> pinned;
      if (options_.pin_workers) pinned.emplace(worker - first_worker_);
      RunWorker(worker, source, first, last);
    } catch (const Stopped&) {
      // The one that failed says why.
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      stop_ = true;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t worker = first_worker_ + 1; worker < end_worker_; ++worker) {
      threads.emplace_back(guarded, worker);
    }
    guarded(first_worker_);
  }
  if (!failure) {
    ShareResults();
    if (options_.drains) Rewind(last, begin_ + microbatches);
  }
  results.insert(results.end(), finished_.begin(), finished_.end());
  if (failure) std::rethrow_exception(failure);
}

template <class Real>
void Pipeline<Real>::ShareResults() {
  // The last process of each replica has them.
  if (options_.group != nullptr) {
    BroadcastVector(*options_.group, options_.group->size() - 1, finished_);
  }
  if (options_.peers == nullptr) return;
  const std::vector<SampleResult> own = std::move(finished_);
  finished_.clear();
  for (int r = 0; r < replicas(); ++r) {
    std::vector<SampleResult> results = own;
    BroadcastVector(*options_.peers, r, results);
    finished_.insert(finished_.end(), results.begin(), results.end());
  }
  std::sort(finished_.begin(), finished_.end(),
            [](const SampleResult& a, const SampleResult& b) { return a.sample < b.sample; });
}

template class Pipeline<float>;
template class Pipeline<double>;

}  // namespace batchless::training
