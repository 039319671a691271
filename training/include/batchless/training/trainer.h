// Training as a function of configuration and seed.
//
//   schedule      who does what when; all update each stage's parameters in the order of the samples
//   batch         samples of one update, N
//   micro-batch   samples that pass through a stage together, n; M = N / n of them make an update
//   parts         P of M / P micro-batches, whose gradients are summed one by one; then the parts' sums
//                 as a binary tree. P = 1: all of them one by one, in order
//   replicas      R pipelines with the same weights, each for N / R samples of every mini-batch, the
//                 r-th of them for those with P / R of the parts. They sum their gradients at every
//                 update, as the tree says, so that a run has the same bits with any R
//
// What happens when follows from a list of actions (hwmodel/schedule.h), and so does each stage's delay:
//
//   mini-batches  no list: each mini-batch goes through the workers, fills and drains; with one worker
//                 or several the same bits, because the order of every sum is the same
//   pb            pipelined backpropagation: every stage does one micro-batch forward, one backward
//                 and one update in each step; forwards are D_s updates late. N = n
//   split         backwards whose weight gradients come later (zero bubble) train too
//   uniform delay mini-batches whose forwards lag D updates behind (Schedule::forward_lag); backwards
//                 read the newest weights, or with stashing, as consistent delay, the forward's
//   random delays mini-batches whose passes both read the weights of d updates before, max(0, i - d) of
//                 them for update i, d drawn for each update by seed and position (random_delays)
//
//   weight stashing   the backward reads the version that its forward read (with the prediction, if
//                     there was one) instead of the newest
//   SpecTrain         both passes predict, by velocity, to the step in which the sample's last
//                     backward comes: 2(S-1) - s updates forward, s backward with pb. With stashed
//                     weights forwards alone predict, to their update: its second version
//   recomputation     backwards make what their forwards made once more, in place of keeping it
//   vertical sync     with stashing, every stage reads the version that stage 0 read: the delay of
//                     stage 0 for all of them
//
// Numbers of threads, processes and replicas change no bit. The loss of a mini-batch is the mean over
// its samples.
//
// Sources: Kosson et al., arXiv 2003.11666; Huang et al., GPipe, arXiv 1811.06965 (fill-drain,
// recomputation);
// Harlap et al., PipeDream, arXiv 1806.03377 (weight stashing, vertical sync); Chen et al., arXiv
// 1809.02839, and its authors' repository (SpecTrain).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "batchless/analysis/random_delay.h"
#include "batchless/analysis/rule.h"
#include "batchless/hwmodel/action.h"
#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule.h"
#include "batchless/hwmodel/training_memory.h"
#include "batchless/training/backend.h"
#include "batchless/training/learning_rate.h"
#include "batchless/training/optimizer.h"
#include "batchless/training/process_group.h"
#include "batchless/training/sample_source.h"

