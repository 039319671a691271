#include "manifest.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "batchless/training/backend.h"
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

Json MakeManifest(const Configuration& configuration, const RunData& data, int processes,
                  const RunState& state, std::int64_t resumed_from_sample,
                  const std::string& started, const std::string& finished) {
  const BuildInfo build = GetBuildInfo();
  Json object;
  object["version"] = build.version;
  object["commit"] = build.commit;
  object["compiler"] = build.compiler;
  object["flags"] = build.flags;
  object["onednn"] = training::OneDnnVersion();
  object["cpu"] = CpuModel();
  object["cpu_threads"] = std::thread::hardware_concurrency();
  object["processes"] = processes;
  // The most that a phase has.
  std::int64_t replicas = 0;
  std::int64_t threads = 0;  // of each process
  for (const Configuration& settings : SettingsOf(configuration)) {
    replicas = std::max(replicas, settings.schedule.replicas);
    threads = std::max(threads, settings.schedule.workers);
  }
  object["replicas"] = replicas;
  object["threads"] = threads;
  object["seed"] = configuration.run.seed;
  object["data"] = {{"name", data.train->dataset().name()},
                    {"train_sha256", state.train_digest},
                    {"validation_sha256", state.validation_digest}};
  const auto digest = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  object["schedule_sha256"] = digest(state.schedule_digest);
  object["network_sha256"] = digest(state.network_digest);
  object["quotients_sha256"] = digest(state.quotients_digest);
  object["initial_weights_sha256"] = state.initial_weights_sha256;
  object["resumed_from_sample"] = resumed_from_sample;
  object["started"] = started;
  object["finished"] = finished.empty() ? Json(nullptr) : Json(finished);
  return object;
}

}  // namespace batchless
