#include "memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

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
