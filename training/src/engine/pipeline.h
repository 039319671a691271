// The pipeline engine: workers run their programs over stages, parameters and rings of activations.
//
// Memory of micro-batch k:
//
//   values[v]      outputs of stages (and the network's input), kept until nobody reads them again
//   gradients[v]   the loss's gradient by a value. The last stage to read the value writes it first,
//                  the others add to it; a sum's inputs share the gradient of its output
//   saved[s]       what stage s saved for its backward
//
// Each lives in a ring of as many slots as micro-batches can need it at a time (program.h). Where
// processes share the workers, each has the rings and parameters of its own stages
// (hwmodel/memory_plan.h), and the boundary between two of them is a pair of links.
//
// Replicas of a pipeline run the same program, each on its share of every mini-batch. Micro-batch k of
// replica r is number (k / m R + r) m + k % m of the run, m of the M = R m micro-batches of an update.
// They meet at updates alone: where a stage's gradient is complete its exchange begins, and the stage's
// next pass that would read the new weights, or write the gradient, waits for it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/hwmodel/memory_plan.h"
#include "batchless/training/backend.h"
#include "batchless/training/sample_source.h"
#include "batchless/training/stage.h"
#include "batchless/training/trainer.h"
#include "engine/gradient_exchange.h"
#include "engine/gradient_sum.h"
#include "engine/link.h"
#include "engine/program.h"
#include "engine/stage_parameters.h"

namespace batchless::training {

// Slots of equal size, one for each micro-batch modulo their number.
template <class Real>
class Ring {
 public:
  Ring() = default;
  Ring(std::int64_t slot_size, std::int64_t depth)
      : slot_size_(RoundUp(slot_size, 16)), depth_(depth), buffer_(slot_size_ * depth) {}

  // Elements of a slot, rounded up.
  std::int64_t slot_size() const { return slot_size_; }
  Real* Slot(std::int64_t microbatch) { return buffer_.data() + microbatch % depth_ * slot_size_; }
  bool empty() const { return buffer_.empty(); }
  std::int64_t bytes() const { return buffer_.bytes(); }

 private:
  std::int64_t slot_size_ = 0;
  std::int64_t depth_ = 1;
  AlignedBuffer<Real> buffer_;
};

// Which version of its stage's weights a pass read.
struct VersionRead {
  hwmodel::ActionKind kind = hwmodel::ActionKind::kForward;
  int stage = 0;
  std::int64_t microbatch = 0;
  std::int64_t version = 0;
};

// The newest weights and the state of all stages.
template <class Real>
struct NetworkWeights {
  std::vector<const Real*> weights;  // by stage, in the stage's order
  std::vector<const Real*> states;
  std::vector<AlignedBuffer<Real>> copies;  // of those that other processes have
};

template <class Real>
class Pipeline {
 public:
  struct Options {
    const hwmodel::Network* network = nullptr;
    // The program's workers are shared out among its processes, equally many each; null: one process.
    ProcessGroup* group = nullptr;
    // The processes that have this one's stages in the replicas of the pipeline; null: one replica.
    ProcessGroup* peers = nullptr;
    // Those of all replicas; null: one process.
    ProcessGroup* everybody = nullptr;
    std::shared_ptr<const Backend<Real>> backend;
    int microbatch = 1;
    std::int64_t microbatches_per_update = 1;  // of one replica
    // Parts in which a mini-batch's gradients are summed, gradient_sum.h; of all replicas.
    std::int64_t gradient_parts = 1;
    std::uint64_t seed = 0;
    Program program;
    std::int64_t microbatches = 0;  // of the whole run and one replica; none beyond enters
    // Whether every call of Run fills the pipeline and drains it. With the versions of kDoubleBuffered,
    // which follow from the micro-batch's number, that changes no result.
    bool drains = false;
    // Forwards read the version that is this many updates older than the newest.
    std::int64_t forward_lag = 0;
    hwmodel::WeightVersions weights = hwmodel::WeightVersions::kNewest;
    // By stage: updates between the newest version and the oldest one that a pass reads.
    std::vector<std::int64_t> version_ages;
    // Whether forwards or backwards read other weights than the newest of their versions.
    bool predicts_forward = false;
    bool predicts_backward = false;
    // Coefficients of stage s's update after `samples` samples of the run.
    std::function<UpdateCoefficients<Real>(int stage, std::int64_t samples)> coefficients;
    bool pin_workers = false;
    std::int64_t traced_microbatches = 0;  // from the start of the run, of all replicas
    // How long a worker waits for a neighbour before it takes it for stuck; 0: for ever.
    double watchdog_seconds = 0;
    // Makes the network's stages; where it is not set, MakeStage of stage.h does.
    std::function<std::unique_ptr<Stage<Real>>(int stage)> make_stage;
    // Called by workers at every pass, where it is set: for tests of the versions.
    std::function<void(const VersionRead&)> on_read;
  };

