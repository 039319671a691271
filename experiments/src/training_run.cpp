#include "training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <span>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_file.h"
#include "batchless/hwmodel/workload.h"
#include "batchless/training/process_group.h"
#include "batchless/training/sha256.h"
#include "delays_argument.h"
#include "durable_file.h"
#include "interruption.h"
#include "machine_file.h"
#include "memory.h"
#include "network_file.h"
#include "quotient_file.h"
#include "run_log.h"
#include "stage_timing.h"
#include "text_output.h"
#include "together.h"
#include "training_progress.h"
#include "usage_error.h"
#include "weights_file.h"

namespace batchless {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSliceSeconds = 0.5;
// A run has to be that many times as long as the measurement of its stages.
constexpr std::int64_t kLeastLength = 20;

// Whether what a checkpoint holds depends on how the stages are shared: of groups of them that make
// values again, with micro-batches in flight.
bool KeepsByShares(const training::TrainerOptions& phase) {
  using hwmodel::WeightVersions;
  const hwmodel::Schedule& schedule = phase.schedule;
  const bool stays_full = schedule.weights == WeightVersions::kStashed ||
                          schedule.weights == WeightVersions::kVerticalSync;
  return phase.recompute && stays_full && !schedule.actions.empty() &&
         schedule.workers() < phase.network.stage_count();
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What `work` returns; its time counts as the run's and as training.
template <class Work>
auto Timed(RunState& state, Work work) {
  const Clock::time_point start = Clock::now();
  auto result = work();
  const double seconds = SecondsSince(start);
  state.training_seconds += seconds;
  state.seconds += seconds;
  return result;
}

// What was configured when the run in the folder was started; none where nothing says so.
std::optional<Configuration> ConfigurationBefore(const RunDirectory& directory,
                                                 const std::optional<Checkpoint>& checkpoint) {
  if (checkpoint) {
    return ParseConfiguration(checkpoint->run.configuration, directory.checkpoint());
  }
  if (!std::filesystem::exists(directory.config())) return std::nullopt;
  return LoadConfiguration(directory.config());
}

// What a run reads beside its configuration: the key that says where it is, and the digest of its content; empty
// where there is none.
struct RunInput {
  std::string_view key;
  std::string path;
  std::string_view what;
  std::string digest;
};

// Where phases have files of their own, the path is the first one's. A list of actions goes before delays.
std::vector<RunInput> InputsOf(const Configuration& configuration, const RunState& state) {
  std::string quotients, list, delays;
  for (const Configuration& settings : SettingsOf(configuration)) {
    const auto& schedule = settings.schedule;
    if (quotients.empty()) quotients = settings.optimizer.file;
    if (list.empty()) list = schedule.file;
    if (delays.empty() && schedule.delays.ends_with(".csv")) delays = schedule.delays;
  }
  const auto& data = configuration.data;
  const bool is_file = !data.file.empty();
  const bool has_delays = list.empty() && !delays.empty();
  return {{is_file ? "data.file" : "data.root", is_file ? data.file : data.root, "data",
           state.train_digest + state.validation_digest},
          {"network.file", configuration.network.file, "network", state.network_digest},
          {"optimizer.file", quotients, "quotients", state.quotients_digest},
          {has_delays ? "schedule.delays" : "schedule.file", has_delays ? delays : list, "schedule",
           state.schedule_digest}};
}

}  // namespace

TrainingRun::TrainingRun(const TrainingRunOptions& options)
    : directory_(options.out.value_or("")),
      configuration_(options.configuration),
      processes_(options.processes),
      leads_(processes_ == nullptr || processes_->rank() == 0),
      keeps_(leads_ && options.out.has_value()),
      shows_progress_(options.shows_progress) {
  std::optional<Checkpoint> checkpoint;
  Together(processes_.get(), [&] { Prepare(options, checkpoint); });
  std::vector<Setting> settings = SharedValues(configuration_);
  for (const RunInput& input : InputsOf(configuration_, state_)) {
    settings.emplace_back(
        input.key, input.digest.empty() ? "nothing" : "content with SHA-256 " + input.digest);
  }
  RequireAlike(processes_.get(), settings);
  memory_before_bytes_ = ResidentMemoryBytes();
  ShareStages(total_samples_ - (checkpoint ? checkpoint->run.samples : 0));
  EnterPhaseAt(0);
  Together(processes_.get(), [&] {
    if (options.init) ReadWeights("--init", *options.init, *trainer_);
  });
  state_.initial_weights_sha256 = trainer_->WeightsSha256();
  if (processes_ != nullptr) {
    const std::string text =
        training::BroadcastText(*processes_, 0, checkpoint ? RunStateText(checkpoint->run) : "");
    if (!leads_ && !text.empty()) {
      checkpoint = Checkpoint{options.resumed_by, directory_.checkpoint(), ParseRunState(text), {}};
    }
  }
  if (!checkpoint) return;
  if (options.for_weights) {
    state_.train_digest = checkpoint->run.train_digest;
    state_.validation_digest = checkpoint->run.validation_digest;
  }
  Together(processes_.get(), [&] {
    RefuseOtherInputs(checkpoint->run);
    const std::string& initial = checkpoint->run.initial_weights_sha256;
    RefuseIf(options.init && initial != state_.initial_weights_sha256, "--init", options.init,
             "the weights that the run was started with");
  });
  // Two of them might not fit in memory.
  trainer_.reset();
  Restore(*checkpoint);
}

std::size_t TrainingRun::PhaseAt(std::int64_t samples) const {
  std::size_t phase = 0;
  while (phase + 1 < phases_.size() && samples >= phases_[phase + 1].first_sample) ++phase;
  return phase;
}

void TrainingRun::EnterPhaseAt(std::int64_t samples) {
  phase_ = PhaseAt(samples);
  state_.joined_updates = JoinedUpdates(phase_);
  trainer_.reset();
  Together(processes_.get(), [&] { trainer_ = training::MakeTrainer(trainer_options()); });
  // A deep pipeline's list of actions is some 20 MB that nothing takes again.
  ReleaseFreeMemory();
}

std::int64_t TrainingRun::ConfiguredSamples() const {
  return phases_.back().first_sample + phases_.back().samples;
}

std::int64_t TrainingRun::JoinedUpdates(std::size_t phase) const {
  const training::TrainerOptions& now = phases_[phase];
  const bool is_one =
      std::all_of(phases_.begin(), phases_.begin() + static_cast<std::ptrdiff_t>(phase),
                  [&](const training::TrainerOptions& before) {
                    return before.optimizer.optimizer.name == now.optimizer.optimizer.name;
                  });
  const bool is_alike =
      now.past.count == now.past.alike && now.past_of_vectors.count == now.past_of_vectors.alike;
  return is_one && is_alike ? 0 : std::max(now.past.count, now.past_of_vectors.count);
}

void TrainingRun::RefuseOtherRun() const {
  throw UsageError("--out", directory_.path(),
                   "a folder without a run in it, or --resume to go on with this one");
}

// What each process does by itself; the folder is the first one's.
void TrainingRun::Prepare(const TrainingRunOptions& options,
                          std::optional<Checkpoint>& checkpoint) {
  if (keeps_) directory_.Check();
  begins_ = keeps_ && !directory_.HoldsRun();
  if (keeps_ && !options.resume && !begins_) RefuseOtherRun();
  if (keeps_ && options.resume) {
    checkpoint = ReadCheckpoint(options.resumed_by, directory_.checkpoint());
    RefuseIf(!checkpoint && directory_.HoldsResults(), "--resume", options.out,
             "a folder with a checkpoint, or without results of a run");
    RefuseIf(checkpoint && checkpoint->run.samples > 0 && !options.trace.empty(), "--trace",
             options.trace, "nothing with a run that goes on: a trace is of its first samples");
  }

  // The network before the data: what does not go together is found at once.
  const bool has_data = configuration_.data.name != kOwnSamples;
  RefuseIf(!has_data && options.out.has_value(), "data.name", configuration_.data.name,
           "a data set; samples of your own are learned from Python, without a folder");
  const bool reads_data = has_data && !(options.for_weights && configuration_.run.samples);
  DataShape shape = DataShapeOf(configuration_);
  phases_ = TrainerOptionsOf(configuration_, shape, processes_);
  if (reads_data) data_ = LoadRunData(configuration_, std::move(shape));
  const std::int64_t epoch_size = reads_data ? data_.train->epoch_size() : 0;
  SetLengths(configuration_, epoch_size, phases_);
  FillIn(configuration_, phases_, epoch_size);
  if (!options.trace.empty()) {
    phases_.front().traced_microbatches =
        (configuration_.run.trace_samples + phases_.front().microbatch - 1) /
        phases_.front().microbatch;
  }
  total_samples_ = ConfiguredSamples();

  if (keeps_ && options.resume) {
    const std::optional<Configuration> before = ConfigurationBefore(directory_, checkpoint);
    if (before) RefuseDifference(*before, directory_.path());
  }

  ForEachPhase(configuration_, [&](const Configuration&, std::size_t p) {
    const training::TrainerOptions& phase = phases_[p];
    RefuseIf(phase.replicas > 1 && processes_ == nullptr, "schedule.replicas",
             fmt::format("{} in one process", phase.replicas),
             "1, or as many processes or a multiple");
    RefuseWithoutMemory("network.name", phase);
  });
  state_.configuration = ConfigurationText(configuration_);
  if (reads_data) {
    state_.train_digest = data_.train->dataset().digest();
    state_.validation_digest = data_.validation->dataset().digest();
  }
  const auto digest_of = [](const std::string& text) {
    training::Sha256 digest;
    digest.Update(text);
    return digest.HexDigest();
  };
  std::string lists;
  std::string quotients;
  const std::vector<Configuration> settings = SettingsOf(configuration_);
  for (std::size_t p = 0; p < settings.size(); ++p) {
    if (!settings[p].schedule.file.empty()) lists += hwmodel::ToCsv(phases_[p].schedule);
    // What the text says it says by itself, but for a file.
    if (settings[p].schedule.delays.ends_with(".csv")) {
      lists += DelaysText(*phases_[p].random_delays);
    }
    quotients += QuotientText(phases_[p].optimizer.by_delay);
  }
  if (!quotients.empty()) state_.quotients_digest = digest_of(quotients);
  if (!lists.empty()) state_.schedule_digest = digest_of(lists);
  if (!configuration_.network.file.empty()) {
    state_.network_digest = digest_of(NetworkText(phases_.front().network));
  }
}

void TrainingRun::RefuseDifference(const Configuration& before, const std::string& where) const {
  if (const auto difference = FirstDifference(configuration_, before)) {
    throw UsageError(difference->key, difference->first,
                     fmt::format("{}, as the run in {} has it", difference->second, where));
  }
}

// No result depends on how they are shared, so a run that is resumed may share them anew.
void TrainingRun::ShareStages(std::int64_t samples_left) {
  // Each file is read once: a pipe, as a shell's <(...) is, has nothing left for a second time.
  std::map<std::string, hwmodel::Machine> machines;
  Together(processes_.get(), [&] {
    ForEachPhase(configuration_, [&](const Configuration& settings, std::size_t) {
      const std::string& path = settings.schedule.machine;
      if (!leads_ || path.empty() || machines.contains(path)) return;
      machines.emplace(path, ReadMachineFile("schedule.machine", path));
    });
  });
  // Times of the first phase that shares them do for the others.
  const auto sharing = std::find_if(phases_.begin(), phases_.end(),
                                    [](const auto& phase) { return phase.PipelineWorkers() > 1; });
  if (sharing == phases_.end()) return;
  phase_ = static_cast<std::size_t>(sharing - phases_.begin());
  std::vector<double> costs;
  Together(processes_.get(), [&] {
    ForEachPhase(configuration_, [&](const Configuration& settings, std::size_t p) {
      if (!leads_ || p != phase_) return;
      const auto machine = machines.find(settings.schedule.machine);
      costs = MeasuredCosts(settings, samples_left,
                            machine == machines.end() ? nullptr : &machine->second);
    });
  });
  if (processes_ != nullptr) {
    costs.resize(static_cast<std::size_t>(BroadcastFromFirst(std::ssize(costs))));
    processes_->Broadcast(0, std::as_writable_bytes(std::span(costs)));
  }
  for (training::TrainerOptions& phase : phases_) phase.stage_costs = costs;
}

// They come from the phase's machine file or, where it has none and the run is long enough, are measured
// here; empty where the stages' FLOPs have to do.
std::vector<double> TrainingRun::MeasuredCosts(const Configuration& settings,
                                               std::int64_t samples_left,
                                               const hwmodel::Machine* machine) const {
  const hwmodel::Network& network = trainer_options().network;
  if (machine != nullptr) {
    const std::optional<hwmodel::MeasuredNetwork> measured =
        machine->MeasuredTimes(network.name, trainer_options().PipelineWorkers());
    RefuseIf(!measured || std::ssize(measured->forward_seconds) != network.stage_count(),
             "schedule.machine", settings.schedule.machine,
             fmt::format("a machine file with measured times of the {} stages of {}, as "
                         "batchless calibrate writes it",
                         network.stage_count(), network.name));
    const std::int64_t flops = hwmodel::MakeWorkload(network).training_flops();
    RefuseIf(measured->sample_flops != 0 && measured->sample_flops != flops, "schedule.machine",
             settings.schedule.machine,
             fmt::format("a machine file with times of {} of {} FLOPs a sample, as it is here, "
                         "where the file's has {}",
                         network.name, flops, measured->sample_flops));
    return StageCosts(*measured, trainer_options());
  }
  if (settings.schedule.balance == "flops" || data_.train == nullptr) return {};
  // Times are others when the run goes on.
  if (std::any_of(phases_.begin(), phases_.end(), KeepsByShares)) return {};
  // As many rounds as there are stages: half a second for ResNet-20.
  const std::int64_t rounds = network.stage_count();
  const std::int64_t measured_samples =
      (FillMicrobatches(trainer_options()) + rounds) * trainer_options().microbatch;
  if (samples_left < kLeastLength * measured_samples) return {};
  training::TrainerOptions alone = trainer_options().OfOneReplica();
  alone.workers = 1;
  // A network that is shared because no machine holds it is not measured by one.
  if (!FitsInMemory(alone)) return {};
  return StageCosts(MeasureStages(alone, *data_.train, rounds), alone);
}

void TrainingRun::RefuseOtherInputs(const RunState& before) const {
  const std::vector<RunInput> inputs = InputsOf(configuration_, state_);
  const std::vector<RunInput> others = InputsOf(configuration_, before);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    RefuseIf(inputs[i].digest != others[i].digest, inputs[i].key, inputs[i].path,
             fmt::format("the {} that the run was started with", inputs[i].what));
  }
}

