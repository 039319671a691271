#include "batchless/training/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/training/random.h"
#include "batchless/training/sha256.h"
#include "delay_draws.h"
#include "engine/collective.h"
#include "engine/evaluator.h"
#include "engine/group_part.h"
#include "engine/pipeline.h"
#include "named_tensors.h"
#include "plan.h"
#include "state_stream.h"
#include "waiting_samples.h"

namespace batchless::training {
namespace {

using analysis::InvalidArgument;
using analysis::RefuseIf;

// The start of a saved state: its version, whether samples wait for their mini-batch, and whether the
// weights were replaced on the way.
constexpr const char* kWaiting = " with waiting samples";
constexpr const char* kReplaced = " with replaced weights";

std::string Magic(bool waits, bool is_replaced) {
  return std::string("batchless trainer 3") + (waits ? kWaiting : "") +
         (is_replaced ? kReplaced : "") + "\n";
}

// The values that a parameter starts with, in PyTorch's order. `number`: the tensor's place in the network,
// which with the seed decides its random values.
template <class Real>
std::vector<Real> InitialValues(const ParameterTensor& tensor, std::uint64_t seed,
                                std::uint64_t number) {
  CounterRandom random(seed, RandomStream::kInitialization, number);
  std::vector<Real> values(tensor.size());
  for (Real& value : values) {
    double drawn = 1;
    if (tensor.initializer == Initializer::kNormal) drawn = random.Normal();
    if (tensor.initializer == Initializer::kUniform) drawn = 2 * random.Uniform() - 1;
    value = static_cast<Real>(tensor.scale * drawn);
  }
  return values;
}

template <class Real>
class TrainerOf final : public Trainer {
 public:
  TrainerOf(TrainerOptions options, PipelinePlan plan)
      : options_(std::move(options)),
        backend_(MakeBackend<Real>(options_.convolution)),
        plan_(std::move(plan)),
        draws_(options_.random_delays ? std::optional<DelayDraws>(
                                            std::in_place, *options_.random_delays, options_.seed)
                                      : std::nullopt),
        updates_(PlannedUpdates()),
        groups_(MakeReplicaGroups(options_.processes, options_.replicas)),
        pipeline_(PipelineOptions()),
        evaluator_(options_.network, backend_, options_.workers, options_.processes.get()) {
    if (options_.deepest_momentum) SetMomenta();
    std::uint64_t number = 0;
    for (int s = 0; s < pipeline_.stage_count(); ++s) {
      const StageLayout& layout = pipeline_.layout(s);
      if (!pipeline_.span().Holds(s)) {
        number += layout.parameters.size() + layout.state.size();
        continue;
      }
      const auto initialize = [&](const std::vector<ParameterTensor>& tensors, std::int64_t size) {
        std::vector<Real> block(size);
        for (const ParameterTensor& tensor : tensors) {
          Pack<Real>(tensor, InitialValues<Real>(tensor, options_.seed, number++), block.data());
        }
        return block;
      };
      const std::vector<Real> weights = initialize(layout.parameters, layout.parameter_size);
      pipeline_.parameters(s).Reset(weights, initialize(layout.state, layout.state_size));
    }
    CheckProcesses();
  }

  std::int64_t samples_done() const override {
    return options_.first_sample + std::min(cycles_ * CycleSamples(), updates_ * options_.batch);
  }

  void Advance(const SampleSource& source, std::int64_t to,
               std::vector<SampleResult>& results) override {
    CheckSource(options_.network, source);
    CheckWhole();
    RefuseIf(waiting_.count() > 0, "to", to,
             "Learn or Finish, while " + std::to_string(waiting_.count()) +
                 " samples wait for the rest of their mini-batch");
    TrainOn(source, to, results);
  }

