#include "engine/pipeline.h"

#include <algorithm>
#include <exception>
#include <istream>
#include <limits>
#include <mutex>
#include <ostream>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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
  const hwmodel::Network& network = *options_.network;
  for (int s = 0; s < network.stage_count(); ++s) {
    StageSlot slot;
    slot.description = &network.stages[s];
    slot.compute = options_.make_stage
                       ? options_.make_stage(s)
                       : MakeStage<Real>(network, s, options_.microbatch, options_.backend);
    stages_.push_back(std::move(slot));
  }
  PlanMemory();
}

template <class Real>
void Pipeline<Real>::PlanMemory() {
  const hwmodel::Network& network = *options_.network;
  const int value_count = static_cast<int>(values_.size());
  const auto forward = [](int stage) { return ProgramAction{ActionKind::kForward, stage, 0}; };
  const auto backward = [](int stage) { return ProgramAction{ActionKind::kBackward, stage, 0}; };

  // Whose ring holds a value's gradient. Sums come after their inputs' other readers in the order
  // of the stages, so going backwards the output's ring is known first.
  gradient_of_.assign(value_count, -1);
  for (int v = value_count - 1; v > 0; --v) {
    const int last = network.values[v].consumers.empty() ? -1 : network.values[v].consumers.back();
    gradient_of_[v] = last >= 0 && layout(last).passes_gradient
                          ? gradient_of_[network.stages[last].outputs[0]]
                          : v;
  }

  std::vector<RingUse> uses;
  for (int v = 0; v < value_count; ++v) {
    const hwmodel::Value& value = network.values[v];
    const int producer = std::max(value.producer, 0);
    RingUse use{.write = forward(producer), .releases = {}};
    for (const int consumer : value.consumers) {
      const bool kept = layout(consumer).keeps_input && network.stages[consumer].inputs[0] == v;
      use.releases.push_back(kept ? backward(consumer) : forward(consumer));
    }
    if (value.producer >= 0 && layout(producer).keeps_output) {
      use.releases.push_back(backward(producer));
    }
    uses.push_back(std::move(use));
  }
  for (int v = 0; v < value_count; ++v) {
    RingUse use;
    if (gradient_of_[v] == v) {
      // Its own last reader writes first; those that share the ring read and add later.
      use.write = backward(network.values[v].consumers.back());
      for (int u = 1; u < value_count; ++u) {
        if (gradient_of_[u] == v) use.releases.push_back(backward(network.values[u].producer));
      }
    }
    uses.push_back(std::move(use));
  }
  for (int s = 0; s < stage_count(); ++s) {
    uses.push_back({.write = forward(s), .releases = {backward(s)}});
  }
  // The micro-batch itself, from its first forward to its last backward: at stage 0.

  const std::vector<std::int64_t> depths = RingDepths(options_.program, uses);
  value_rings_.resize(value_count);
  gradient_rings_.resize(value_count);
  std::size_t use = 0;
  const auto make_ring = [&](Ring<Real>& ring, std::int64_t size) {
    ring = Ring<Real>(size, depths[use]);
    if (size > 0) tenancies_.push_back({&ring, uses[use]});
    ++use;
  };
  for (int v = 0; v < value_count; ++v) {
    make_ring(value_rings_[v], options_.microbatch * values_[v].stored_size);
  }
  for (int v = 0; v < value_count; ++v) {
    const std::int64_t size = gradient_of_[v] == v ? values_[v].stored_size : 0;
    make_ring(gradient_rings_[v], options_.microbatch * size);
  }
  const std::size_t first_saved = use;
  for (int s = 0; s < stage_count(); ++s) {
    StageSlot& slot = stages_[s];
    const std::int64_t in_flight = depths[use];
    make_ring(slot.saved, layout(s).saved_size);
    slot.forward_versions.resize(in_flight);
    VersionCounts counts;
    const std::int64_t age = options_.version_ages[s];
    if (age > 0 || options_.predicts_forward) counts.forward = age + 1;
    counts.predicted_backward = options_.predicts_backward;
    slot.parameters = std::make_unique<StageParameters<Real>>(layout(s), counts);
  }
  microbatches_.resize(depths[first_saved]);
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
  const bool waits = !UpdatesAtOnce(options_.program);
  for (const WorkerProgram& worker : options_.program.workers) {
    std::int64_t workspace = 0;
    std::int64_t gradient = 0;
    for (int s = worker.first_stage; s < worker.end_stage; ++s) {
      workspace = std::max(workspace, layout(s).workspace_size);
      gradient = std::max(gradient, layout(s).parameter_size);
    }
    workspaces_.emplace_back(workspace);
    if (!waits) gradients_.emplace_back(gradient);
    for (int s = worker.first_stage; s < worker.end_stage; ++s) {
      if (waits) gradients_.emplace_back(layout(s).parameter_size);
      stages_[s].gradient = gradients_.back().data();
    }
  }
}