void TrainingRun::RefuseOtherLog(const RunState& before, const std::string& path) const {
  std::string why = RunLog::WhyNotOf(directory_, before);
  // The rows of its samples are in no file: the log may only begin with it.
  if (before.metrics_file.bytes == 0 && before.samples > log_begins_at_ && directory_.HoldsRows()) {
    why = "it is of a run without a folder, and there are rows of another one";
  }
  if (why.empty()) return;
  throw UsageError(
      "path", path,
      fmt::format("a checkpoint whose rows are in {} ({}); load this one with the out of "
                  "its own run and resume=True, or without out",
                  directory_.path(), why));
}

// Nothing is replaced before everything is there: whoever refuses a checkpoint keeps its trainer.
void TrainingRun::Restore(Checkpoint& checkpoint) {
  RunState state = checkpoint.run;
  state.configuration = state_.configuration;
  const std::size_t phase = PhaseAt(state.samples);
  const std::int64_t total_samples = ConfiguredSamples();
  const bool is_at_end = total_samples > 0 && state.samples >= total_samples;
  state.joined_updates = JoinedUpdates(phase);
  std::unique_ptr<training::Trainer> trainer;
  Together(processes_.get(), [&] {
    RefuseIf(checkpoint.run.joined_updates != state.joined_updates && !is_at_end,
             checkpoint.argument, checkpoint.path,
             "a checkpoint of a version that counts what one phase's optimizer leaves to "
             "the next: train anew in another folder");
    trainer = training::MakeTrainer(phases_[phase]);
  });
  Together(processes_.get(), [&] {
    try {
      trainer->Load(checkpoint.trainer);
    } catch (const std::runtime_error& error) {
      throw UsageError(checkpoint.argument, checkpoint.path,
                       fmt::format("a checkpoint of this run ({})", error.what()));
    }
  });
  phase_ = phase;
  total_samples_ = total_samples;
  ended_ = false;
  state_ = std::move(state);
  trainer_ = std::move(trainer);
  resumed_from_ = state_.samples;
  learned_ = false;
  ReleaseFreeMemory();
}