  std::vector<SampleResult> Learn(std::span<const float> image, int label) override {
    CheckWhole();
    const std::int64_t left =
        options_.first_sample + updates_ * options_.batch - samples_done() - waiting_.count();
    if (left <= 0) {
      throw InvalidArgument(
          "samples", std::to_string(updates_ * options_.batch + 1),
          "at most " + std::to_string(updates_ * options_.batch) + ", which the run has had");
    }
    CheckSample(options_.network, image, label);
    waiting_.Add(image, label);
    std::vector<SampleResult> results;
    if (waiting_.count() == CycleSamples() || left == 1) TrainOnWaiting(results);
    return results;
  }

  std::vector<SampleResult> Finish() override {
    CheckWhole();
    waiting_.KeepFirst(waiting_.count() / options_.batch * options_.batch);
    updates_ = (samples_done() - options_.first_sample + waiting_.count()) / options_.batch;
    pipeline_.EndAfter(updates_ * options_.MicrobatchesPerUpdate());
    std::vector<SampleResult> results;
    TrainOnWaiting(results);
    return results;
  }

  bool goes_on() const override {
    if (updates_ == PlannedUpdates()) return true;
    return IsDrained() && cycles_ * CycleSamples() == updates_ * options_.batch;
  }

  void CheckSamples(std::span<const float> images, std::span<const int> labels) const override {
    const auto size = static_cast<std::size_t>(options_.network.input.elements());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      CheckSample(options_.network, images.subspan(i * size, size), labels[i]);
    }
  }

  std::int64_t waiting_samples() const override { return waiting_.count(); }

  Evaluation Evaluate(const SampleSource& source, std::int64_t samples) override {
    CheckSource(options_.network, source);
    RefuseIf(samples < 1, "samples", samples, "at least 1");
    return evaluator_.Run({.weights = pipeline_.Collect(Parameters::kWeights),
                           .states = pipeline_.Collect(RunningPlace())},
                          source, samples);
  }

  std::vector<NamedTensor> ExportWeights() const override { return Export(WeightPlaces()); }

  std::vector<NamedTensor> ExportState() const override {
    std::vector<std::size_t> places = WeightPlaces();
    for (std::size_t place = Parameters::kStates; place < RunningPlace(); ++place) {
      places.push_back(place);
    }
    return Export(places);
  }

  void ImportState(std::span<const NamedTensor> tensors) override {
    std::vector<NamedTensor> weights;
    std::map<std::string, const NamedTensor*> states;
    for (const NamedTensor& tensor : tensors) {
      if (tensor.name.find('/') == std::string::npos) {
        weights.push_back(tensor);
      } else {
        states[tensor.name] = &tensor;
      }
    }
    ReplaceWeights(weights);
    // A tensor whose optimizer counts updates takes over all its arrays or none.
    const auto name_of = [](const ParameterTensor& state) {
      return state.name.substr(state.name.rfind('/') + 1);
    };
    std::set<std::string> incomplete;
    ForEachOwnState([&](int /*stage*/, const ParameterTensor& tensor, std::size_t /*place*/) {
      const Optimizer& optimizer =
          DefinitionFor(options_.optimizer.optimizer, tensor.shape.size()).row;
      if (optimizer.counts_updates && !states.contains(tensor.name)) {
        incomplete.insert(name_of(tensor));
      }
    });
    ForEachOwnState([&](int stage, const ParameterTensor& tensor, std::size_t place) {
      const auto found = states.find(tensor.name);
      if (found == states.end() || incomplete.contains(name_of(tensor))) return;
      PackNamed(tensor, *found->second, pipeline_.parameters(stage).array(place));
    });
  }

  void ImportWeights(std::span<const NamedTensor> tensors) override {
    ReplaceWeights(tensors);
    ForgetUpdates(cycles_);
  }

  std::string WeightsSha256() const override {
    Sha256 digest;
    const auto add = [&](const ParameterTensor& tensor, const std::vector<Real>& values) {
      digest.Update(tensor.name + " " + ShapeText(tensor.shape) + "\n");
      digest.Update(std::as_bytes(std::span<const Real>(values)));
    };
    ForEachTensor(WeightPlaces(), add);
    return digest.HexDigest();
  }