template <class Real>
std::int64_t Pipeline<Real>::memory_bytes() const {
  std::int64_t bytes = 0;
  for (const StageSlot& stage : stages_) bytes += stage.parameters->bytes() + stage.saved.bytes();
  for (const Ring<Real>& ring : value_rings_) bytes += ring.bytes();
  for (const Ring<Real>& ring : gradient_rings_) bytes += ring.bytes();
  for (const AlignedBuffer<Real>& workspace : workspaces_) bytes += workspace.bytes();
  for (const AlignedBuffer<Real>& gradient : gradients_) bytes += gradient.bytes();
  return bytes;
}

template <class Real>
void Pipeline<Real>::Feed(const SampleSource& source, std::int64_t k) {
  MicrobatchSlot& slot = microbatch(k);
  slot.microbatch.first_sample = k * options_.microbatch;
  const std::int64_t size = values_[0].stored_size;
  Real* images = value_rings_[0].Slot(k);
  for (std::int64_t i = 0; i < options_.microbatch; ++i) {
    const std::int64_t position = slot.microbatch.first_sample + i;
    slot.labels[i] = source.At(position).label;
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
        gradient_rings_[gradient_of_[slot.description->outputs[i]]].Slot(k);
  }
  if (gradient_of_[input] >= 0) {
    arguments.input_gradient = gradient_rings_[gradient_of_[input]].Slot(k);
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
double Pipeline<Real>::Await(const std::atomic<std::int64_t>& progress, std::int64_t k) const {
  if (progress.load(std::memory_order_acquire) > k) return 0;
  const Clock::time_point start = Clock::now();
  // A neighbour is rarely far behind; past that the processor may be needed by it.
  constexpr int kSpins = 2000;
  for (int spins = 0; progress.load(std::memory_order_acquire) <= k; ++spins) {
    if (stop_.load(std::memory_order_relaxed)) throw Stopped();
    if (spins < kSpins) {
      PauseProcessor();
    } else {
      std::this_thread::yield();
    }
  }
  return SecondsSince(start);
}

template <class Real>
void Pipeline<Real>::RunWorker(std::size_t worker, const SampleSource& source, std::int64_t first,
                               std::int64_t last) {
  const Clock::time_point start = Clock::now();
  const Program& program = options_.program;
  const WorkerProgram& own = program.workers[worker];
  Real* workspace = workspaces_[worker].data();
  double waited = 0;
  for (std::int64_t cycle = first; cycle < last; ++cycle) {
    for (const ProgramAction& action : own.actions) {
      const std::int64_t k = cycle * program.microbatches_per_cycle + action.offset;
      if (k < 0) continue;
      const bool forward = action.kind == ActionKind::kForward;
      const bool backward = action.kind == ActionKind::kBackward;
      const bool is_first = action.stage == own.first_stage;
      const bool is_last = action.stage == own.end_stage - 1;
      if (forward && is_first && worker > 0) waited += Await(progress_[worker - 1].forwards, k);
      if (backward && is_last && worker + 1 < program.workers.size()) {
        waited += Await(progress_[worker + 1].backwards, k);
      }
      // Past the run's last micro-batch nothing is done, but workers still wait for one another: the
      // depth of the rings rests on it.
      if (k < options_.microbatches) {
        if (forward && action.stage == 0) Feed(source, k);
        Execute(action, k, workspace);
      }
      if (forward && is_last) progress_[worker].forwards.store(k + 1, std::memory_order_release);
      if (backward && is_first) {
        progress_[worker].backwards.store(k + 1, std::memory_order_release);
      }
    }
  }
  times_[worker].waiting_seconds += waited;
  times_[worker].busy_seconds += SecondsSince(start) - waited;
}

template <class Real>
void Pipeline<Real>::Run(const SampleSource& source, std::int64_t first, std::int64_t last,
                         std::vector<SampleResult>& results) {
  finished_.clear();
  finished_.reserve((last - first) * options_.program.microbatches_per_cycle * options_.microbatch);
  stop_ = false;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&](std::size_t worker) {
    try {
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
    for (std::size_t worker = 1; worker < options_.program.workers.size(); ++worker) {
      threads.emplace_back(guarded, worker);
    }
    guarded(0);
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
  for (const Tenancy& tenancy : tenancies_) {
    const std::int64_t written = done(tenancy.use.write);
    std::int64_t released = written;
    for (const ProgramAction& release : tenancy.use.releases) {
      released = std::min(released, done(release));
    }
    for (std::int64_t k = released; k < written; ++k) {
      visit(tenancy.ring->Slot(k), tenancy.ring->slot_size() * sizeof(Real));
    }
  }
  const auto in_flight = [&](int stage, auto visit_microbatch) {
    const std::int64_t written = done({ActionKind::kForward, stage, 0});
    for (std::int64_t k = done({ActionKind::kBackward, stage, 0}); k < written; ++k) {
      visit_microbatch(k);
    }
  };
  for (int s = 0; s < stage_count(); ++s) {
    StageSlot& slot = stages_[s];
    in_flight(s, [&](std::int64_t k) {
      const auto count = static_cast<std::int64_t>(slot.forward_versions.size());
      visit(&slot.forward_versions[k % count], sizeof(std::int64_t));
    });
  }
  in_flight(0, [&](std::int64_t k) {
    MicrobatchSlot& slot = microbatch(k);
    visit(&slot.microbatch.first_sample, sizeof(std::int64_t));
    visit(slot.labels.data(), slot.labels.size() * sizeof(std::int32_t));
    visit(slot.losses.data(), slot.losses.size() * sizeof(Real));
    visit(slot.correct.data(), slot.correct.size());
  });
  for (int s = 0; s < stage_count(); ++s) {
    if (!HasPendingGradient(s, cycles)) continue;
    visit(stages_[s].gradient, layout(s).parameter_size * sizeof(Real));
  }
  for (StageSlot& slot : stages_) {
    std::int64_t updates = slot.parameters->updates();
    visit(&updates, sizeof updates);
    slot.parameters->set_updates(updates);
    slot.parameters->ForEachArray([&](Real* data, std::int64_t size) {
      visit(data, static_cast<std::size_t>(size) * sizeof(Real));
    });
  }
}

template <class Real>
void Pipeline<Real>::Save(std::ostream& to, std::int64_t cycles) const {
  // Only read here; the visitor is shared with Load.
  const_cast<Pipeline&>(*this).ForEachLivePart(cycles, [&](const void* data, std::size_t bytes) {
    const auto size = static_cast<std::uint64_t>(bytes);
    to.write(reinterpret_cast<const char*>(&size), sizeof size);
    to.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  });
}

template <class Real>
void Pipeline<Real>::Load(std::istream& from, std::int64_t cycles) {
  // All sizes are looked at before anything is replaced.
  const std::istream::pos_type start = from.tellg();
  const auto read_size = [&](std::size_t bytes) {
    std::uint64_t size = 0;
    from.read(reinterpret_cast<char*>(&size), sizeof size);
    if (!from || size != bytes) throw std::runtime_error("the trainer's state is damaged");
  };
  ForEachLivePart(cycles, [&](const void* /*data*/, std::size_t bytes) {
    read_size(bytes);
    const auto size = static_cast<std::streamsize>(bytes);
    if (from.ignore(size).gcount() != size) {
      throw std::runtime_error("the trainer's state ends too early");
    }
  });
  from.seekg(start);
  ForEachLivePart(cycles, [&](void* data, std::size_t bytes) {
    read_size(bytes);
    from.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
  });
  for (std::size_t w = 0; w < progress_.size(); ++w) {
    const WorkerProgram& worker = options_.program.workers[w];
    progress_[w].forwards = CountDone(options_.program, ActionKind::kForward, worker.end_stage - 1,
                                      cycles, options_.microbatches);
    progress_[w].backwards = CountDone(options_.program, ActionKind::kBackward, worker.first_stage,
                                       cycles, options_.microbatches);
  }
  for (int s = 0; s < stage_count(); ++s) {
    stages_[s].has_pending_gradient = HasPendingGradient(s, cycles);
  }
}

template class Pipeline<float>;
template class Pipeline<double>;

}  // namespace batchless::training