Json TrainingRun::Run() {
  const DeferredInterruption interruption;
  Open();
  while (!is_over()) {
    // Clocks and signals are the first process's.
    if (const auto signal_number =
            static_cast<int>(BroadcastFromFirst(interruption.signal_number()))) {
      Keep();
      Together(processes_.get(), [&] {
        throw Interrupted(signal_number,
                          fmt::format("interrupted after {} of {} samples; the same command with "
                                      "--resume goes on from there",
                                      state_.samples, total_samples_));
      });
    }
    static_cast<void>(Step());
  }
  return Close();
}

Json TrainingRun::Close() {
  // Where the last step's could not be written.
  if (has_trained_ && diverged_.is_null()) Keep();
  Json summary = Summary();
  if (keeps_ && (has_trained_ || !Exists(directory_.summary()))) {
    // The summary comes last: while there is none, the manifest may not be finished either.
    WriteManifest(UtcText());
    ReplaceFile(directory_.summary(), JsonText(summary, 2) + "\n");
  }
  if (keeps_ && (has_trained_ || !Exists(directory_.sums()))) {
    directory_.WriteSums();
  }
  if (!diverged_.is_null()) {
    const Json& checkpoint = diverged_["checkpoint_samples"];
    const std::string where = checkpoint.is_null()
                                  ? ""
                                  : fmt::format("; the last checkpoint is at sample {} in {}",
                                                checkpoint.get<std::int64_t>(), directory_.path());
    Together(processes_.get(), [&] {
      throw std::runtime_error(fmt::format(
          "training diverged in stage {} at sample {}: a loss or weight is no finite number{}",
          diverged_["stage"].get<std::string>(), diverged_["sample"].get<std::int64_t>(), where));
    });
  }
  return summary;
}