  void Save(std::ostream& to) const override {
    CheckWhole();
    CheckWeights();
    if (IsFirst()) {
      WriteText(to, Magic(waiting_.count() > 0, replaced_at_ > 0));
      WriteText(to, Signature());
      Write(to, &cycles_, sizeof cycles_);
      if (replaced_at_ > 0) Write(to, &replaced_at_, sizeof replaced_at_);
      if (waiting_.count() > 0) waiting_.Save(to);
    }
    if (Replica() == 0) pipeline_.Save(to, cycles_);
    if (IsFirst() && !to) throw std::runtime_error("the trainer's state could not be written");
  }

  void Load(std::istream& from) override {
    std::int64_t cycles = 0;
    std::int64_t replaced_at = 0;
    WaitingSamples waiting;
    RunOnFirst(options_.processes.get(), [&] {
      const std::string magic = ReadText(from);
      const bool waits = magic.find(kWaiting) != std::string::npos;
      const bool is_replaced = magic.find(kReplaced) != std::string::npos;
      if (magic != Magic(waits, is_replaced)) {
        throw std::runtime_error("not a state of this trainer");
      }
      if (const std::string signature = ReadText(from); signature != Signature()) {
        throw std::runtime_error("a state of another configuration: " + signature);
      }
      Read(from, &cycles, sizeof cycles);
      if (is_replaced) Read(from, &replaced_at, sizeof replaced_at);
      RefuseStateIf(cycles < 0 || cycles > AllCycles() || replaced_at < 0 || replaced_at > cycles);
      if (waits) waiting.Load(from, options_.network, CycleSamples());
    });
    if (options_.processes != nullptr) {
      cycles = BroadcastNumber(*options_.processes, 0, cycles);
      replaced_at = BroadcastNumber(*options_.processes, 0, replaced_at);
      waiting.Share(*options_.processes);
    }
    is_whole_ = pipeline_.Load(from, cycles, cycles_);
    cycles_ = cycles;
    ForgetUpdates(replaced_at);
    waiting_ = std::move(waiting);
    if (!is_whole_) throw std::runtime_error("the trainer's state could not be read to its end");
  }

  std::vector<std::int64_t> delays() const override { return plan_.delays; }
  std::vector<WorkerTimes> worker_times() const override {
    return Gather(options_.processes.get(), pipeline_.log().times());
  }
  std::vector<TraceEvent> trace() const override {
    std::vector<TraceEvent> events = pipeline_.log().Events();
    const int workers = static_cast<int>(plan_.program.workers.size());
    for (TraceEvent& event : events) event.worker += Replica() * workers;
    return Gather(options_.processes.get(), std::move(events));
  }
  std::int64_t memory_bytes() const override {
    const std::vector<std::int64_t> all =
        Gather(options_.processes.get(), std::vector{pipeline_.memory_bytes()});
    return std::reduce(all.begin(), all.end());
  }

 private:
  using Parameters = StageParameters<Real>;

  static constexpr std::int64_t kMicrobatchesBetweenChecks = 1024;
  // Updates of a run whose length nobody knows yet.
  static constexpr std::int64_t kEndless = std::int64_t{1} << 40;

  void TrainOn(const SampleSource& source, std::int64_t to, std::vector<SampleResult>& results) {
    std::int64_t last = (to - options_.first_sample + CycleSamples() - 1) / CycleSamples();
    // The run's last samples take what is still on its way with them.
    if (last >= FillingCycles()) last = AllCycles();
    // A loss that is no longer finite should be seen soon after it happens, but every look costs
    // the workers a wait for one another.
    const std::int64_t between_checks = std::max<std::int64_t>(
        1, kMicrobatchesBetweenChecks / plan_.program.microbatches_per_cycle);
    while (cycles_ < last) {
      const std::int64_t next = std::min(last, cycles_ + between_checks);
      const std::size_t old_results = results.size();
      is_whole_ = false;
      pipeline_.Run(source, cycles_, next, results);
      is_whole_ = true;
      cycles_ = next;
      for (std::size_t i = old_results; i < results.size(); ++i) {
        if (std::isfinite(results[i].loss)) continue;
        // Where all weights are finite, the numbers overflowed on their way to the loss.
        const int last_stage = pipeline_.stage_count() - 1;
        throw Diverged(StageName(FirstBadStage().value_or(last_stage)), results[i].sample);
      }
    }
    // No loss says what the last updates have made of the weights.
    if (cycles_ == AllCycles()) CheckWeights();
  }

