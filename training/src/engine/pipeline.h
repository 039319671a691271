// The pipeline engine: workers run their programs over stages (pipeline_stage.h) and the memory of the
// micro-batches in flight (microbatch_memory.h).
//
// A worker is a thread. It tells its neighbours how far it is, and waits for them in the two places
// that program.h names; there is no other lock. Where processes share the workers, the boundary between
// two of them is a pair of links.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <utility>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/training/sample_source.h"
#include "batchless/training/trainer.h"
#include "engine/link.h"
#include "engine/microbatch_memory.h"
#include "engine/pipeline_options.h"
#include "engine/pipeline_stage.h"
#include "engine/program.h"
#include "engine/waiting.h"
#include "engine/worker_log.h"

namespace batchless::training {

// An array of each stage, in the stage's order.
template <class Real>
struct StageArrays {
  std::vector<const Real*> data;
  std::vector<AlignedBuffer<Real>> copies;  // of those that other processes have

  void AddCopy(AlignedBuffer<Real> copy) {
    data.push_back(copies.emplace_back(std::move(copy)).data());
  }
};

// The newest weights and the state of all stages.
template <class Real>
struct NetworkWeights {
  StageArrays<Real> weights;
  StageArrays<Real> states;
};

template <class Real>
class Pipeline {
 public:
  using Options = PipelineOptions<Real>;

  explicit Pipeline(Options options);
  ~Pipeline() = default;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  int stage_count() const { return static_cast<int>(stages_.size()); }
  const StageLayout& layout(int stage) const { return stages_[stage].layout(); }
  // The stages of this process.
  const hwmodel::StageSpan& span() const { return spans_[rank_]; }
  // Without memory where another process has the stage.
  StageParameters<Real>& parameters(int stage) { return stages_[stage].parameters(); }
  const StageParameters<Real>& parameters(int stage) const { return stages_[stage].parameters(); }
  // The array at that place of every stage's table, wherever it is. Collective, as all of these functions,
  // among the processes of a replica.
  StageArrays<Real> Collect(std::size_t place) const;

  // Runs the cycles from `first` up to, and without, `last` on all workers. Appends the results of
  // the micro-batches that met their loss. Rethrows what a worker threw; the state is lost then.
  // The results are everybody's.
  void Run(const SampleSource& source, std::int64_t first, std::int64_t last,
           std::vector<SampleResult>& results);

  // The run has that many micro-batches, of those of one replica: none beyond enters. Those that have
  // entered count.
  void EndAfter(std::int64_t microbatches) { options_.microbatches = microbatches; }

  // The state after `cycles` cycles, and back. What it holds does not depend on the numbers of
  // workers, processes and replicas: any of these can save it. Load reads a stream that can be sought;
  // it throws std::runtime_error for a state of another configuration or a damaged one, and changes
  // nothing then. The streams are the first process's, the others' are left alone. False, in every process,
  // where the stream failed once its sizes had been looked at: the state is none then, and another one can
  // be loaded.
  void Save(std::ostream& to, std::int64_t cycles) const;
  // `now`: cycles that this pipeline has run.
  [[nodiscard]] bool Load(std::istream& from, std::int64_t cycles, std::int64_t now);

  // How many updates a stage, whichever process has it, has made after that many cycles.
  std::int64_t UpdatesBy(std::int64_t cycles, int stage) const {
    return CountDoneBy(cycles, hwmodel::ActionKind::kUpdate, stage) /
           options_.microbatches_per_update;
  }

  // What this process's workers did.
  const WorkerLog& log() const { return *log_; }
  // The bytes that this process holds.
  std::int64_t memory_bytes() const;

 private:
  // How far a worker is, for its neighbours; each on a cache line of its own.
  struct alignas(64) Progress {
    std::atomic<std::int64_t> forwards{0};   // micro-batches that passed the worker's last stage
    std::atomic<std::int64_t> backwards{0};  // and, backward, its first stage
  };

  // Messages of the passes of one kind over the boundary to another process. Workers that have nothing to
  // do with it look at it, too: only what `link` points to changes.
  struct Crossing {
    Wait wait;     // of this process's worker there, until a message can be written or has come in
    int from = 0;  // stage that has the pass first
    int to = 0;
    std::unique_ptr<Link<Real>> link;
  };

  void ShareWorkers();
  void AllocateStages();
  void PlanLinks();