void TrainingRun::Open() {
  if (log_) return;
  Together(processes_.get(), [&] {
    if (!keeps_) return;
    directory_.Open();
    // One that another run has filled since.
    if (begins_ && directory_.HoldsRun()) RefuseOtherRun();
    begins_ = false;
  });
  started_ = UtcText();
  if (is_finished() && loaded_.empty() && !learned_) {
    // Without its summary it is written again.
    Together(processes_.get(), [&] {
      if (!keeps_ || !Exists(directory_.summary())) return;
      directory_.CheckSums("--out");
    });
    return;
  }
  has_trained_ = true;
  // Not before: one process may have read its data long before another.
  if (processes_ != nullptr) {
    processes_->set_watchdog_seconds(configuration_.run.watchdog_seconds);
  }
  if (keeps_) {
    if (!loaded_.empty()) RefuseOtherLog(state_, loaded_);
    directory_.RemoveEnd();
    // Before the rows behind it are cut off: whenever the program ends, a checkpoint has its rows.
    if (!loaded_.empty()) WriteCheckpoint(directory_.checkpoint(), state_, *trainer_);
    if (state_.metrics_file.bytes == 0) log_begins_at_ = state_.samples;
    log_ =
        std::make_unique<RunLog>(directory_, configuration_.run.log_samples, state_, EntropyBits());
    if (shows_progress_) {
      progress_ = std::make_unique<TrainingProgress>(state_.samples, total_samples_,
                                                     data_.train->epoch_size(), EntropyBits());
    }
  }
  // At the start it holds the initial weights: a run that is resumed needs no --init. Behind one that began
  // the logs, their headers.
  const bool begins_logs = !loaded_.empty() && state_.metrics_file.bytes == 0;
  // What was learned before has no checkpoint yet. At the run's end EndLearned makes it.
  if (state_.samples == 0 || begins_logs || (learned_ && !is_finished())) Save();
  // Intervals and workers may have changed since the run's start.
  if (keeps_) ReplaceFile(directory_.config(), state_.configuration);
  WriteManifest("");
  loaded_.clear();
  saved_samples_ = state_.samples;
  slice_ = trainer_options().batch;
}

