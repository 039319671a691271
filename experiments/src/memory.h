#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "batchless/training/trainer.h"

namespace batchless {

// Bytes that this process can still take without swapping: what the system calls available, or what
// its control group leaves if that is less. None where the system does not say.
std::optional<double> AvailableMemoryBytes();

// What this process has in memory, and the most that it has had; 0 where the system does not say.
std::int64_t ResidentMemoryBytes();
std::int64_t PeakMemoryBytes();

// Throws UsageError that names `argument` for a trainer whose run would not fit, with the numbers: it
// ends here, and not hours later by the system's hand.
void RefuseWithoutMemory(std::string_view argument, const training::TrainerOptions& options);

// "1.5 GB"
std::string BytesText(double bytes);

}  // namespace batchless