  // A cycle that something was thrown in is done in some stages and not in others.
  void CheckWhole() const {
    if (is_whole_) return;
    throw std::runtime_error(
        "the trainer's state was lost when training failed: load an earlier one");
  }

  // What Learn was given since the last whole cycle; at the end of the run less than one.
  void TrainOnWaiting(std::vector<SampleResult>& results) {
    const WaitingSamples samples = std::exchange(waiting_, {});
    const hwmodel::FeatureShape& input = options_.network.input;
    const std::int64_t first = samples_done();
    TrainOn(MemorySource({input.channels, input.height, input.width}, samples.images,
                         samples.labels, first),
            first + samples.count(), results);
  }

  void ReplaceWeights(std::span<const NamedTensor> tensors) {
    std::vector<const StageLayout*> layouts(static_cast<std::size_t>(pipeline_.stage_count()));
    for (int s = 0; s < pipeline_.stage_count(); ++s) layouts[s] = &pipeline_.layout(s);
    const std::vector<StageBlocks<Real>> blocks =
        PackStages<Real>(options_.network, layouts, tensors);
    for (int s = pipeline_.span().first; s < pipeline_.span().end; ++s) {
      pipeline_.parameters(s).Reset(blocks[s].parameters, blocks[s].state);
    }
  }

  // What the optimizer keeps began at 0 after so many cycles; 0: with the trainer.
  void ForgetUpdates(std::int64_t cycles) {
    replaced_at_ = cycles;
    forgotten_updates_.clear();
    for (int s = 0; s < pipeline_.stage_count() && cycles > 0; ++s) {
      forgotten_updates_.push_back(pipeline_.UpdatesBy(cycles, s));
    }
  }

  // The place of the running statistics in every stage's table of arrays, behind the optimizer's.
  std::size_t RunningPlace() const { return pipeline_.parameters(0).running_place(); }

  // visit(stage, tensor, place) for what lies in the optimizer's arrays of this process's stages.
  template <class Visit>
  void ForEachOwnState(Visit visit) {
    for (std::size_t place = Parameters::kStates; place < RunningPlace(); ++place) {
      for (int s = pipeline_.span().first; s < pipeline_.span().end; ++s) {
        for (const ParameterTensor& tensor : pipeline_.parameters(s).named_tensors(place)) {
          visit(s, tensor, place);
        }
      }
    }
  }

  typename Pipeline<Real>::Options PipelineOptions() {
    const std::int64_t per_update = options_.MicrobatchesPerUpdate();
    return {.run = options_,
            .group = groups_.pipeline.get(),
            .peers = groups_.peers.get(),
            .backend = backend_,
            .microbatches_per_update = per_update,
            .plan = plan_,
            .microbatches = updates_ * per_update,
            .draws = draws_ ? &*draws_ : nullptr,
            .coefficients = [this](int stage, std::int64_t samples) {
              return Coefficients(stage, samples);
            }};
  }

  std::int64_t PlannedUpdates() const {
    if (options_.samples <= 0) return kEndless;
    return (options_.samples + options_.batch - 1) / options_.batch;
  }

  // Whether nothing is in flight between cycles.
  bool IsDrained() const { return plan_.drains || DrainCycles(plan_.program) == 0; }

  std::int64_t CycleSamples() const {
    return plan_.program.microbatches_per_cycle * options_.microbatch * options_.replicas;
  }

  // Until the run's last sample has entered, and until all samples have left.
  std::int64_t FillingCycles() const {
    return (updates_ * options_.batch + CycleSamples() - 1) / CycleSamples();
  }
  std::int64_t AllCycles() const {
    return FillingCycles() + (plan_.drains ? 0 : DrainCycles(plan_.program));
  }