std::optional<MetricsRow> TrainingRun::Step() {
  std::optional<MetricsRow> row;
  try {
    slice_ = BroadcastFromFirst(slice_);
    const Clock::time_point start = Clock::now();
    const std::int64_t before = state_.samples;
    Advance(std::min(NextEvent(), before + slice_));
    const double seconds = SecondsSince(start);
    state_.training_seconds += seconds;
    // Twice as much at most: the first mini-batches are slower than the others.
    const double batches =
        static_cast<double>(state_.samples - before) / static_cast<double>(trainer_options().batch);
    const double fitting = batches * kSliceSeconds / std::max(seconds, 1e-6);
    // A phase that begins may have a larger mini-batch than the slice so far.
    const std::int64_t most = std::max<std::int64_t>(1, 2 * slice_ / trainer_options().batch);
    slice_ = trainer_options().batch *
             std::clamp<std::int64_t>(static_cast<std::int64_t>(fitting), 1, most);
    row = MakeRow();
    state_.seconds += SecondsSince(start);
    // Now that the state counts them: whoever goes on after a full disk has every row once.
    if (log_) log_->Flush();
    if (IsDue(configuration_.run.checkpoint_every_samples)) {
      const Clock::time_point save_start = Clock::now();
      Save();
      state_.seconds += SecondsSince(save_start);
    }
  } catch (const training::Diverged& error) {
    const bool has_folder = !directory_.path().empty();
    diverged_ = {{"stage", error.stage()},
                 {"sample", error.sample()},
                 {"checkpoint_samples", has_folder ? Json(saved_samples_) : Json(nullptr)}};
    // The phase's whole mini-batches before the bad one, however much the trainer was given at a time.
    const training::TrainerOptions& phase = trainer_options();
    state_.samples = error.sample() - (error.sample() - phase.first_sample) % phase.batch;
    if (log_) log_->Sync(state_);
  }
  return row;
}