  explicit Pipeline(Options options);

  int stage_count() const { return static_cast<int>(stages_.size()); }
  const StageLayout& layout(int stage) const { return stages_[stage].compute->layout(); }
  // The stages of this process.
  const hwmodel::StageSpan& span() const { return spans_[rank_]; }
  // Of a stage of this process.
  StageParameters<Real>& parameters(int stage) { return *stages_[stage].parameters; }
  const StageParameters<Real>& parameters(int stage) const { return *stages_[stage].parameters; }
  // The newest weights and the state of all stages, wherever they are. Collective, as all of these
  // functions, among the processes of a replica.
  NetworkWeights<Real> CollectWeights() const;

  // Runs the cycles from `first` up to, and without, `last` on all workers. Appends the results of
  // the micro-batches that met their loss. Rethrows what a worker threw; the state is lost then.
  // The results are everybody's.
  void Run(const SampleSource& source, std::int64_t first, std::int64_t last,
           std::vector<SampleResult>& results);

  // The state after `cycles` cycles, and back. What it holds does not depend on the numbers of
  // workers, processes and replicas: any of these can save it. Load reads a stream that can be sought;
  // it throws std::runtime_error for a state of another configuration or a damaged one, and changes
  // nothing then. The streams are the first process's, the others' are left alone.
  void Save(std::ostream& to, std::int64_t cycles) const;
  // `now`: cycles that this pipeline has run.
  void Load(std::istream& from, std::int64_t cycles, std::int64_t now);

  // Of all workers.
  std::vector<WorkerTimes> worker_times() const;
  std::vector<TraceEvent> trace() const;
  // Of this process.
  std::int64_t memory_bytes() const;

 private:
  struct StageSlot {
    const hwmodel::Stage* description = nullptr;
    std::unique_ptr<Stage<Real>> compute;
    VersionCounts versions;
    std::unique_ptr<StageParameters<Real>> parameters;  // null: another process's
    Ring<Real> saved;
    std::vector<std::int64_t>
        forward_versions;  // of the micro-batches in flight, modulo their number
    // Slots of `gradient_size` elements, for the sums of parts of a mini-batch.
    Real* gradient = nullptr;
    std::int64_t gradient_size = 0;
    bool has_pending_gradient = false;                 // in the slot of the current part
    std::unique_ptr<GradientExchange<Real>> exchange;  // null: one replica
    std::int64_t exchanged = -1;  // micro-batch whose update waits for the exchange; -1: none does
  };

  class PieceUpdate;

  // Results and labels of one micro-batch.
  struct MicrobatchSlot {
    Microbatch<Real> microbatch;
    std::vector<std::int32_t> labels;
    std::vector<Real> losses;
    std::vector<std::uint8_t> correct;
  };

  // How far a worker is, for its neighbours; each on a cache line of its own.
  struct alignas(64) Progress {
    std::atomic<std::int64_t> forwards{0};   // micro-batches that passed the worker's last stage
    std::atomic<std::int64_t> backwards{0};  // and, backward, its first stage
  };

  // Memory and the actions that write and release it: which micro-batches it holds at a time, by
  // process; none where a process has no copy.
  struct Tenancy {
    Ring<Real>* ring = nullptr;
    std::size_t slot_bytes = 0;
    std::vector<std::optional<hwmodel::MemoryUse>> uses;
  };

  // What passes between this process and a neighbour with a forward, or with a backward.
  struct Boundary {
    std::unique_ptr<Link<Real>> link;  // null: no neighbour there
    std::vector<Ring<Real>*> rings;
  };

  // Where a worker waits for a neighbour.
  struct Queue {
    hwmodel::ActionKind kind = hwmodel::ActionKind::kForward;
    std::size_t worker = 0;
    std::size_t neighbour = 0;
    std::int64_t microbatch = 0;
    bool is_full = false;  // it waits for the neighbour to take something
    int exchange = -1;     // stage whose gradient it waits for, from other replicas
  };