  void RunWorker(std::size_t worker, const SampleSource& source, std::int64_t first,
                 std::int64_t last);
  // `ahead` is scratch for what the worker does next.
  void Execute(const hwmodel::SteadyAction& action, std::int64_t k, Real* workspace,
               Prefetcher& ahead);
  // What the pass after action `i` of a worker's list reads, in cycle `cycle`, where that action fetches it.
  void LookAhead(const WorkerProgram& own, std::size_t i, std::int64_t cycle, Prefetcher& ahead);
  // Before a backward: those of the group that ends with the stage, where it makes its values again.
  void ForwardsAgain(int stage, std::int64_t k, Real* workspace);
  void AppendResults(std::int64_t k);
  // Micro-batch k from the neighbour that has its pass first, in this process or another one. Seconds
  // waited, as from all of these.
  double AwaitNeighbour(std::size_t worker, hwmodel::ActionKind kind, std::int64_t k);
  // To the neighbour that has its pass next, if there is one.
  double TellNeighbour(std::size_t worker, hwmodel::ActionKind kind, std::int64_t k);
  double Send(const Crossing& crossing, std::int64_t k);
  double AwaitLink(const Crossing& crossing, std::int64_t k);
  // The update that waits for other replicas, where the action needs it.
  double AwaitUpdate(std::size_t worker, const hwmodel::SteadyAction& action, std::int64_t k);
  double AwaitUpdate(std::size_t worker, int stage);
  // Until the neighbour's process has all that was sent to it.
  double AwaitLinks(std::size_t worker, std::int64_t end);
  template <class IsReady>
  double Await(const Wait& wait, IsReady is_ready);
  // Moves what a worker has sent: long messages take the sender's help to arrive, whatever it waits for.
  // Updates that other replicas have come to are made.
  void BringForward(std::size_t worker);
  void ShareResults();
  // The micro-batches, from the first number to before the second, whose messages are under way after that
  // many cycles.
  std::pair<std::int64_t, std::int64_t> UnderWay(const Crossing& crossing,
                                                 std::int64_t cycles) const;
  void DiscardMessages(std::int64_t cycles);
  // As if nothing had passed the workers but what so many cycles do.
  void SetProgress(std::int64_t cycles);

  std::int64_t CountDoneBy(std::int64_t cycles, hwmodel::ActionKind kind, int stage) const {
    const Program& program = options_.plan.program;
    const std::int64_t microbatches = options_.microbatches;
    return options_.plan.drains ? std::min(cycles * program.microbatches_per_cycle, microbatches)
                                : CountDone(program, kind, stage, cycles, microbatches);
  }

  // pipeline_state.cpp.
  // Whether backwards of the stage wait for their update after that many cycles.
  bool HasPendingGradient(int stage, std::int64_t cycles) const;
  // visit(data, bytes, ranks of the processes that have it) for all memory that a state of `cycles`
  // cycles consists of; the data are null where this process is not one of them.
  template <class Visit>
  void ForEachLivePart(std::int64_t cycles, Visit visit);
  void RepeatMessages(std::int64_t cycles);

  Options options_;
  int rank_ = 0;
  GradientParts parts_;                    // of this replica
  std::vector<hwmodel::StageSpan> spans_;  // by process
  std::size_t first_worker_ = 0;           // of this process
  std::size_t end_worker_ = 0;
  std::size_t first_processor_ = 0;  // of those that this process's machine has, for pinned workers
  std::vector<PipelineStage<Real>> stages_;
  std::unique_ptr<MicrobatchMemory<Real>> memory_;
  std::vector<Crossing> in_;                     // from the neighbouring processes
  std::vector<Crossing> out_;                    // to them
  std::vector<AlignedBuffer<Real>> workspaces_;  // by worker, of this process
  // By worker, whose stages use it one after the other while it stays in the cache; none where
  // gradients wait for others, for other replicas or for their update.
  std::vector<AlignedBuffer<Real>> gradients_;
  std::vector<Progress> progress_;  // by worker
  std::unique_ptr<WorkerLog> log_;
  // This replica's micro-batches that the current run trains on.
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::vector<SampleResult> finished_;  // of the last worker in the current run
  std::atomic<bool> stop_{false};
};

template <class Real>
template <class IsReady>
double Pipeline<Real>::Await(const Wait& wait, IsReady is_ready) {
  return training::Await(
      stop_, options_.run.watchdog_seconds, is_ready, [&] { BringForward(wait.worker); },
      [&](double seconds) {
        Wait said = wait;
        if (said.exchange_stage >= 0) {
          said.missing_replica = stages_[said.exchange_stage].MissingReplica();
        }
        return Describe(said, options_.plan.program, options_.replica(), seconds);
      });
}

}  // namespace batchless::training
