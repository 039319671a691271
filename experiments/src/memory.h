#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "batchless/training/trainer.h"

namespace batchless {

// Bytes that this process can still take without swapping: what the system calls available, or what
// its control groups leave if that is less. None where the system does not say.
std::optional<double> AvailableMemoryBytes();

// What the control groups of a process leave it, of either version: `groups` is its /proc/PID/cgroup,
// `mount` where the groups are mounted. None where nothing limits it.
std::optional<double> ControlGroupAvailableBytes(const std::string& groups,
                                                 const std::string& mount);

// What this process has in memory, and the most that it has had; 0 where the system does not say.
std::int64_t ResidentMemoryBytes();
std::int64_t PeakMemoryBytes();

// Gives the system back what the heap keeps free, where the C library can.
void ReleaseFreeMemory();

// Whether a run fits in the memory of this machine, with all of its processes that are here.
bool FitsInMemory(const training::TrainerOptions& options);

// Throws UsageError that names `argument` where it does not, with the numbers: the run ends here, and
// not hours later by the system's hand.
void RefuseWithoutMemory(std::string_view argument, const training::TrainerOptions& options);

// Throws UsageError that names `argument` where there are not so many bytes: "GOT BYTES, accepted: ACCEPTED
// the BYTES of memory available".
void RequireMemory(std::string_view argument, std::string_view got, double bytes,
                   std::string_view accepted);

// "1.5 GB"
std::string BytesText(double bytes);

}  // namespace batchless
