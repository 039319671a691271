#include "engine/pipeline.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <istream>
#include <limits>
#include <mutex>
#include <ostream>
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
using hwmodel::WeightVersions;
using Clock = std::chrono::steady_clock;

// Thrown in workers that wait for one that failed.
struct Stopped {};

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
  std::vector<const StageLayout*> layouts;
  for (int s = 0; s < network.stage_count(); ++s) {
    StageSlot slot;
    slot.description = &network.stages[s];
    slot.compute = options_.make_stage
                       ? options_.make_stage(s)
                       : MakeStage<Real>(network, s, options_.microbatch, options_.backend);
    layouts.push_back(&slot.compute->layout());
    stages_.push_back(std::move(slot));
  }
  plan_ = std::make_unique<MemoryPlan>(network, std::move(layouts));
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
    add(stages_[s].saved, sizes.back(), [&](const StageSpan& process) -> std::optional<RingUse> {
      if (!process.Holds(s)) return std::nullopt;
      return RingUse{.write = {ActionKind::kForward, s, 0},
                     .releases = {{ActionKind::kBackward, s, 0}}};
    });
  }
  // The micro-batch itself, from its first forward to its last backward.
  std::vector<RingUse> uses{
      {.write = {ActionKind::kForward, 0, 0}, .releases = {{ActionKind::kBackward, 0, 0}}}};
  for (const Tenancy& tenancy : tenancies_) {
    const std::optional<RingUse>& own = tenancy.uses[rank_];
    uses.push_back(own ? *own : RingUse{});
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
        Real(1) / static_cast<Real>(options_.microbatch * options_.microbatches_per_update);
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
  const bool waits = !UpdatesAtOnce(options_.program);
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
      if (waits) gradients_.emplace_back(layout(s).parameter_size);
      stages_[s].gradient = gradients_.back().data();
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
        RingDepths(options_.program, {{.write = {kind, from, 0}, .releases = {{kind, to, 0}}}});
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
    std::uint64_t count = own.size();
    options_.group->Broadcast(p, std::as_writable_bytes(std::span(&count, 1)));
    std::vector<TraceEvent> events = own;
    events.resize(count);
    options_.group->Broadcast(p, std::as_writable_bytes(std::span(events)));
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
                                             .microbatch = k,
                                             .start = start,
                                             .end = Now()});
}

template <class Real>
void Pipeline<Real>::Feed(const SampleSource& source, std::int64_t k) {
  MicrobatchSlot& slot = microbatch(k);
  slot.microbatch.first_sample = k * options_.microbatch;
  for (std::int64_t i = 0; i < options_.microbatch; ++i) {
    slot.labels[i] = source.At(slot.microbatch.first_sample + i).label;
  }
}