namespace batchless::training {

enum class Precision : unsigned char { kSingle, kDouble };

struct TrainerOptions {
  hwmodel::Network network;
  /// What the stages of one replica do, and which versions of the weights they read: two cycles at least
  /// in which every stage does everything. Its workers are not read, but for `recompute` and
  /// `gradient_shrink`. Without actions every mini-batch
  /// drains before the next one begins, in an order with few micro-batches in flight
  /// (hwmodel::MiniBatches).
  hwmodel::Schedule schedule;
  /// Threads that share the stages. With several processes: of each.
  int workers = 1;
  /// Delays that are drawn independently for each update, the same for all stages: with a schedule that has
  /// neither actions nor a lag of its own. Rules are made for their mean or, with kOwn, for the delay of each
  /// gradient and each look-ahead, as analysis/random_delay.h says.
  std::optional<analysis::DelayModel> random_delays;
  analysis::DelayCompensation compensation = analysis::DelayCompensation::kMean;
  /// R; divides the number of processes and gradient_parts. An update has as many micro-batches at
  /// least; a list drains after each of them, or its weights are double-buffered.
  int replicas = 1;
  std::int64_t gradient_parts = 1;  ///< P; divides the micro-batches of an update
  /// Backwards first make again what the forwards of their worker's stages made, so that a micro-batch in
  /// flight takes the memory of what comes in to each of the schedule's workers alone. For schedules
  /// whose backwards read the weights of their forwards. No result depends on it. A state with
  /// micro-batches in flight goes on where the same stages make again, from the same ones on: workers or
  /// processes that divide a schedule's worker among them make it another state.
  bool recompute = false;
  /// With `recompute`, the schedule's workers whose stages do, ascending; empty: all.
  std::vector<int> recomputed_workers{};
  /// What the gradient is multiplied by that a worker of the schedule hands to the one before it, 0 to 1:
  /// the shrunk gradients of FDG (arXiv 1906.09108). Each hands on one value only.
  double gradient_shrink = 1;
  /// Each worker stays on a processor of its own, among those that the process may use.
  bool pin_workers = false;
  /// The cost of each stage, in any unit, which is shared as equally as contiguous groups can be among the
  /// workers of a pipeline's processes (hwmodel/partition.h). The same in every process; empty: the
  /// FLOPs of its passes. No result depends on it.
  std::vector<double> stage_costs;
  /// Processes that train together with this one; null: it is alone. A trainer's functions are
  /// collective then, unless they say otherwise.
  std::shared_ptr<ProcessGroup> processes;
  /// How long a worker waits for a neighbour before it gives up, naming itself and the queue; 0: for
  /// ever. Advance throws std::runtime_error then.
  double watchdog_seconds = 0;
  /// Micro-batches from the start of the run whose passes Trainer::trace() shows.
  std::int64_t traced_microbatches = 0;
  std::int64_t batch = 128;
  std::int64_t microbatch = 1;  ///< divides batch; equal to it with batch normalisation
  std::int64_t samples = 0;     ///< to train on; 0: as many as there are before Finish
  /// Where in the run they begin: positions, random numbers and learning rates count from its start.
  std::int64_t first_sample = 0;
  /// Updates that are in what ImportState takes over, of matrices and of other tensors (PastAfter).
  PastUpdates past;
  PastUpdates past_of_vectors;
  analysis::RuleSpec rule{analysis::FindRule("sgdm"), {}};
  OptimizerSpec optimizer;
  LearningRate learning_rate;
  double momentum = 0.9;
  /// That stages come the nearer the later their gradients: m + D (this - m) / (1 + the largest D), of the
  /// optimizer's m, momentum or beta1; none: all have m. Source: the code of Ajanthan et al., arXiv
  /// 2505.01099 (at second hand).
  std::optional<double> deepest_momentum;
  double weight_decay = 0;
  /// c: a stage's gradient g of a mini-batch, before weight decay, becomes g min(1, c / (|g| + 1e-6)), |g| the
  /// root of the sum of the squares of all its numbers; none: g stays. Each stage clips for itself, since none
  /// of a pipeline waits for the norms of the others. Source: torch.nn.utils.clip_grad_norm_, stage by stage.
  std::optional<double> max_gradient_norm;
  std::uint64_t seed = 0;  ///< of initialisation, dropout and random delays
  Precision precision = Precision::kSingle;
  /// Double precision has the reference's alone.
  ConvolutionMethod convolution = ConvolutionMethod::kWinograd;

  /// False with the line of Validate in `why`.
  bool IsValid(std::string* why) const;

  /// Those that share the stages: of one replica, in all its processes. For valid options.
  int PipelineWorkers() const;
  /// Counts those of one replica. The options have to be valid.
  std::int64_t MicrobatchesPerUpdate() const { return batch / microbatch / replicas; }
  /// What one replica does, in one process: its share is all that it knows of a batch.
  TrainerOptions OfOneReplica() const;
};

/// Throws analysis::InvalidArgument with the name of the first option that is out of range, `batch` for
/// instance; of a rule, schedule or learning rate the name of its own member. Without processes their
/// number is not looked at.
void Validate(const TrainerOptions& options);

/// The part of it that says whether the precision holds the numbers of optimizer, rule and learning rate:
/// no given number becomes 0 or infinite, and none that has to be below 1 becomes 1.
void ValidatePrecision(const TrainerOptions& options);

/// A loss, weight or number that the optimizer keeps that is no finite number.
class Diverged : public std::runtime_error {
 public:
  Diverged(std::string stage, std::int64_t sample);

  const std::string& stage() const { return stage_; }  ///< first one that is not finite
  /// Position in the run: of the first bad loss or, where only weights are bad, of the last sample.
  std::int64_t sample() const { return sample_; }

