#include "memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <vector>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "usage_error.h"

namespace batchless {
namespace {

std::optional<double> FirstNumber(const std::filesystem::path& path) {
  std::ifstream file(path);
  double value = 0;
  if (file >> value) return value;
  return std::nullopt;  // "max" in a control group without a limit
}

// The number behind `key` in a file of lines "KEY NUMBER".
std::optional<double> NumberOf(const std::filesystem::path& path, std::string_view key) {
  std::ifstream file(path);
  double value = 0;
  for (std::string word; file >> word;) {
    if (word == key && file >> value) return value;
  }
  return std::nullopt;
}

// Where a version of control groups keeps its memory's numbers.
struct ControlGroupFiles {
  const char* folder;  // below the mount point
  const char* limit;
  const char* used;
  const char*
      inactive;  // key in memory.stat of cached files, which are given up when memory is short
};
constexpr ControlGroupFiles kFirstVersion = {"memory", "memory.limit_in_bytes",
                                             "memory.usage_in_bytes", "total_inactive_file"};
constexpr ControlGroupFiles kSecondVersion = {"", "memory.max", "memory.current", "inactive_file"};

// The memory of all processes that share this one's machine.
hwmodel::TrainingMemory MemoryOnThisMachine(const training::TrainerOptions& options) {
  if (options.processes == nullptr) return training::PredictMemory(options);
  const training::ProcessGroup& group = *options.processes;
  const std::vector<hwmodel::TrainingMemory> all = training::PredictMemoryByProcess(options);
  hwmodel::TrainingMemory here;
  for (int p = 0; p < group.size(); ++p) {
    if (group.machine_of(p) != group.machine_of(group.rank())) continue;
    here += all[p];
  }
  return here;
}

}  // namespace

std::optional<double> ControlGroupAvailableBytes(const std::string& groups,
                                                 const std::string& mount) {
  namespace fs = std::filesystem;
  std::optional<double> available;
  std::ifstream file(groups);
  // NUMBER:CONTROLLERS:PATH; the second version has no controllers.
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    const std::size_t path_colon = line.find(':', colon + 1);
    if (colon == std::string::npos || path_colon == std::string::npos) continue;
    const std::string controllers = line.substr(colon + 1, path_colon - colon - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    const ControlGroupFiles& names = controllers.empty() ? kSecondVersion : kFirstVersion;
    const fs::path root = fs::path(mount) / names.folder;
    // A group is bound by all that it is in. In a container the path may be that of the host.
    fs::path below = fs::path(line.substr(path_colon + 1)).relative_path();
    for (bool is_root = false; !is_root; below = below.parent_path()) {
      is_root = below.empty();
      const fs::path group = root / below;
      const std::optional<double> limit = FirstNumber(group / names.limit);
      const std::optional<double> used = FirstNumber(group / names.used);
      if (!limit || !used) continue;
      const double left = std::max(
          0.0, *limit - *used + NumberOf(group / "memory.stat", names.inactive).value_or(0));
      available = available ? std::min(*available, left) : left;
    }
  }
  return available;
}

std::optional<double> AvailableMemoryBytes() {
  const std::optional<double> kibibytes = NumberOf("/proc/meminfo", "MemAvailable:");
  const std::optional<double> left =
      ControlGroupAvailableBytes("/proc/self/cgroup", "/sys/fs/cgroup");
  if (!kibibytes) return left;
  return std::min(1024 * *kibibytes, left.value_or(1024 * *kibibytes));
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

bool FitsInMemory(const training::TrainerOptions& options) {
  const std::optional<double> available = AvailableMemoryBytes();
  return !available || static_cast<double>(MemoryOnThisMachine(options).peak()) <= *available;
}

void RefuseWithoutMemory(std::string_view argument, const training::TrainerOptions& options) {
  const hwmodel::TrainingMemory memory = MemoryOnThisMachine(options);
  const std::optional<double> available = AvailableMemoryBytes();
  if (!available || static_cast<double>(memory.peak()) <= *available) return;
  const auto text = [](std::int64_t bytes) { return BytesText(static_cast<double>(bytes)); };
  throw UsageError(
      argument,
      fmt::format(
          "{}, whose run takes {} (weights and the optimizer's arrays {}, other versions {}, "
          "activations and their gradients {})",
          options.network.name, text(memory.peak()), text(memory.weights), text(memory.versions),
          text(memory.activations + memory.activation_gradients)),
      fmt::format("what fits the {} of memory available", BytesText(*available)));
}

void RequireMemory(std::string_view argument, std::string_view got, double bytes,
                   std::string_view accepted) {
  const std::optional<double> available = AvailableMemoryBytes();
  if (!available || bytes <= *available) return;
  throw UsageError(argument, fmt::format("{} {}", got, BytesText(bytes)),
                   fmt::format("{} the {} of memory available", accepted, BytesText(*available)));
}

void ReleaseFreeMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
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