void TrainingRun::Keep() {
  if (saved_samples_ != state_.samples) Save();
}

std::int64_t TrainingRun::BroadcastFromFirst(std::int64_t number) const {
  return processes_ == nullptr ? number : training::BroadcastNumber(*processes_, 0, number);
}

void TrainingRun::Advance(std::int64_t to) {
  std::vector<training::SampleResult> results;
  try {
    trainer_->Advance(*data_.train, to, results);
  } catch (const training::Diverged& error) {
    // Up to the bad sample, however far the trainer went on.
    std::erase_if(results, [&](const auto& result) { return result.sample > error.sample(); });
    if (log_) log_->AddSamples(results);
    throw;
  }
  if (log_) log_->AddSamples(results);
  Account(results);
  if (!progress_) return;
  double loss = 0;
  for (const training::SampleResult& result : results) loss += result.loss;
  progress_->Update(state_.samples,
                    loss / static_cast<double>(std::max<std::size_t>(results.size(), 1)));
}

void TrainingRun::Account(std::span<const training::SampleResult> results) {
  before_samples_ = state_.samples;
  for (const training::SampleResult& result : results) {
    state_.interval.loss += result.loss;
    state_.interval.correct += result.correct;
    ++state_.interval.samples;
  }
  state_.samples = trainer_->samples_done();
  const training::TrainerOptions& options = trainer_options();
  last_rate_ = options.learning_rate.At(state_.samples - options.batch);
  if (phase_ + 1 < phases_.size() && state_.samples >= phases_[phase_ + 1].first_sample) {
    const std::vector<training::NamedTensor> state = trainer_->ExportState();
    trace_ = Trace();
    EnterPhaseAt(state_.samples);
    trainer_->ImportState(state);
  }
}

