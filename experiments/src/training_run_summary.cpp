// What a run says of itself: its manifest and its summary.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "batchless/hwmodel/workload.h"
#include "batchless/training/backend.h"
#include "durable_file.h"
#include "memory.h"
#include "text_output.h"
#include "training_run.h"
#include "version.h"

namespace batchless {
namespace {

std::string CpuModel() {
  constexpr std::string_view kKey = "model name";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with(kKey) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

std::string UtcText() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

void TrainingRun::WriteManifest(const std::string& finished) const {
  if (!keeps_) return;
  const BuildInfo build = GetBuildInfo();
  Json object;
  object["version"] = build.version;
  object["commit"] = build.commit;
  object["compiler"] = build.compiler;
  object["flags"] = build.flags;
  // Results are functions of the vectors too.
  object["cpu"] = fmt::format("{}, {}", CpuModel(), training::VectorInstructions());
  object["cpu_threads"] = std::thread::hardware_concurrency();
  object["processes"] = processes_ == nullptr ? 1 : processes_->size();
  // The most that a phase has.
  std::int64_t replicas = 0;
  std::int64_t threads = 0;  // of each process
  for (const Configuration& settings : SettingsOf(configuration_)) {
    replicas = std::max(replicas, settings.schedule.replicas);
    threads = std::max(threads, settings.schedule.workers);
  }
  object["replicas"] = replicas;
  object["threads"] = threads;
  object["seed"] = configuration_.run.seed;
  object["data"] = {{"name", data_.train->dataset().name()},
                    {"train_sha256", state_.train_digest},
                    {"validation_sha256", state_.validation_digest}};
  const auto or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  object["schedule_sha256"] = or_null(state_.schedule_digest);
  object["network_sha256"] = or_null(state_.network_digest);
  object["quotients_sha256"] = or_null(state_.quotients_digest);
  object["initial_weights_sha256"] = state_.initial_weights_sha256;
  object["resumed_from_sample"] = resumed_from_;
  object["started"] = started_;
  object["finished"] = or_null(finished);
  ReplaceFile(directory_.manifest(), JsonText(object, 2) + "\n");
}

std::int64_t TrainingRun::Updates() const {
  const training::TrainerOptions& now = trainer_options();
  std::int64_t updates = (state_.samples - now.first_sample) / now.batch;
  for (std::size_t p = 0; p < phase_; ++p) updates += phases_[p].samples / phases_[p].batch;
  return updates;
}

Json TrainingRun::Summary() const {
  Json object;
  object["network"] = trainer_options().network.name;
  object["data"] = configuration_.data.name;
  object["out"] = directory_.path();
  std::int64_t left_out = 0;
  // Samples of the caller's own come from no dataset.
  for (const auto* source : {data_.train.get(), data_.validation.get()}) {
    if (source != nullptr) left_out += source->dataset().left_out();
  }
  if (left_out > 0) object["files_left_out"] = left_out;
  object["processes"] = processes_ == nullptr ? 1 : processes_->size();
  object["replicas"] = trainer_options().replicas;
  object["stages"] = trainer_options().network.stage_count();
  object["parameters"] = hwmodel::MakeWorkload(trainer_options().network).parameters();
  object["samples"] = state_.samples;
  object["epochs"] = OrNull(Epochs());
  object["delays"] = trainer_->delays();
  object["updates"] = Updates();
  object["learning_rate"] = trainer_options().learning_rate.base;
  object["momentum"] = trainer_options().momentum;
  if (trainer_options().max_gradient_norm) {
    object["max_gradient_norm"] = *trainer_options().max_gradient_norm;
  }
  object["train_loss"] = OrNull(state_.last.train_loss);
  object["train_accuracy"] = OrNull(state_.last.train_accuracy);
  object["validation_loss"] = OrNull(state_.last.validation_loss);
  object["validation_accuracy"] = OrNull(state_.last.validation_accuracy);
  if (const double entropy = EntropyBits(); entropy > 0) {
    object["source_bits_per_token"] = entropy;
    object["validation_excess_bits_per_token"] =
        OrNull(ExcessBits(state_.last.validation_loss, entropy));
  }
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
  object["memory_before_bytes"] = before;
  const hwmodel::TrainingMemory predicted = training::PredictMemory(trainer_options());
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
