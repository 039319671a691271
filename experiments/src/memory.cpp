#include "memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "usage_error.h"

namespace batchless {
namespace {

std::optional<double> SystemAvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    double kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  }
  return std::nullopt;
}

std::optional<double> FirstNumber(const char* path) {
  std::ifstream file(path);
  double value = 0;
  if (file >> value) return value;
  return std::nullopt;  // "max" in a control group without a limit
}

}  // namespace

std::optional<double> AvailableMemoryBytes() {
  std::optional<double> available = SystemAvailableBytes();
  const std::optional<double> limit = FirstNumber("/sys/fs/cgroup/memory.max");
  const std::optional<double> used = FirstNumber("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    const double left = std::max(0.0, *limit - *used);
    available = available ? std::min(*available, left) : left;
  }
  return available;
}

std::int64_t ResidentMemoryBytes() {
  // Pages: of the address space, then of those the resident ones.
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  return file >> all >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

std::int64_t PeakMemoryBytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

void RefuseWithoutMemory(std::string_view argument, const training::TrainerOptions& options) {
  const hwmodel::TrainingMemory memory = training::PredictMemory(options);
  const std::optional<double> available = AvailableMemoryBytes();
  const auto total = static_cast<double>(memory.peak());
  if (!available || total <= *available) return;
  const auto text = [](std::int64_t bytes) { return BytesText(static_cast<double>(bytes)); };
  throw UsageError(
      argument,
      fmt::format("{}, whose run takes {} (weights and velocities {}, other versions {}, "
                  "activations and their gradients {})",
                  options.network.name, BytesText(total), text(memory.weights),
                  text(memory.versions), text(memory.activations + memory.activation_gradients)),
      fmt::format("what fits the {} of memory available", BytesText(*available)));
}

std::string BytesText(double bytes) {
  constexpr std::array<const char*, 7> kUnits = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

}  // namespace batchless