std::vector<training::SampleResult> TrainingRun::Learn(std::span<const float> image, int label) {
  std::vector<training::SampleResult> results =
      Timed(state_, [&] { return trainer_->Learn(image, label); });
  learned_ = true;
  if (log_) log_->AddSamples(results);
  if (trainer_->samples_done() > state_.samples) Account(results);
  return results;
}

void TrainingRun::CheckSamples(std::span<const float> images, std::span<const int> labels) const {
  const std::int64_t all = state_.samples + trainer_->waiting_samples() + std::ssize(labels);
  if (total_samples_ > 0 && all > total_samples_) {
    throw analysis::InvalidArgument("samples", std::to_string(all),
                                    fmt::format("at most {}, which the run has", total_samples_));
  }
  trainer_->CheckSamples(images, labels);
}

std::optional<MetricsRow> TrainingRun::EndLearned() {
  const bool is_end = diverged_.is_null() && state_.samples == ConfiguredSamples();
  if (!keeps_ || !learned_ || !is_end) return std::nullopt;
  std::optional<MetricsRow> row = MakeRow();
  Save();
  return row;
}

std::vector<training::SampleResult> TrainingRun::Finish() {
  if (keeps_ && !is_over()) {
    Open();
    Keep();
  }
  std::vector<training::SampleResult> results = Timed(state_, [&] { return trainer_->Finish(); });
  total_samples_ = trainer_->samples_done();
  ended_ = true;
  if (log_) log_->AddSamples(results);
  Account(results);
  return results;
}

training::Evaluation TrainingRun::Evaluate() {
  return trainer_->Evaluate(*data_.validation, data_.validation->epoch_size());
}

void TrainingRun::SaveTo(const std::string& path) const {
  // The trainer went on behind the samples that still count.
  if (trainer_->samples_done() != state_.samples) {
    throw std::runtime_error(
        fmt::format("{}: training diverged, which no checkpoint is made of; "
                    "load one from before",
                    path));
  }
  if (!trainer_->goes_on()) {
    throw UsageError(
        "path", path,
        fmt::format("a checkpoint of before the run was finished, at sample {}: its "
                    "pipeline is empty, and no run goes on from there (the weights can "
                    "be kept)",
                    state_.samples));
  }
  RunState state = state_;
  if (log_) log_->Sync(state);
  WriteCheckpoint(path, state, *trainer_);
}