 private:
  std::string stage_;
  std::int64_t sample_;
};

/// A tensor in PyTorch's order, converted to double.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

/// What happened to one sample of the run.
struct SampleResult {
  std::int64_t sample = 0;  ///< position in the run
  int label = 0;            ///< of a sequence that of its last token
  double loss = 0;          ///< of a sequence the mean over its tokens
  double correct = 0;       ///< share of its labels that won, of one label 0 or 1

  bool operator==(const SampleResult&) const = default;
};

struct Evaluation {
  std::int64_t samples = 0;
  double loss = 0;      ///< mean
  double accuracy = 0;  ///< share of labels whose output is the largest
};

/// What a worker did, over the whole life of the trainer.
struct WorkerTimes {
  int first_stage = 0;
  int end_stage = 0;  ///< one past its last
  double busy_seconds = 0;
  double waiting_seconds = 0;
};

/// A worker's pass of a micro-batch, or its wait for a neighbour before one. Seconds from the moment in
/// which its process started to train.
struct TraceEvent {
  int worker = 0;
  hwmodel::ActionKind kind = hwmodel::ActionKind::kForward;
  bool is_wait = false;
  int stage = 0;
  std::int64_t microbatch = 0;
  double start = 0;
  double end = 0;
};

class Trainer {
 public:
  virtual ~Trainer() = default;
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Samples that have entered, from the start of the run; first_sample and whole batches. With pb the
  /// last of them are still on their way, until the run's last sample is in: then all are done. A
  /// pipeline whose weights are double-buffered is drained whenever Advance returns. Not collective.
  virtual std::int64_t samples_done() const = 0;

  /// Trains on positions samples_done() .. to-1 of `source`; `to` is rounded up to a whole number of
  /// mini-batches. The results of samples that met their loss are appended in the order of the
  /// samples. Throws Diverged, with the results and the state as they are then, and whatever reading
  /// a sample throws, after which only Load goes on; analysis::InvalidArgument while Learn has a part of a
  /// mini-batch.
  virtual void Advance(const SampleSource& source, std::int64_t to,
                       std::vector<SampleResult>& results) = 0;

  /// Trains on a sample of the caller's own, the run's next one: network.input.elements() values in the
  /// order channel, row, column, as the network is to see them, and a label from 0 to network.classes - 1.
  /// Returns what Advance would append: results of the samples that met their loss by now, earlier ones
  /// where micro-batches are in flight. The last sample of a mini-batch (of a schedule that updates
  /// several times a cycle: cycle) is what trains on all of it. The bits are those of Advance over the
  /// same samples. Processes that train together give the same sample each.
  ///
  /// Throws analysis::InvalidArgument for an `image` or `label` that is not of the network, numbers that
  /// are not finite or, before an embedding, no tokens, and `samples` where the run has had all of them;
  /// Diverged as Advance does.
  virtual std::vector<SampleResult> Learn(std::span<const float> image, int label) = 0;

  /// Ends the run with the samples that there have been, however many the options say: all that is in
  /// flight gets its updates. Returns the results that were missing. A mini-batch that Learn has only a
  /// part of is left out, as samples_done() says then. A state that is saved from here on belongs to a run
  /// of that length. Throws Diverged.
  virtual std::vector<SampleResult> Finish() = 0;
  /// Whether trainers of the same options go on from a state that is saved now: not where Finish has drained
  /// a pipeline that theirs keep full.
  virtual bool goes_on() const = 0;

  /// Throws what Learn would of these images, one behind the other, and labels, and trains on none of them.
  /// Not collective.
  virtual void CheckSamples(std::span<const float> images, std::span<const int> labels) const = 0;
  /// Those that Learn was given and that wait for the rest of their mini-batch.
  virtual std::int64_t waiting_samples() const = 0;

  /// Loss and accuracy on the first `samples` positions of `source` with the current weights,
  /// nothing dropped, on as many threads as there are workers. Every process gets a copy of all
  /// weights for that long.
  virtual Evaluation Evaluate(const SampleSource& source, std::int64_t samples) = 0;

