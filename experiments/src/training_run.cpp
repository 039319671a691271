#include "training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_file.h"
#include "batchless/training/sha256.h"
#include "durable_file.h"
#include "interruption.h"
#include "machine_file.h"
#include "manifest.h"
#include "memory.h"
#include "network_file.h"
#include "quotient_file.h"
#include "run_log.h"
#include "stage_timing.h"
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

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Json ToJson(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

// What was configured when the run in the folder was started; none where nothing says so.
std::optional<Configuration> ConfigurationBefore(const RunDirectory& directory,
                                                 const std::optional<Checkpoint>& checkpoint) {
  if (checkpoint) {
    return ParseConfiguration(checkpoint->run.configuration, directory.checkpoint());
  }
  std::ifstream file(directory.config(), std::ios::binary);
  if (!file.is_open()) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return ParseConfiguration(text, directory.config());
}

}  // namespace

TrainingRun::TrainingRun(const TrainingRunOptions& options)
    : directory_(options.out),
      configuration_(options.configuration),
      processes_(options.processes),
      leads_(processes_ == nullptr || processes_->rank() == 0) {
  std::optional<Checkpoint> checkpoint;
  Together(processes_.get(), [&] { Prepare(options, checkpoint); });
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
    if (!leads_ && !text.empty()) checkpoint = Checkpoint{ParseRunState(text), {}};
  }
  if (!checkpoint) return;
  Together(processes_.get(), [&] {
    const std::string& initial = checkpoint->run.initial_weights_sha256;
    if (options.init && initial != state_.initial_weights_sha256) {
      throw UsageError("--init", *options.init, "the weights that the run was started with");
    }
  });
  Restore(*checkpoint);
}

void TrainingRun::EnterPhaseAt(std::int64_t samples) {
  phase_ = 0;
  while (phase_ + 1 < phases_.size() && samples >= phases_[phase_ + 1].first_sample) ++phase_;
  trainer_.reset();
  Together(processes_.get(), [&] { trainer_ = training::MakeTrainer(trainer_options()); });
}

// What each process does by itself; the folder is the first one's.
void TrainingRun::Prepare(const TrainingRunOptions& options,
                          std::optional<Checkpoint>& checkpoint) {
  if (leads_) directory_.Check();
  if (leads_ && !options.resume && directory_.HoldsRun()) {
    throw UsageError("--out", options.out,
                     "a folder without a run in it, or --resume to go on with this one");
  }
  if (leads_ && options.resume) {
    checkpoint = ReadCheckpoint(directory_.checkpoint());
    if (!checkpoint && directory_.HoldsResults()) {
      throw UsageError("--resume", options.out,
                       "a folder with a checkpoint, or without results of a run");
    }
    if (checkpoint && checkpoint->run.samples > 0 && !options.trace.empty()) {
      throw UsageError("--trace", options.trace,
                       "nothing with a run that goes on: a trace is of its first samples");
    }
  }

  // The network before the data: what does not go together is found at once.
  const DataShape shape = DataShapeOf(configuration_);
  phases_ = TrainerOptionsOf(configuration_, shape, processes_);
  data_ = LoadRunData(configuration_);
  const std::int64_t epoch_size = data_.train->epoch_size();
  SetLengths(configuration_, epoch_size, phases_);
  FillIn(configuration_, phases_, epoch_size);
  if (!options.trace.empty()) {
    phases_.front().traced_microbatches =
        (configuration_.run.trace_samples + phases_.front().microbatch - 1) /
        phases_.front().microbatch;
  }
  total_samples_ = phases_.back().first_sample + phases_.back().samples;
  validation_samples_ = data_.validation->epoch_size();

  if (leads_ && options.resume) {
    const std::optional<Configuration> before = ConfigurationBefore(directory_, checkpoint);
    if (before) {
      if (const auto difference = FirstDifference(configuration_, *before)) {
        throw UsageError(
            difference->key, difference->first,
            fmt::format("{}, as the run in {} has it", difference->second, directory_.path()));
      }
    }
  }

  for (const training::TrainerOptions& phase : phases_) {
    if (phase.replicas > 1 && processes_ == nullptr) {
      throw UsageError("schedule.replicas", fmt::format("{} in one process", phase.replicas),
                       "1, or as many processes or a multiple");
    }
    RefuseWithoutMemory("network.name", phase);
  }
  state_.configuration = ConfigurationText(configuration_);
  state_.train_digest = data_.train->dataset().digest();
  state_.validation_digest = data_.validation->dataset().digest();
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
    quotients += QuotientText(phases_[p].optimizer.by_delay);
  }
  if (!quotients.empty()) state_.quotients_digest = digest_of(quotients);
  if (!lists.empty()) state_.schedule_digest = digest_of(lists);
  if (!configuration_.network.file.empty()) {
    state_.network_digest = digest_of(NetworkText(phases_.front().network));
  }
}

