#include "engine/pipeline.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "engine/collective.h"
#include "engine/pinning.h"

namespace batchless::training {
namespace {

using hwmodel::ActionKind;
using hwmodel::WeightVersions;
using Clock = std::chrono::steady_clock;

}  // namespace

template <class Real>
Pipeline<Real>::Pipeline(Options options)
    : options_(std::move(options)),
      rank_(options_.group == nullptr ? 0 : options_.group->rank()),
      parts_(options_.run.gradient_parts, options_.replicas(), options_.replica()),
      progress_(options_.plan.program.workers.size()) {
  ShareWorkers();
  const std::int64_t traced =
      std::min(options_.run.traced_microbatches, options_.microbatches * options_.replicas());
  log_ = std::make_unique<WorkerLog>(options_.plan.program, first_worker_, end_worker_, traced);
  std::vector<const StageLayout*> layouts;
  layouts.reserve(options_.run.network.stages.size());
  for (int s = 0; s < static_cast<int>(options_.run.network.stages.size()); ++s) {
    layouts.push_back(&stages_.emplace_back(options_, s).layout());
  }
  memory_ = std::make_unique<MicrobatchMemory<Real>>(options_, spans_, rank_, layouts);
  AllocateStages();
  PlanLinks();
}

template <class Real>
void Pipeline<Real>::ShareWorkers() {
  const std::size_t processes = options_.group == nullptr ? 1 : options_.group->size();
  const std::size_t workers = options_.plan.program.workers.size() / processes;
  spans_ = SpansOfProcesses(options_.plan.program, processes);
  first_worker_ = rank_ * workers;
  end_worker_ = first_worker_ + workers;
  if (options_.run.processes == nullptr) return;
  const ProcessGroup& all = *options_.run.processes;
  for (int p = 0; p < all.rank(); ++p) {
    if (all.machine_of(p) == all.machine_of(all.rank())) first_processor_ += workers;
  }
}

template <class Real>
void Pipeline<Real>::AllocateStages() {
  const bool waits = !UpdatesAtOnce(options_.plan.program) || options_.replicas() > 1;
  for (std::size_t w = first_worker_; w < end_worker_; ++w) {
    const WorkerProgram& worker = options_.plan.program.workers[w];
    std::int64_t workspace = 0;
    std::int64_t gradient = 0;
    for (int s = worker.first_stage; s < worker.end_stage; ++s) {
      workspace = std::max(workspace, parameters(s).workspace_size());
      gradient = std::max(gradient, layout(s).parameter_size);
    }
    workspaces_.emplace_back(workspace);
    gradients_.emplace_back(waits ? 0 : gradient);
    for (int s = worker.first_stage; s < worker.end_stage; ++s) {
      stages_[s].Allocate(*memory_, parts_, waits ? nullptr : gradients_.back().data());
    }
  }
}

template <class Real>
void Pipeline<Real>::PlanLinks() {
  // Between `stage` - 1 and `stage`.
  const auto plan = [&](int stage, ActionKind kind, bool out) {
    const bool forward = kind == ActionKind::kForward;
    const int from = forward ? stage - 1 : stage;
    const int to = forward ? stage : stage - 1;
    const std::vector<std::int64_t> depths =
        RingDepths(options_.plan.program, {{.write = {kind, from}, .releases = {{kind, to}}}});
    const bool is_next = forward == out;
    (out ? out_ : in_)
        .push_back({.wait = {.kind = kind,
                             .worker = is_next ? end_worker_ - 1 : first_worker_,
                             .neighbour = is_next ? end_worker_ : first_worker_ - 1,
                             .is_full = out},
                    .from = from,
                    .to = to,
                    .link = std::make_unique<Link<Real>>(
                        *options_.group, is_next ? rank_ + 1 : rank_ - 1, LinkChannel(kind), out,
                        memory_->Crossing(kind, stage), depths[0])});
  };
  if (rank_ > 0) {
    plan(span().first, ActionKind::kForward, /*out=*/false);
    plan(span().first, ActionKind::kBackward, /*out=*/true);
  }
  if (rank_ + 1 < static_cast<int>(spans_.size())) {
    plan(span().end, ActionKind::kForward, /*out=*/true);
    plan(span().end, ActionKind::kBackward, /*out=*/false);
  }
}

template <class Real>
std::int64_t Pipeline<Real>::memory_bytes() const {
  std::int64_t bytes =
      memory_->bytes() + SumBytes(stages_) + SumBytes(workspaces_) + SumBytes(gradients_);
  for (const auto* crossings : {&in_, &out_}) {
    for (const Crossing& crossing : *crossings) bytes += crossing.link->bytes();
  }
  return bytes;
}

template <class Real>
StageArrays<Real> Pipeline<Real>::Collect(std::size_t place) const {
  StageArrays<Real> arrays;
  for (std::size_t p = 0; p < spans_.size(); ++p) {
    for (int s = spans_[p].first; s < spans_[p].end; ++s) {
      const Real* data = parameters(s).array(place);
      const std::int64_t size = parameters(s).array_sizes()[place];
      if (spans_.size() == 1 || size == 0) {
        arrays.data.push_back(data);
        continue;
      }
      AlignedBuffer<Real> copy(size);
      if (static_cast<int>(p) == rank_) std::copy_n(data, size, copy.data());
      options_.group->Broadcast(static_cast<int>(p), std::as_writable_bytes(std::span(copy)));
      arrays.AddCopy(std::move(copy));
    }
  }
  return arrays;
}

template <class Real>
void Pipeline<Real>::Execute(const hwmodel::SteadyAction& action, std::int64_t k, Real* workspace,
                             Prefetcher& ahead) {
  PipelineStage<Real>& stage = stages_[action.stage];
  switch (action.kind) {
    case ActionKind::kForward:
      stage.Forward(k, workspace, &ahead);
      break;
    case ActionKind::kBackward:
      if (action.stage == stage_count() - 1) AppendResults(k);
      ForwardsAgain(action.stage, k, workspace);
      stage.Backward(k, workspace, &ahead);
      break;
    case ActionKind::kWeightGradient:
      stage.WeightGradient(k, workspace);
      break;
    case ActionKind::kUpdate:
      stage.Update(k, workspace);
      break;
  }
}

template <class Real>
void Pipeline<Real>::ForwardsAgain(int stage, std::int64_t k, Real* workspace) {
  for (const hwmodel::StageSpan& group : options_.plan.recomputed) {
    if (group.end - 1 != stage) continue;
    for (int s = group.first; s < group.end; ++s) stages_[s].ForwardAgain(k, workspace);
  }
}

template <class Real>
void Pipeline<Real>::AppendResults(std::int64_t k) {
  const MicrobatchSlot<Real>& slot = memory_->At(k);
  for (std::int64_t i = 0; i < options_.run.microbatch; ++i) {
    finished_.push_back(slot.Result(i));
  }
}

template <class Real>
double Pipeline<Real>::AwaitNeighbour(std::size_t worker, ActionKind kind, std::int64_t k) {
  for (const Crossing& crossing : in_) {
    if (crossing.wait.worker != worker || crossing.wait.kind != kind) continue;
    const double waited = AwaitLink(crossing, k);
    crossing.link->Receive(k);
    return waited;
  }
  const bool forward = kind == ActionKind::kForward;
  const Wait wait{.kind = kind,
                  .worker = worker,
                  .neighbour = forward ? worker - 1 : worker + 1,
                  .microbatch = k};
  const Progress& neighbour = progress_[wait.neighbour];
  const std::atomic<std::int64_t>& passed = forward ? neighbour.forwards : neighbour.backwards;
  return Await(wait, [&] { return passed.load(std::memory_order_acquire) > k; });
}

template <class Real>
double Pipeline<Real>::TellNeighbour(std::size_t worker, ActionKind kind, std::int64_t k) {
  double waited = 0;
  for (const Crossing& crossing : out_) {
    if (crossing.wait.worker == worker && crossing.wait.kind == kind) waited = Send(crossing, k);
  }
  Progress& own = progress_[worker];
  const bool forward = kind == ActionKind::kForward;
  (forward ? own.forwards : own.backwards).store(k + 1, std::memory_order_release);
  return waited;
}

template <class Real>
double Pipeline<Real>::Send(const Crossing& crossing, std::int64_t k) {
  const double waited = AwaitLink(crossing, k);
  crossing.link->Send(k);
  return waited;
}

template <class Real>
double Pipeline<Real>::AwaitLink(const Crossing& crossing, std::int64_t k) {
  Wait wait = crossing.wait;
  wait.microbatch = k;
  return Await(wait, [&] { return crossing.link->IsReady(); });
}

template <class Real>
double Pipeline<Real>::AwaitUpdate(std::size_t worker, const hwmodel::SteadyAction& action,
                                   std::int64_t k) {
  // A forward that reads an older version than the update makes has nothing to wait for.
  const PipelineStage<Real>& stage = stages_[action.stage];
  const bool reads_older = action.kind == ActionKind::kForward &&
                           options_.plan.schedule.weights == WeightVersions::kDoubleBuffered &&
                           stage.ForwardVersion(k) <= stage.parameters().updates();
  return reads_older ? 0 : AwaitUpdate(worker, action.stage);
}

template <class Real>
double Pipeline<Real>::AwaitUpdate(std::size_t worker, int stage) {
  if (!stages_[stage].is_exchanging()) return 0;
  BringForward(worker);
  return Await({.kind = ActionKind::kUpdate,
                .worker = worker,
                .neighbour = worker,
                .microbatch = stages_[stage].exchanged(),
                .exchange_stage = stage},
               [&] { return !stages_[stage].is_exchanging(); });
}

template <class Real>
double Pipeline<Real>::AwaitLinks(std::size_t worker, std::int64_t end) {
  double waited = 0;
  for (const Crossing& crossing : out_) {
    if (crossing.wait.worker != worker) continue;
    Wait wait = crossing.wait;
    wait.microbatch = end;
    waited += Await(wait, [&] { return crossing.link->Progress(); });
  }
  return waited;
}

template <class Real>
void Pipeline<Real>::BringForward(std::size_t worker) {
  for (const Crossing& crossing : out_) {
    if (crossing.wait.worker == worker) crossing.link->Progress();
  }
  if (options_.replicas() == 1) return;
  const WorkerProgram& program = options_.plan.program.workers[worker];
  Real* workspace = workspaces_[worker - first_worker_].data();
  for (int s = program.first_stage; s < program.end_stage; ++s)
    stages_[s].ProgressExchange(workspace);
}

template <class Real>
void Pipeline<Real>::LookAhead(const WorkerProgram& own, std::size_t i, std::int64_t cycle,
                               Prefetcher& ahead) {
  ahead.Clear();
  // No other stage's kernels fetch.
  const hwmodel::Stage& fetching = options_.run.network.stages[own.actions[i].stage];
  if (fetching.layers.back().kind != hwmodel::LayerKind::kConvolution) return;
  for (std::size_t next = i + 1; next <= i + own.actions.size(); ++next) {
    const hwmodel::SteadyAction& action = own.actions[next % own.actions.size()];
    if (action.kind != ActionKind::kForward && action.kind != ActionKind::kBackward) continue;
    if (next >= own.actions.size()) ++cycle;
    const std::int64_t k = cycle * options_.plan.program.microbatches_per_cycle + action.offset;
    if (begin_ <= k && k < end_) stages_[action.stage].LookAhead(action.kind, k, ahead);
    return;
  }
}

template <class Real>
void Pipeline<Real>::RunWorker(std::size_t worker, const SampleSource& source, std::int64_t first,
                               std::int64_t last) {
  const Clock::time_point start = Clock::now();
  const Program& program = options_.plan.program;
  const WorkerProgram& own = program.workers[worker];
  Real* workspace = workspaces_[worker - first_worker_].data();
  Prefetcher ahead;
  double waited = 0;
  for (std::int64_t cycle = first; cycle < last; ++cycle) {
    for (std::size_t i = 0; i < own.actions.size(); ++i) {
      const hwmodel::SteadyAction& action = own.actions[i];
      const std::int64_t k = cycle * program.microbatches_per_cycle + action.offset;
      if (k < begin_) continue;
      const bool forward = action.kind == ActionKind::kForward;
      const bool backward = action.kind == ActionKind::kBackward;
      const bool is_first = action.stage == own.first_stage;
      const bool is_last = action.stage == own.end_stage - 1;
      const bool traced = log_->traces(options_.InRun(k));
      const bool comes_in = forward && is_first && worker > 0;
      const bool comes_back = backward && is_last && worker + 1 < program.workers.size();
      if (comes_in || comes_back) {
        const double before = traced ? log_->Now() : 0;
        waited += AwaitNeighbour(worker, action.kind, k);
        if (traced) log_->AddEvent(worker, action, options_.InRun(k), /*is_wait=*/true, before);
      }
      // Past the run's last micro-batch nothing is done, but workers still wait for one another: the
      // depth of the rings rests on it.
      if (k < end_) {
        waited += AwaitUpdate(worker, action, k);
        if (forward && is_first && worker == first_worker_) memory_->Feed(source, k);
        const double before = traced ? log_->Now() : 0;
        if (forward && action.stage == 0) memory_->FeedImages(source, k);
        if (forward || backward) LookAhead(own, i, cycle, ahead);
        Execute(action, k, workspace, ahead);
        if (traced) log_->AddEvent(worker, action, options_.InRun(k), /*is_wait=*/false, before);
      }
      if ((forward && is_last) || (backward && is_first))
        waited += TellNeighbour(worker, action.kind, k);
      BringForward(worker);
    }
  }
  for (int s = own.first_stage; s < own.end_stage; ++s) waited += AwaitUpdate(worker, s);
  // Whoever waits for the last messages would wait for the next run else.
  waited += AwaitLinks(worker, last * program.microbatches_per_cycle);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  log_->AddSeconds(worker, seconds - waited, waited);
}

template <class Real>
void Pipeline<Real>::Run(const SampleSource& source, std::int64_t first, std::int64_t last,
                         std::vector<SampleResult>& results) {
  log_->Start();
  finished_.clear();
  const std::int64_t microbatches = (last - first) * options_.plan.program.microbatches_per_cycle;
  finished_.reserve(microbatches * options_.run.microbatch);
  end_ = options_.microbatches;
  const std::int64_t cycles = last;
  if (options_.plan.drains) {
    begin_ = first * options_.plan.program.microbatches_per_cycle;
    end_ = std::min(begin_ + microbatches, options_.microbatches);
    last += DrainCycles(options_.plan.program);
  }
  stop_ = false;
  std::exception_ptr failure;  // of the one that stopped the others
  const auto guarded = [&](std::size_t worker) {
    try {
      std::shared_ptr<const void> pinned;
      if (options_.run.pin_workers) pinned = PinThread(first_processor_ + worker - first_worker_);
      RunWorker(worker, source, first, last);
    } catch (const Stopped&) {
      // The one that failed says why.
    } catch (...) {
      if (!stop_.exchange(true)) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      threads.reserve(end_worker_ - first_worker_);
      for (std::size_t worker = first_worker_ + 1; worker < end_worker_; ++worker) {
        threads.emplace_back(guarded, worker);
      }
    } catch (const std::exception& error) {
      // No thread, or no memory for one. Those that run would wait for those that do not.
      if (!stop_.exchange(true)) {
        failure = std::make_exception_ptr(std::runtime_error(
            "of " + std::to_string(end_worker_ - first_worker_) + " threads only " +
            std::to_string(threads.size() + 1) + " could be started: " + error.what()));
      }
    }
    guarded(first_worker_);
  }
  if (!failure) {
    ShareResults();
    if (options_.plan.drains) {
      DiscardMessages(last);
      SetProgress(cycles);
    }
  }
  results.insert(results.end(), finished_.begin(), finished_.end());
  if (failure) std::rethrow_exception(failure);
}

template <class Real>
std::pair<std::int64_t, std::int64_t> Pipeline<Real>::UnderWay(const Crossing& crossing,
                                                               std::int64_t cycles) const {
  const auto done = [&](int stage) {
    // Past the run's last micro-batch messages go on.
    return CountDone(options_.plan.program, crossing.wait.kind, stage, cycles,
                     std::numeric_limits<std::int64_t>::max());
  };
  return {done(crossing.to), done(crossing.from)};
}

template <class Real>
void Pipeline<Real>::DiscardMessages(std::int64_t cycles) {
  for (const Crossing& crossing : in_) {
    for (auto [k, end] = UnderWay(crossing, cycles); k < end; ++k) {
      AwaitLink(crossing, 0);
      crossing.link->Discard();
    }
  }
}

template <class Real>
void Pipeline<Real>::SetProgress(std::int64_t cycles) {
  for (std::size_t w = first_worker_; w < end_worker_; ++w) {
    const WorkerProgram& worker = options_.plan.program.workers[w];
    progress_[w].forwards = CountDoneBy(cycles, ActionKind::kForward, worker.end_stage - 1);
    progress_[w].backwards = CountDoneBy(cycles, ActionKind::kBackward, worker.first_stage);
  }
}

template <class Real>
void Pipeline<Real>::ShareResults() {
  // The last process of each replica has them.
  if (options_.group != nullptr) {
    BroadcastVector(*options_.group, options_.group->size() - 1, finished_);
  }
  finished_ = Gather(options_.peers, std::move(finished_));
  std::sort(finished_.begin(), finished_.end(),
            [](const SampleResult& a, const SampleResult& b) { return a.sample < b.sample; });
}

template class Pipeline<float>;
template class Pipeline<double>;

}  // namespace batchless::training