  /// Parameters, then running statistics, in the order of the stages.
  virtual std::vector<NamedTensor> ExportWeights() const = 0;
  /// Replaces the weights; what the optimizer keeps starts at 0, and so does its count of updates. Every
  /// tensor of ExportWeights has to be there; what PyTorch's modules keep beside them
  /// (num_batches_tracked, attention masks) is passed over.
  /// Throws analysis::InvalidArgument naming the tensor for one that is missing, of another shape,
  /// not finite or unknown.
  virtual void ImportWeights(std::span<const NamedTensor> tensors) = 0;

  /// ExportWeights and what the optimizer keeps, named "ARRAY/TENSOR", for a trainer that goes on from
  /// here by another schedule, rule or optimizer, when this one has drained.
  virtual std::vector<NamedTensor> ExportState() const = 0;
  /// Goes on from there: arrays of the optimizer that have the same names are taken over, of a tensor whose
  /// optimizer counts updates all or none (ArraysThatGoOn), and others start at 0. Forwards read these weights until their stage's first update. Throws as ImportWeights does.
  virtual void ImportState(std::span<const NamedTensor> tensors) = 0;

  /// SHA-256, hexadecimal, over name, shape and little-endian values, in the trainer's precision, of
  /// all tensors of ExportWeights.
  virtual std::string WeightsSha256() const = 0;

  /// The whole state: weights, the optimizer's arrays, every other version of the weights, activations and
  /// gradients in flight, samples that wait for their mini-batch, position. Random numbers have no state (random.h). A trainer of the same
  /// options but for the numbers of workers, processes and replicas goes on from it to the same bits.
  /// The first process writes; the others' streams are left alone. Throws Diverged, before it writes,
  /// where a weight or a number of the optimizer is not finite: nobody could go on from that.
  virtual void Save(std::ostream& to) const = 0;
  /// From a stream that can be sought: sizes are looked at first. Throws std::runtime_error where the
  /// state is damaged or of another configuration; the trainer is unchanged then. Where the stream fails
  /// after that look, it also throws, and the trainer goes on from another state alone. The first process
  /// reads.
  virtual void Load(std::istream& from) = 0;

  /// D_s by stage, updates: by how many the forward's weights are older than those that its
  /// gradient updates; the largest delay where they are random. Not collective.
  virtual std::vector<std::int64_t> delays() const = 0;

  /// By replica, and by worker of its pipeline.
  virtual std::vector<WorkerTimes> worker_times() const = 0;
  /// By worker, as above, in the order of time.
  virtual std::vector<TraceEvent> trace() const = 0;
  /// Bytes of parameters, gradients, activations and scratch, of all processes.
  virtual std::int64_t memory_bytes() const = 0;

 protected:
  Trainer() = default;
};

/// What a trainer of these (valid) options keeps in memory, as the hardware model predicts it: its total
/// within a tenth of memory_bytes(), which is known only once everything is there.
hwmodel::TrainingMemory PredictMemory(const TrainerOptions& options);
/// The same by process.
std::vector<hwmodel::TrainingMemory> PredictMemoryByProcess(const TrainerOptions& options);

/// A trainer with initial weights: functions of the seed and the tensor's place in the network.
/// Throws analysis::InvalidArgument where the options are not valid, and for replicas in one process;
/// std::runtime_error where another process's options or processor make another trainer.
std::unique_ptr<Trainer> MakeTrainer(const TrainerOptions& options);

}  // namespace batchless::training

// Example
//   TrainerOptions options;
//   options.network = batchless::hwmodel::MakeNetwork({.name = "linear"});
//   options.schedule.forward_lag = 3;  // every gradient three updates late
//   options.rule.rule = batchless::analysis::FindRule("lwp-v+sc");
//   options.batch = 1;
//   options.samples = 64;
//   options.learning_rate.base = 1e-3;
//   const DatasetSource source(MakeSynthetic(1, Split::kTrain, 64, 16), {.seed = 1});
//   const std::unique_ptr<Trainer> trainer = MakeTrainer(options);
//   std::vector<SampleResult> results;
//   trainer->Advance(source, 64, results);
//   CHECK(results.size() == 64);
//   CHECK(trainer->delays() == std::vector<std::int64_t>{3, 3});
//   // A sample of one's own, in a run without a given end.
//   options.samples = 0;
//   const std::unique_ptr<Trainer> online = MakeTrainer(options);
//   const std::vector<float> image(options.network.input.elements());
//   CHECK(online->Learn(image, 7).size() == 1);
//   CHECK(online->Finish().empty());
//   CHECK(online->samples_done() == 1);