  bool is_first_process() const { return rank_ == 0; }
  bool is_last_process() const { return rank_ + 1 == static_cast<int>(spans_.size()); }
  void PlanMemory();
  void PlanParameters();
  void PlanBoundaries();
  int replicas() const { return options_.peers == nullptr ? 1 : options_.peers->size(); }
  int replica() const { return options_.peers == nullptr ? 0 : options_.peers->rank(); }
  // The number in the run of this replica's micro-batch k.
  std::int64_t InRun(std::int64_t k) const {
    if (options_.peers == nullptr) return k;
    const std::int64_t share = options_.microbatches_per_update;
    return (k / share * replicas() + replica()) * share + k % share;
  }
  std::int64_t CountDoneBy(std::int64_t cycles, hwmodel::ActionKind kind, int stage) const;
  // Whether backwards of the stage wait for their update after that many cycles.
  bool HasPendingGradient(int stage, std::int64_t cycles) const;
  // visit(data, bytes, ranks of the processes that have it) for all memory that a state of `cycles`
  // cycles consists of; the data are null where this process is not one of them.
  template <class Visit>
  void ForEachLivePart(std::int64_t cycles, Visit visit);
  // How many messages are under way at a boundary after that many cycles: what `kind` at stage `from`
  // has sent and at stage `to` has not yet taken.
  std::int64_t CountUnderWay(hwmodel::ActionKind kind, int from, int to, std::int64_t cycles) const;
  void DiscardMessages(std::int64_t cycles);
  // As if nothing had passed the workers but the first `microbatches`, and nothing were on its way.
  void Rewind(std::int64_t cycles, std::int64_t microbatches);
  void ShareResults();
  void RepeatMessages(std::int64_t cycles);
  void RunWorker(std::size_t worker, const SampleSource& source, std::int64_t first,
                 std::int64_t last);
  void Execute(const ProgramAction& action, std::int64_t k, Real* workspace);
  // The part of its share of a mini-batch that micro-batch k belongs to.
  std::int64_t PartOf(std::int64_t k) const;
  // Ends micro-batch k's part where it is the last one.
  void SumParts(StageSlot& slot, std::int64_t k);
  // The sums of slots `last` - 1 and `last` become one.
  void AddSums(StageSlot& slot, std::int64_t last);
  // Of the update that micro-batch k ends.
  UpdateCoefficients<Real> Coefficients(int stage, std::int64_t k) const;
  void Update(int stage, std::int64_t k);
  // The update that waits for other replicas, where the action needs it; the seconds waited.
  double AwaitUpdate(std::size_t worker, const ProgramAction& action);
  double AwaitUpdate(std::size_t worker, int stage);
  void AppendResults(std::int64_t k);
  void Forward(int stage, std::int64_t k, Real* workspace);
  void Backward(int stage, std::int64_t k, Real* workspace);
  void Feed(const SampleSource& source, std::int64_t k);
  void FeedImages(const SampleSource& source, std::int64_t k);
  // Seconds since this process started to train.
  double Now() const;
  void Trace(std::size_t worker, const ProgramAction& action, std::int64_t k, bool is_wait,
             double start);
  // Returns the seconds waited until `is_ready`. Throws Stopped when another worker failed, and
  // std::runtime_error naming worker and queue when the watchdog's time is over.
  template <class IsReady>
  double Await(const Queue& queue, IsReady is_ready);
  // Of what a worker has sent: long messages take the sender's help to arrive, whatever it waits for.
  // Updates that other replicas have come to are made.
  void BringForward(std::size_t worker);
  std::string Describe(const Queue& queue, double seconds) const;
  // Waits until a neighbour in this process is past the micro-batch.
  double AwaitProgress(const Queue& queue);
  double Send(Boundary& boundary, Queue queue);
  double Receive(Boundary& boundary, const Queue& queue);
  MicrobatchSlot& microbatch(std::int64_t k) {
    return microbatches_[k % static_cast<std::int64_t>(microbatches_.size())];
  }

  Options options_;
  int rank_ = 0;
  GradientParts parts_;                    // of this replica
  std::vector<hwmodel::StageSpan> spans_;  // by process
  std::size_t first_worker_ = 0;           // of this process
  std::size_t end_worker_ = 0;
  std::vector<StageSlot> stages_;
  std::vector<ValueLayout> values_;
  std::unique_ptr<hwmodel::MemoryPlan> plan_;
  std::vector<Tenancy> tenancies_;
  std::vector<Ring<Real>> value_rings_;
  std::vector<Ring<Real>> gradient_rings_;
  std::vector<MicrobatchSlot> microbatches_;
  Boundary forwards_in_;
  Boundary forwards_out_;
  Boundary backwards_in_;
  Boundary backwards_out_;
  std::vector<AlignedBuffer<Real>> workspaces_;  // by worker, of this process
  // By stage where gradients wait for others, for other replicas or for their update; else by worker,
  // whose stages use it one after the other while it stays in the cache.
  std::vector<AlignedBuffer<Real>> gradients_;
  bool updates_pieces_ = false;  // backwards update a stage's largest tensor in passing
  std::vector<Progress> progress_;
  std::vector<WorkerTimes> times_;
  std::vector<std::vector<TraceEvent>> traces_;  // by worker, of this process
  std::optional<std::chrono::steady_clock::time_point> started_;
  // This replica's micro-batches that the current run trains on.
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::vector<SampleResult> finished_;  // of the last worker in the current run
  std::atomic<bool> stop_{false};
};

}  // namespace batchless::training