template <class Real>
void Pipeline<Real>::FeedImages(const SampleSource& source, std::int64_t k) {
  const std::int64_t size = values_[0].stored_size;
  Real* images = value_rings_[0].Slot(k);
  for (std::int64_t i = 0; i < options_.microbatch; ++i) {
    const std::int64_t position = k * options_.microbatch + i;
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
  if (options_.on_read) options_.on_read({ActionKind::kForward, stage, k, version});
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

template <class Real>
void Pipeline<Real>::Backward(int stage, std::int64_t k, Real* workspace) {
  StageSlot& slot = stages_[stage];
  const StageLayout& layout = slot.compute->layout();
  const bool reads_newest = options_.weights == WeightVersions::kNewest;
  const std::int64_t version =
      !reads_newest
          ? slot.forward_versions[k % static_cast<std::int64_t>(slot.forward_versions.size())]
          : slot.parameters->updates();
  if (options_.on_read) options_.on_read({ActionKind::kBackward, stage, k, version});
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
  arguments.gradient = slot.gradient;
  arguments.add_gradient = slot.has_pending_gradient;
  arguments.workspace = workspace;
  slot.compute->Backward(arguments);
  slot.has_pending_gradient = true;
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
    case ActionKind::kUpdate: {
      const std::int64_t samples = (k + 1 - options_.microbatches_per_update) * options_.microbatch;
      slot.parameters->Update(*options_.backend, slot.compute->layout(), slot.gradient,
                              options_.coefficients(action.stage, samples));
      slot.has_pending_gradient = false;
      break;
    }
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
template <class IsReady>
double Pipeline<Real>::Await(const Queue& queue, IsReady is_ready) const {
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
void Pipeline<Real>::BringForward(std::size_t worker) const {
  if (worker == first_worker_ && backwards_out_.link) backwards_out_.link->Progress();
  if (worker + 1 == end_worker_ && forwards_out_.link) forwards_out_.link->Progress();
}

template <class Real>
std::string Pipeline<Real>::Describe(const Queue& queue, double seconds) const {
  const auto worker = [&](std::size_t number) {
    const WorkerProgram& program = options_.program.workers[number];
    return "worker " + std::to_string(number) + " (stages " + std::to_string(program.first_stage) +
           " to " + std::to_string(program.end_stage - 1) + ")";
  };
  const char* what = queue.kind == ActionKind::kForward ? "forwards" : "backwards";
  return worker(queue.worker) + " has waited " + std::to_string(std::llround(seconds)) +
         " s for micro-batch " + std::to_string(queue.microbatch) + " in the queue of " + what +
         (queue.is_full ? " to " : " from ") + worker(queue.neighbour) +
         ": it is stuck (run.watchdog_seconds)";
}

template <class Real>
double Pipeline<Real>::AwaitProgress(const Queue& queue) const {
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
      if (k < 0) continue;
      const bool forward = action.kind == ActionKind::kForward;
      const bool backward = action.kind == ActionKind::kBackward;
      const bool is_first = action.stage == own.first_stage;
      const bool is_last = action.stage == own.end_stage - 1;
      const bool traced = k < options_.traced_microbatches;
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
      if (k < options_.microbatches) {
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
  finished_.reserve((last - first) * options_.program.microbatches_per_cycle * options_.microbatch);
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
  if (options_.group != nullptr && !failure) {
    // The last process has them.
    const int root = options_.group->size() - 1;
    std::uint64_t count = finished_.size();
    options_.group->Broadcast(root, std::as_writable_bytes(std::span(&count, 1)));
    finished_.resize(count);
    options_.group->Broadcast(root, std::as_writable_bytes(std::span(finished_)));
  }
  results.insert(results.end(), finished_.begin(), finished_.end());
  if (failure) std::rethrow_exception(failure);
}

template <class Real>
bool Pipeline<Real>::HasPendingGradient(int stage, std::int64_t cycles) const {
  const auto done = [&](ActionKind kind) {
    return CountDone(options_.program, kind, stage, cycles, options_.microbatches);
  };
  return done(ActionKind::kBackward) > done(ActionKind::kUpdate);
}

template <class Real>
template <class Visit>
void Pipeline<Real>::ForEachLivePart(std::int64_t cycles, Visit visit) {
  const auto done = [&](const ProgramAction& action) {
    return CountDone(options_.program, action.kind, action.stage, cycles, options_.microbatches);
  };
  const auto process_of = [&](int stage) {
    int p = 0;
    while (!spans_[p].Holds(stage)) ++p;
    return p;
  };
  std::vector<int> holders;
  for (const Tenancy& tenancy : tenancies_) {
    if (tenancy.slot_bytes == 0) continue;
    // By process, the micro-batches whose content is kept.
    struct Range {
      std::int64_t first = 0;
      std::int64_t end = 0;
    };
    std::vector<Range> kept(spans_.size());
    Range all{std::numeric_limits<std::int64_t>::max(), 0};
    for (std::size_t p = 0; p < spans_.size(); ++p) {
      if (!tenancy.uses[p]) continue;
      kept[p].end = done(tenancy.uses[p]->write);
      kept[p].first = kept[p].end;
      for (const ProgramAction& release : tenancy.uses[p]->releases) {
        kept[p].first = std::min(kept[p].first, done(release));
      }
      all = {std::min(all.first, kept[p].first), std::max(all.end, kept[p].end)};
    }
    for (std::int64_t k = all.first; k < all.end; ++k) {
      holders.clear();
      for (std::size_t p = 0; p < spans_.size(); ++p) {
        if (kept[p].first <= k && k < kept[p].end) holders.push_back(static_cast<int>(p));
      }
      if (holders.empty()) continue;
      const bool here = kept[rank_].first <= k && k < kept[rank_].end;
      visit(here ? tenancy.ring->Slot(k) : nullptr, tenancy.slot_bytes, holders);
    }
  }
  const auto in_flight = [&](int stage, auto visit_microbatch) {
    const std::int64_t written = done({ActionKind::kForward, stage, 0});
    for (std::int64_t k = done({ActionKind::kBackward, stage, 0}); k < written; ++k) {
      visit_microbatch(k);
    }
  };
  const auto visit_own = [&](int stage, void* data, std::size_t bytes) {
    holders = {process_of(stage)};
    visit(holders[0] == rank_ ? data : nullptr, bytes, holders);
  };
  for (int s = 0; s < stage_count(); ++s) {
    std::vector<std::int64_t>& versions = stages_[s].forward_versions;
    in_flight(s, [&](std::int64_t k) {
      const auto count = static_cast<std::int64_t>(versions.size());
      visit_own(s, count == 0 ? nullptr : &versions[k % count], sizeof(std::int64_t));
    });
  }
  std::vector<int> everybody;
  for (std::size_t p = 0; p < spans_.size(); ++p) everybody.push_back(static_cast<int>(p));
  in_flight(0, [&](std::int64_t k) {
    MicrobatchSlot& slot = microbatch(k);
    visit(&slot.microbatch.first_sample, sizeof(std::int64_t), everybody);
    visit(slot.labels.data(), slot.labels.size() * sizeof(std::int32_t), everybody);
    visit_own(stage_count() - 1, slot.losses.data(), slot.losses.size() * sizeof(Real));
    visit_own(stage_count() - 1, slot.correct.data(), slot.correct.size());
  });
  for (int s = 0; s < stage_count(); ++s) {
    if (!HasPendingGradient(s, cycles)) continue;
    visit_own(s, stages_[s].gradient, layout(s).parameter_size * sizeof(Real));
  }
  for (int s = 0; s < stage_count(); ++s) {
    StageParameters<Real>* parameters = stages_[s].parameters.get();
    std::int64_t updates = parameters == nullptr ? 0 : parameters->updates();
    visit_own(s, &updates, sizeof updates);
    if (parameters != nullptr) parameters->set_updates(updates);
    const auto sizes = StageParameters<Real>::ArraySizes(layout(s), stages_[s].versions);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      visit_own(s, parameters == nullptr ? nullptr : parameters->Arrays()[i],
                static_cast<std::size_t>(sizes[i]) * sizeof(Real));
    }
  }
}

template <class Real>
void Pipeline<Real>::Save(std::ostream& to, std::int64_t cycles) const {
  std::vector<std::byte> received;
  // Only read here; the visitor is shared with Load.
  const_cast<Pipeline&>(*this).ForEachLivePart(
      cycles, [&](const void* data, std::size_t bytes, const std::vector<int>& holders) {
        if (rank_ != 0) {
          if (holders[0] == rank_) {
            options_.group->Send(0, {static_cast<const std::byte*>(data), bytes});
          }
          return;
        }
        if (holders[0] != 0) {
          received.resize(bytes);
          options_.group->Receive(holders[0], received);
          data = received.data();
        }
        const auto size = static_cast<std::uint64_t>(bytes);
        to.write(reinterpret_cast<const char*>(&size), sizeof size);
        to.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
      });
}

template <class Real>
void Pipeline<Real>::Load(std::istream& from, std::int64_t cycles, std::int64_t now) {
  const auto read_size = [&](std::size_t bytes) {
    std::uint64_t size = 0;
    from.read(reinterpret_cast<char*>(&size), sizeof size);
    if (!from || size != bytes) throw std::runtime_error("the trainer's state is damaged");
  };
  // All sizes are looked at before anything is replaced.
  const auto check_sizes = [&] {
    const std::istream::pos_type start = from.tellg();
    ForEachLivePart(
        cycles, [&](const void* /*data*/, std::size_t bytes, const std::vector<int>& /*holders*/) {
          read_size(bytes);
          const auto size = static_cast<std::streamsize>(bytes);
          if (from.ignore(size).gcount() != size) {
            throw std::runtime_error("the trainer's state ends too early");
          }
        });
    from.seekg(start);
  };
  RunOnFirst(options_.group, check_sizes);
  DiscardMessages(now);
  std::vector<char> other;
  ForEachLivePart(cycles, [&](void* data, std::size_t bytes, const std::vector<int>& holders) {
    const bool here = std::find(holders.begin(), holders.end(), rank_) != holders.end();
    if (rank_ != 0) {
      if (here) options_.group->Receive(0, {static_cast<std::byte*>(data), bytes});
      return;
    }
    read_size(bytes);
    if (!here) {
      other.resize(bytes);
      data = other.data();
    }
    from.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
    for (const int holder : holders) {
      if (holder != 0) {
        options_.group->Send(holder, {static_cast<const std::byte*>(data), bytes});
      }
    }
  });
  for (std::size_t w = first_worker_; w < end_worker_; ++w) {
    const WorkerProgram& worker = options_.program.workers[w];
    progress_[w].forwards = CountDone(options_.program, ActionKind::kForward, worker.end_stage - 1,
                                      cycles, options_.microbatches);
    progress_[w].backwards = CountDone(options_.program, ActionKind::kBackward, worker.first_stage,
                                       cycles, options_.microbatches);
  }
  for (int s = span().first; s < span().end; ++s) {
    stages_[s].has_pending_gradient = HasPendingGradient(s, cycles);
  }
  RepeatMessages(cycles);
}

template <class Real>
std::int64_t Pipeline<Real>::CountUnderWay(ActionKind kind, int from, int to,
                                           std::int64_t cycles) const {
  // Past the run's last micro-batch messages go on.
  constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
  return CountDone(options_.program, kind, from, cycles, kEndless) -
         CountDone(options_.program, kind, to, cycles, kEndless);
}

template <class Real>
void Pipeline<Real>::DiscardMessages(std::int64_t cycles) {
  const auto discard = [&](Boundary& boundary, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      while (!boundary.link->IsReady()) std::this_thread::yield();
      boundary.link->Pass();
    }
  };
  if (!is_first_process()) {
    const int stage = span().first;
    discard(forwards_in_, CountUnderWay(ActionKind::kForward, stage - 1, stage, cycles));
  }
  if (!is_last_process()) {
    const int stage = span().end;
    discard(backwards_in_, CountUnderWay(ActionKind::kBackward, stage, stage - 1, cycles));
  }
}

template <class Real>
void Pipeline<Real>::RepeatMessages(std::int64_t cycles) {
  const auto repeat = [&](Boundary& boundary, ActionKind kind, int from, int to) {
    const std::int64_t sent =
        CountDone(options_.program, kind, from, cycles, std::numeric_limits<std::int64_t>::max());
    const bool forward = kind == ActionKind::kForward;
    const std::size_t worker = forward ? end_worker_ - 1 : first_worker_;
    for (std::int64_t k = sent - CountUnderWay(kind, from, to, cycles); k < sent; ++k) {
      Send(boundary, {kind, worker, forward ? worker + 1 : worker - 1, k});
    }
    while (!boundary.link->Progress()) std::this_thread::yield();
  };
  if (!is_last_process()) {
    repeat(forwards_out_, ActionKind::kForward, span().end - 1, span().end);
  }
  if (!is_first_process()) {
    repeat(backwards_out_, ActionKind::kBackward, span().first, span().first - 1);
  }
}

template class Pipeline<float>;
template class Pipeline<double>;

}  // namespace batchless::training