// No result depends on how they are shared, so a run that is resumed may share them anew.
void TrainingRun::ShareStages(std::int64_t samples_left) {
  // Times of the first phase that shares them do for the others.
  const auto sharing = std::find_if(phases_.begin(), phases_.end(),
                                    [](const auto& phase) { return phase.PipelineWorkers() > 1; });
  if (sharing == phases_.end()) return;
  phase_ = static_cast<std::size_t>(sharing - phases_.begin());
  std::vector<double> costs;
  Together(processes_.get(), [&] {
    if (leads_) costs = MeasuredCosts(samples_left);
  });
  if (processes_ != nullptr) {
    costs.resize(static_cast<std::size_t>(BroadcastFromFirst(std::ssize(costs))));
    processes_->Broadcast(0, std::as_writable_bytes(std::span(costs)));
  }
  for (training::TrainerOptions& phase : phases_) phase.stage_costs = costs;
}

// From the machine file or, where there is none and the run is long enough, measured here; empty where
// the stages' FLOPs have to do.
std::vector<double> TrainingRun::MeasuredCosts(std::int64_t samples_left) const {
  const std::string& path = configuration_.schedule.machine;
  const hwmodel::Network& network = trainer_options().network;
  if (!path.empty()) {
    const hwmodel::Machine machine = ReadMachineFile("schedule.machine", path);
    const std::optional<hwmodel::MeasuredNetwork> measured =
        machine.MeasuredTimes(network.name, trainer_options().PipelineWorkers());
    if (!measured || std::ssize(measured->forward_seconds) != network.stage_count()) {
      throw UsageError("schedule.machine", path,
                       fmt::format("a machine file with measured times of the {} stages of {}, as "
                                   "batchless calibrate writes it",
                                   network.stage_count(), network.name));
    }
    return StageCosts(*measured, trainer_options());
  }
  if (configuration_.schedule.balance == "flops") return {};
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

void TrainingRun::Restore(Checkpoint& checkpoint) {
  const RunState now = std::exchange(state_, checkpoint.run);
  Together(processes_.get(), [&] {
    if (state_.train_digest != now.train_digest ||
        state_.validation_digest != now.validation_digest) {
      throw UsageError("data.root", configuration_.data.root,
                       "the data that the run was started with");
    }
    if (state_.network_digest != now.network_digest) {
      throw UsageError("network.file", configuration_.network.file,
                       "the network that the run was started with");
    }
    if (state_.quotients_digest != now.quotients_digest) {
      throw UsageError("optimizer.file", configuration_.optimizer.file,
                       "the quotients that the run was started with");
    }
    if (state_.schedule_digest != now.schedule_digest) {
      throw UsageError("schedule.file", configuration_.schedule.file,
                       "the schedule that the run was started with");
    }
  });
  state_.configuration = now.configuration;
  EnterPhaseAt(state_.samples);
  Together(processes_.get(), [&] {
    try {
      trainer_->Load(checkpoint.trainer);
    } catch (const std::runtime_error& error) {
      throw UsageError("--resume", directory_.checkpoint(),
                       fmt::format("a checkpoint of this run ({})", error.what()));
    }
  });
  resumed_from_ = state_.samples;
}

Json TrainingRun::Run() {
  Together(processes_.get(), [&] {
    if (leads_) directory_.Open();
  });
  started_ = UtcText();
  const bool was_finished = is_finished();
  if (!was_finished) Train();
  Json summary = Summary();
  std::error_code error;
  if (leads_ && (!was_finished || !std::filesystem::exists(directory_.summary(), error))) {
    // The summary comes last: while there is none, the manifest may not be finished either.
    WriteManifest(UtcText());
    ReplaceFile(directory_.summary(), summary.dump(2) + "\n");
  }
  if (!diverged_.is_null()) {
    EndTogether(std::runtime_error(
        fmt::format("training diverged in stage {} at sample {}: a loss or weight is no finite "
                    "number; the last "
                    "checkpoint is at sample {} in {}",
                    diverged_["stage"].get<std::string>(), diverged_["sample"].get<std::int64_t>(),
                    diverged_["checkpoint_samples"].get<std::int64_t>(), directory_.path())));
  }
  return summary;
}

// What all processes throw at the same place, the first one says.
template <class Error>
void TrainingRun::EndTogether(const Error& error) const {
  if (processes_ == nullptr) throw error;
  batchless::EndTogether(*processes_, DescribeFailure(std::make_exception_ptr(error)));
}

void TrainingRun::Train() {
  const DeferredInterruption interruption;
  if (leads_) {
    log_ = std::make_unique<RunLog>(directory_, configuration_.run.log_samples, state_);
    progress_ = std::make_unique<TrainingProgress>(state_.samples, total_samples_,
                                                   data_.train->epoch_size());
  }
  if (state_.samples == 0) {
    // Holds the initial weights: a run that is resumed needs no --init.
    Save();
    if (leads_) ReplaceFile(directory_.config(), state_.configuration);
  }
  WriteManifest("");
  std::int64_t saved_samples = state_.samples;
  std::int64_t slice = trainer_options().batch;
  try {
    while (!is_finished()) {
      // Clocks and signals are the first process's.
      if (const auto signal_number =
              static_cast<int>(BroadcastFromFirst(interruption.signal_number()))) {
        if (saved_samples != state_.samples) Save();
        EndTogether(Interrupted(
            signal_number, fmt::format("interrupted after {} of {} samples; the same command with "
                                       "--resume goes on from there",
                                       state_.samples, total_samples_)));
      }
      slice = BroadcastFromFirst(slice);
      const Clock::time_point start = Clock::now();
      const std::int64_t before = state_.samples;
      Advance(std::min(NextEvent(), before + slice));
      const double seconds = SecondsSince(start);
      state_.training_seconds += seconds;
      // Twice as much at most: the first mini-batches are slower than the others.
      const double batches = static_cast<double>(state_.samples - before) /
                             static_cast<double>(trainer_options().batch);
      const double fitting = batches * kSliceSeconds / std::max(seconds, 1e-6);
      slice =
          trainer_options().batch * std::clamp<std::int64_t>(static_cast<std::int64_t>(fitting), 1,
                                                             2 * slice / trainer_options().batch);
      WriteRow();
      state_.seconds += SecondsSince(start);
      if (IsDue(configuration_.run.checkpoint_every_samples)) {
        const Clock::time_point save_start = Clock::now();
        Save();
        saved_samples = state_.samples;
        state_.seconds += SecondsSince(save_start);
      }
    }
  } catch (const training::Diverged& error) {
    diverged_ = {{"stage", error.stage()},
                 {"sample", error.sample()},
                 {"checkpoint_samples", saved_samples}};
    // Whole mini-batches before the bad one, however much the trainer was given at a time.
    state_.samples = error.sample() / trainer_options().batch * trainer_options().batch;
    if (leads_) log_->Sync(state_);
  }
}

std::int64_t TrainingRun::BroadcastFromFirst(std::int64_t number) const {
  return processes_ == nullptr ? number : training::BroadcastNumber(*processes_, 0, number);
}

void TrainingRun::Advance(std::int64_t to) {
  std::vector<training::SampleResult> results;
  const training::TrainerOptions& options = trainer_options();
  try {
    trainer_->Advance(*data_.train, to, results);
  } catch (const training::Diverged& error) {
    // Up to the bad sample, however far the trainer went on.
    std::erase_if(results, [&](const auto& result) { return result.sample > error.sample(); });
    if (leads_) log_->AddSamples(results);
    throw;
  }
  if (leads_) log_->AddSamples(results);
  before_samples_ = state_.samples;
  double loss = 0;
  for (const training::SampleResult& result : results) {
    loss += result.loss;
    state_.interval.loss += result.loss;
    state_.interval.correct += result.correct ? 1 : 0;
    ++state_.interval.samples;
  }
  state_.samples = trainer_->samples_done();
  last_rate_ = options.learning_rate.At(state_.samples - options.batch);
  if (phase_ + 1 < phases_.size() && state_.samples >= phases_[phase_ + 1].first_sample) {
    const std::vector<training::NamedTensor> state = trainer_->ExportState();
    EnterPhaseAt(state_.samples);
    trainer_->ImportState(state);
  }
  if (!leads_) return;
  progress_->Update(state_.samples,
                    loss / static_cast<double>(std::max<std::size_t>(results.size(), 1)));
}

void TrainingRun::WriteRow() {
  MetricsRow row;
  if (IsDue(configuration_.run.log_every_samples) && state_.interval.samples > 0) {
    row.interval = std::exchange(state_.interval, {});
    const auto n = static_cast<double>(row.interval->samples);
    state_.last.train_loss = row.interval->loss / n;
    state_.last.train_accuracy = static_cast<double>(row.interval->correct) / n;
  }
  if (IsDue(configuration_.run.validate_every_samples)) {
    row.validation = trainer_->Evaluate(*data_.validation, validation_samples_);
    state_.last.validation_loss = row.validation->loss;
    state_.last.validation_accuracy = row.validation->accuracy;
  }
  if (!leads_ || (!row.interval && !row.validation)) return;
  row.samples = state_.samples;
  row.epoch = static_cast<double>(state_.samples) / static_cast<double>(data_.train->epoch_size());
  row.learning_rate = last_rate_;
  log_->AddRow(row);
  progress_->Row(row);
}

void TrainingRun::Save() {
  if (leads_) {
    log_->Sync(state_);
    WriteCheckpoint(directory_.checkpoint(), state_, *trainer_);
  } else {
    std::ostringstream unused;
    trainer_->Save(unused);
  }
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

void TrainingRun::WriteManifest(const std::string& finished) const {
  if (!leads_) return;
  const int processes = processes_ == nullptr ? 1 : processes_->size();
  const Json manifest =
      MakeManifest(configuration_, data_, processes, state_, resumed_from_, started_, finished);
  ReplaceFile(directory_.manifest(), manifest.dump(2) + "\n");
}

Json TrainingRun::Summary() const {
  Json object;
  object["network"] = trainer_options().network.name;
  object["data"] = configuration_.data.name;
  object["out"] = directory_.path();
  object["processes"] = processes_ == nullptr ? 1 : processes_->size();
  object["replicas"] = trainer_options().replicas;
  object["stages"] = trainer_options().network.stage_count();
  std::int64_t parameters = 0;
  for (const hwmodel::StageCost& cost : hwmodel::ComputeCosts(trainer_options().network)) {
    parameters += cost.parameters;
  }
  object["parameters"] = parameters;
  object["samples"] = state_.samples;
  object["epochs"] =
      static_cast<double>(state_.samples) / static_cast<double>(data_.train->epoch_size());
  object["delays"] = trainer_->delays();
  object["updates"] = state_.samples / trainer_options().batch;
  object["learning_rate"] = trainer_options().learning_rate.base;
  object["momentum"] = trainer_options().momentum;
  object["train_loss"] = ToJson(state_.last.train_loss);
  object["train_accuracy"] = ToJson(state_.last.train_accuracy);
  object["validation_loss"] = ToJson(state_.last.validation_loss);
  object["validation_accuracy"] = ToJson(state_.last.validation_accuracy);
  object["diverged"] = diverged_;
  // After a divergence the weights are those of some later moment.
  object["weights_sha256"] = diverged_.is_null() ? Json(trainer_->WeightsSha256()) : Json(nullptr);
  object["seconds"] = state_.seconds;
  object["training_seconds"] = state_.training_seconds;
  object["samples_per_second"] =
      state_.training_seconds > 0
          ? Json(static_cast<double>(state_.samples) / state_.training_seconds)
          : Json(nullptr);
  const auto of_all_processes = [&](std::int64_t bytes) {
    if (processes_ == nullptr) return bytes;
    std::int64_t all = 0;
    for (int p = 0; p < processes_->size(); ++p)
      all += training::BroadcastNumber(*processes_, p, bytes);
    return all;
  };
  object["peak_memory_bytes"] = of_all_processes(PeakMemoryBytes());
  const std::int64_t before = of_all_processes(memory_before_bytes_);
  const hwmodel::TrainingMemory predicted = training::PredictMemory(trainer_options());
  object["memory_before_bytes"] = before;
  object["predicted_peak_memory_bytes"] = before + predicted.peak();
  object["trainer_memory_bytes"] = trainer_->memory_bytes();
  object["predicted_memory_bytes"] = predicted.total();
  Json workers = Json::array();
  for (const training::WorkerTimes& times : trainer_->worker_times()) {
    workers.push_back({{"first_stage", times.first_stage},
                       {"end_stage", times.end_stage},
                       {"busy_seconds", times.busy_seconds},
                       {"waiting_seconds", times.waiting_seconds}});
  }
  object["workers"] = workers;
  return object;
}

}  // namespace batchless