  StageCoefficients<Real> Coefficients(int stage, std::int64_t samples) const {
    UpdatePoint point{.rate = options_.learning_rate.At(samples),
                      .largest_rate = options_.learning_rate.base,
                      .momentum = options_.momentum,
                      .weight_decay = options_.weight_decay,
                      .delay = plan_.delays[stage],
                      .samples = samples,
                      .update = (samples - options_.first_sample) / options_.batch + 1,
                      .past = options_.past,
                      .past_of_vectors = options_.past_of_vectors};
    if (!forgotten_updates_.empty()) {
      point.update -= forgotten_updates_[stage];
      point.past = {};
      point.past_of_vectors = {};
    }
    if (options_.rule.rule.predicts_by_schedule()) point.horizons = plan_.horizons[stage];
    if (draws_) return RandomDelayCoefficients(point);
    if (!options_.deepest_momentum) {
      return MakeCoefficients<Real>(options_.optimizer, options_.rule, point);
    }
    point.momentum = momenta_[stage];
    return MakeCoefficients<Real>(stage_optimizers_[stage], options_.rule, point);
  }

  // With momenta by stage: those, and the optimizer with each as its beta1 where that is its momentum.
  void SetMomenta() {
    const Optimizer& row = options_.optimizer.optimizer;
    const double least = MomentumOf(row, options_.optimizer, options_.momentum);
    const auto largest = *std::max_element(plan_.delays.begin(), plan_.delays.end());
    for (const std::int64_t delay : plan_.delays) {
      const double share = static_cast<double>(delay) / static_cast<double>(largest + 1);
      momenta_.push_back(least + share * (*options_.deepest_momentum - least));
      stage_optimizers_.push_back(options_.optimizer);
      if (row.momentum == "momentum") continue;
      stage_optimizers_.back().values[std::string(row.momentum)] = momenta_.back();
    }
  }

  StageCoefficients<Real> CoefficientsAt(UpdatePoint point, analysis::Delay delay) const {
    point.delay = delay;
    return MakeCoefficients<Real>(options_.optimizer, options_.rule, point);
  }

  // The update's own, and the look-ahead of each later one that will read the weights which it makes.
  StageCoefficients<Real> RandomDelayCoefficients(UpdatePoint point) const {
    point.compensates_each = plan_.compensates_each;
    std::vector<ForwardReader<Real>> readers;
    const std::int64_t next = (point.samples - options_.first_sample) / options_.batch + 1;
    for (const analysis::Delay delay : draws_->delays()) {
      const std::int64_t reader = next + delay;
      if (draws_->At(options_.first_sample + reader * options_.batch) != delay) continue;
      const StageCoefficients<Real> c = CoefficientsAt(point, delay);
      readers.push_back({.update = reader,
                         .matrices = c.matrices.forward_horizon,
                         .vectors = c.vectors.forward_horizon});
    }
    StageCoefficients<Real> c = CoefficientsAt(point, draws_->At(point.samples));
    c.readers = std::move(readers);
    return c;
  }

  // Which stages make their values again, and from where on: what is kept of the micro-batches in flight
  // depends on it. Nothing where the stages of all of the schedule's workers do.
  std::string Groups() const {
    const hwmodel::Schedule& schedule = plan_.schedule;
    std::string text;
    int stages = 0;
    std::size_t workers = 0;
    for (const hwmodel::StageSpan& group : plan_.recomputed) {
      text += (text.empty() ? " in stages " : ", ") + std::to_string(group.first);
      if (group.end - group.first > 1) text += " to " + std::to_string(group.end - 1);
      stages += group.end - group.first;
    }
    for (int s = 0; s < schedule.stages; ++s) {
      if (s == 0 || schedule.worker(s) != schedule.worker(s - 1)) ++workers;
    }
    return stages == schedule.stages && plan_.recomputed.size() == workers ? "" : text;
  }

