#pragma once

#include <optional>
#include <string>

namespace batchless {

// Bytes that this process can still take without swapping: what the system calls available, or what
// its control group leaves if that is less. None where the system does not say.
std::optional<double> AvailableMemoryBytes();

// "1.5 GB"
std::string BytesText(double bytes);

}  // namespace batchless
