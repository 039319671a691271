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
#include "usage_error.h"

namespace batchless {

/// What the help says of a network's name, and of its normalisation.
inline std::string WorkloadHelp() {
  return fmt::format("{}; required", fmt::join(hwmodel::WorkloadNames(), "|"));
}
inline std::string NormalizationHelp() {
  return fmt::format("Normalisation, {} (default: the network's own)",
                     fmt::join(hwmodel::kNormalizationNames, "|"));
}

/// One of hwmodel::WorkloadNames(), which a refusal lists, or another resnet(6n+2).
inline std::string WorkloadName(const Argument& argument) {
  const auto names = hwmodel::WorkloadNames();
  if (argument.given() && hwmodel::IsWorkloadName(argument.Text(""))) return argument.Text("");
  return std::string(names[argument.Choice(names)]);
}

/// The network of that name with the normalisation that is given, or its own.
inline hwmodel::Workload WorkloadOf(const Argument& network, const Argument& norm,
                                    int bytes_per_number = sizeof(float)) {
  const std::string name = WorkloadName(network);
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