void TrainingRun::LoadFrom(const std::string& path) {
  std::optional<Checkpoint> checkpoint = ReadCheckpoint("path", path);
  if (!checkpoint) throw UsageError("path", path, "a checkpoint");
  RefuseDifference(ParseConfiguration(checkpoint->run.configuration, path), path);
  RefuseOtherInputs(checkpoint->run);
  if (keeps_) {
    // Rows that are on their way to the files count, too.
    RunState unused = state_;
    if (log_) log_->Sync(unused);
    RefuseOtherLog(checkpoint->run, path);
  }
  Restore(*checkpoint);
  diverged_ = nullptr;
  log_.reset();
  loaded_ = path;
}

void TrainingRun::ImportWeights(std::span<const training::NamedTensor> tensors) {
  // How many updates a phase takes over was said before the run began.
  const auto counts = std::find_if(
      phases_.begin() + static_cast<std::ptrdiff_t>(phase_), phases_.end(),
      [](const auto& phase) { return phase.past.count > 0 || phase.past_of_vectors.count > 0; });
  if (state_.samples > 0 && counts != phases_.end()) {
    throw UsageError("weights", fmt::format("others after {} samples", state_.samples),
                     fmt::format("others before the first sample of a run whose phases hand on "
                                 "how many updates {} has counted",
                                 counts->optimizer.optimizer.name));
  }
  trainer_->ImportWeights(tensors);
  if (state_.samples == 0) state_.initial_weights_sha256 = trainer_->WeightsSha256();
}

std::optional<MetricsRow> TrainingRun::MakeRow() {
  MetricsRow row;
  if (IsDue(configuration_.run.log_every_samples) && state_.interval.samples > 0) {
    const IntervalSums sums = std::exchange(state_.interval, {});
    const auto n = static_cast<double>(sums.samples);
    state_.last.train_loss = row.measured.train_loss = sums.loss / n;
    state_.last.train_accuracy = row.measured.train_accuracy = sums.correct / n;
  }
  if (IsDue(configuration_.run.validate_every_samples)) {
    const training::Evaluation validation = Evaluate();
    state_.last.validation_loss = row.measured.validation_loss = validation.loss;
    state_.last.validation_accuracy = row.measured.validation_accuracy = validation.accuracy;
  }
  if (!row.measured.train_loss && !row.measured.validation_loss) return std::nullopt;
  row.samples = state_.samples;
  row.epoch = Epochs().value_or(0);
  row.learning_rate = last_rate_;
  if (log_) log_->AddRow(row);
  if (progress_) progress_->Row(row);
  return row;
}

std::optional<double> TrainingRun::Epochs() const {
  if (data_.train == nullptr) return std::nullopt;
  return static_cast<double>(state_.samples) / static_cast<double>(data_.train->epoch_size());
}

void TrainingRun::Save() {
  if ((leads_ && !keeps_) || !trainer_->goes_on()) return;
  if (leads_) {
    log_->Sync(state_);
    WriteCheckpoint(directory_.checkpoint(), state_, *trainer_);
  } else {
    std::ostringstream unused;
    trainer_->Save(unused);
  }
  saved_samples_ = state_.samples;
  learned_ = false;
}

// Whether a multiple of the interval lies in the samples that were trained on last.
bool TrainingRun::IsDue(const std::optional<std::int64_t>& interval) const {
  return is_finished() || state_.samples / *interval > before_samples_ / *interval;
}

std::int64_t TrainingRun::NextEvent() const {
  const auto& run = configuration_.run;
  std::int64_t next = trainer_options().first_sample + trainer_options().samples;
  for (const auto& interval :
       {run.log_every_samples, run.validate_every_samples, run.checkpoint_every_samples}) {
    // The trainer rounds up to whole mini-batches, or cycles of its schedule.
    next = std::min(next, (state_.samples / *interval + 1) * *interval);
  }
  return next;
}

}  // namespace batchless