  // What a state belongs to: everything that its arrays' sizes and orders depend on.
  std::string Signature() const {
    const hwmodel::Network& network = options_.network;
    const bool drained = IsDrained();
    const std::string_view optimizer = options_.optimizer.optimizer.name;
    const std::string length =
        updates_ == kEndless ? "without an end" : std::to_string(updates_) + " updates";
    return network.name + ", " + std::to_string(network.classes) + " classes, rule " +
           std::string(options_.rule.rule.name) + ", batch " + std::to_string(options_.batch) +
           ", micro-batch " + std::to_string(options_.microbatch) +
           (drained ? "" : ", pipelined, " + length) +
           (options_.first_sample == 0
                ? ""
                : ", from sample " + std::to_string(options_.first_sample) + " on") +
           ", cycles of " + std::to_string(CycleSamples()) + " samples, " +
           std::string(Name(plan_.schedule.weights)) + " weights, " +
           (drained || plan_.recomputed.empty() ? "" : "values made again" + Groups() + ", ") +
           (optimizer == "sgdm" ? "" : std::string(optimizer) + ", ") + "delay " +
           std::to_string(plan_.schedule.forward_lag) + (draws_ ? " at most, random" : "") +
           ", block " + std::to_string(backend_->block()) + ", " + std::to_string(sizeof(Real)) +
           "-byte numbers";
  }

  // What the results depend on, "momentum 0.9" for instance.
  std::vector<std::string> Settings() const {
    std::vector<std::string> settings{Signature()};
    const auto add = [&](std::string_view name, const std::string& value) {
      settings.push_back(std::string(name) + " " + value);
    };
    add("samples", std::to_string(options_.samples));
    add("seed", std::to_string(options_.seed));
    add("gradient_parts", std::to_string(options_.gradient_parts));
    add("momentum", analysis::ToText(options_.momentum));
    if (options_.deepest_momentum) {
      add("deepest_momentum", analysis::ToText(*options_.deepest_momentum));
    }
    add("weight_decay", analysis::ToText(options_.weight_decay));
    add("gradient_shrink", analysis::ToText(options_.gradient_shrink));
    if (options_.max_gradient_norm) {
      add("max_gradient_norm", analysis::ToText(*options_.max_gradient_norm));
    }
    const bool is_own = options_.compensation == analysis::DelayCompensation::kOwn;
    if (draws_) add("compensate", is_own ? "own" : "mean");
    for (std::size_t i = 0; draws_ && i < draws_->delays().size(); ++i) {
      add("share of delay " + std::to_string(draws_->delays()[i]),
          analysis::ToText(options_.random_delays->shares[i]));
    }
    const LearningRate& rate = options_.learning_rate;
    add("learning_rate.base", analysis::ToText(rate.base));
    for (const std::int64_t share : {0, 1, 2, 3, 4}) {
      const std::int64_t sample = options_.first_sample + options_.samples * share / 4;
      add("learning rate at sample " + std::to_string(sample), analysis::ToText(rate.At(sample)));
    }
    for (const Hyperparameter& h : options_.optimizer.optimizer.hyperparameters) {
      add(h.name, analysis::ToText(options_.optimizer.Value(h.name)));
    }
    return settings;
  }

  // All have to train alike.
  void CheckProcesses() const {
    if (options_.processes == nullptr) return;
    const std::vector<std::string> settings = Settings();
    std::string text;
    for (const std::string& setting : settings) text += setting + "\n";
    std::istringstream first(BroadcastText(*options_.processes, 0, text));
    for (const std::string& own : settings) {
      std::string other;
      std::getline(first, other);
      if (own == other) continue;
      throw std::runtime_error("this process would train with (" + own + "), the first with (" +
                               other + "): their options differ");
    }
  }

  int Replica() const { return groups_.peers == nullptr ? 0 : groups_.peers->rank(); }

  bool IsFirst() const { return options_.processes == nullptr || options_.processes->rank() == 0; }

