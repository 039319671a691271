// A network on the command line, and what the hardware model says of it on a machine.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "argument.h"
#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/workload.h"
#include "network_file.h"
#include "usage_error.h"

namespace batchless {

/// What the help says of a network's name, and of its normalisation.
inline std::string WorkloadHelp() {
  return fmt::format("{}, or a network file PATH.toml; required",
                     fmt::join(hwmodel::WorkloadNames(), "|"));
}
inline std::string NormalizationHelp() {
  return fmt::format("Normalisation, {} (default: the network's own)",
                     fmt::join(hwmodel::kNormalizationNames, "|"));
}

/// One of hwmodel::WorkloadNames(), which a refusal lists, another resnet(6n+2), or a network file.
inline std::string WorkloadName(const Argument& argument) {
  const auto names = hwmodel::WorkloadNames();
  const std::string& name = argument.given() ? argument.Text("") : argument.name();
  if (argument.given() && (hwmodel::IsWorkloadName(name) || IsNetworkFile(name))) return name;
  return std::string(names[argument.Choice(names)]);
}

inline hwmodel::Workload WorkloadOf(const Argument& network, int bytes_per_number) {
  const std::string name = WorkloadName(network);
  if (!IsNetworkFile(name)) return hwmodel::MakeWorkload(name, bytes_per_number);
  return hwmodel::MakeWorkload(ReadNetworkFile(network.name(), name), bytes_per_number);
}

/// The same with the normalisation that is given, or the network's own.
inline hwmodel::Workload WorkloadOf(const Argument& network, const Argument& norm,
                                    int bytes_per_number = sizeof(float)) {
  const std::string name = WorkloadName(network);
  if (IsNetworkFile(name)) {
    norm.Refuse("nothing with a network file, which says it");
    return WorkloadOf(network, bytes_per_number);
  }
  if (!norm.given()) return hwmodel::MakeWorkload(name, bytes_per_number);
  const auto normalization =
      static_cast<hwmodel::Normalization>(norm.Choice(hwmodel::kNormalizationNames));
  try {
    return hwmodel::MakeWorkload(name, bytes_per_number, normalization);
  } catch (const analysis::InvalidArgument& error) {
    if (error.name() != "network.norm") throw;
    throw UsageError::FromLine(norm.name() + std::string(error.what()).substr(error.name().size()));
  }
}

/// What the model refuses: a field of the machine's file, "SECTION.FIELD", or the option of that name.
inline UsageError ModelError(const Argument& hardware, const analysis::InvalidArgument& error) {
  if (error.name().find('.') == std::string::npos) {
    std::string line = "--" + std::string(error.what());
    std::replace(line.begin(), line.begin() + 2 + std::ssize(error.name()), '_', '-');
    return UsageError::FromLine(line);
  }
  return UsageError::FromLine(
      fmt::format("{} {}: {}", hardware.name(), hardware.Text(""), error.what()));
}

}  // namespace batchless