  // visit(tensor, values in PyTorch's order) for all stages' arrays at these places. Collective.
  template <class Visit>
  void ForEachTensor(const std::vector<std::size_t>& places, Visit visit) const {
    for (const std::size_t place : places) {
      const StageArrays<Real> arrays = pipeline_.Collect(place);
      for (int s = 0; s < pipeline_.stage_count(); ++s) {
        for (const ParameterTensor& tensor : pipeline_.parameters(s).named_tensors(place)) {
          std::vector<Real> values(tensor.size());
          Unpack<Real>(tensor, arrays.data[s], values);
          visit(tensor, values);
        }
      }
    }
  }

  // Places of all parameters, then of all running statistics.
  std::vector<std::size_t> WeightPlaces() const { return {Parameters::kWeights, RunningPlace()}; }

  std::vector<NamedTensor> Export(const std::vector<std::size_t>& places) const {
    std::vector<NamedTensor> tensors;
    ForEachTensor(places, [&](const ParameterTensor& tensor, const std::vector<Real>& values) {
      tensors.push_back({tensor.name, tensor.shape, {values.begin(), values.end()}});
    });
    return tensors;
  }

  // The first one with a number that is not finite. Collective.
  std::optional<int> FirstBadStage() const {
    const std::int64_t none = pipeline_.stage_count();
    std::int64_t own = none;
    for (int s = pipeline_.span().end - 1; s >= pipeline_.span().first; --s) {
      if (!pipeline_.parameters(s).IsFinite()) own = s;
    }
    const std::int64_t first = std::ranges::min(Gather(options_.processes.get(), std::vector{own}));
    if (first == none) return std::nullopt;
    return static_cast<int>(first);
  }

  void CheckWeights() const {
    if (const std::optional<int> stage = FirstBadStage()) {
      throw Diverged(StageName(*stage), std::max<std::int64_t>(samples_done() - 1, 0));
    }
  }

  const std::string& StageName(int stage) const { return options_.network.stages[stage].name; }

  TrainerOptions options_;
  std::shared_ptr<const Backend<Real>> backend_;
  PipelinePlan plan_;
  std::optional<DelayDraws> draws_;
  // By stage, where momenta differ.
  std::vector<double> momenta_;
  std::vector<OptimizerSpec> stage_optimizers_;
  std::int64_t updates_;  // of the whole run
  ReplicaGroups groups_;
  Pipeline<Real> pipeline_;
  Evaluator<Real> evaluator_;
  std::int64_t cycles_ = 0;
  std::int64_t replaced_at_ = 0;                 // cycles before the weights were; 0: they were not
  std::vector<std::int64_t> forgotten_updates_;  // by stage, before that; empty: none
  WaitingSamples waiting_;                       // whose cycle is not whole yet
  bool is_whole_ = true;                         // whether all stages have done the same cycles
};

}  // namespace

Diverged::Diverged(std::string stage, std::int64_t sample)
    : std::runtime_error("numbers are not finite at sample " + std::to_string(sample) +
                         "; the first stage with such: " + stage),
      stage_(std::move(stage)),
      sample_(sample) {}

std::unique_ptr<Trainer> MakeTrainer(const TrainerOptions& options) {
  PipelinePlan plan = MakePlan(options);
  // The programs say all that the list did, which is long in deep pipelines.
  TrainerOptions own = options;
  own.schedule.actions = {};
  plan.schedule.actions = {};
  if (options.random_delays && options.compensation == analysis::DelayCompensation::kMean) {
    own.rule = analysis::AtMeanDelay(options.rule, options.random_delays->mean());
  }
  RefuseIf(options.replicas > 1 && options.processes == nullptr, "replicas",
           std::to_string(options.replicas) + " in one process",
           "1, or as many processes or a multiple");
  if (options.precision == Precision::kDouble) {
    return std::make_unique<TrainerOf<double>>(std::move(own), std::move(plan));
  }
  return std::make_unique<TrainerOf<float>>(std::move(own), std::move(plan));
}

}  // namespace batchless::training
