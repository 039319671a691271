// A network and a machine on the command line, and what the hardware model refuses of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "argument.h"
#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/machine.h"
#include "batchless/hwmodel/workload.h"
#include "usage_error.h"

namespace batchless {

/// What the help says of a network's name, and of its normalisation.
std::string WorkloadHelp();
std::string NormalizationHelp();

/// One of hwmodel::WorkloadNames(), which a refusal lists, another resnet(6n+2), or a network file.
std::string WorkloadName(const Argument& argument);

hwmodel::Workload WorkloadOf(const Argument& network, int bytes_per_number);
/// The normalisation that is given, none for the network's own, as that of a file always is.
std::optional<hwmodel::Normalization> NormalizationOf(const Argument& norm, bool is_file);
/// The same with this normalisation.
hwmodel::Workload WorkloadOf(const Argument& network, const Argument& norm,
                             int bytes_per_number = sizeof(float));

/// The machine of a file, which is required.
hwmodel::Machine MachineOf(const Argument& hardware);

/// Where --placement cuts a network into groups of stages: one past the last stage of each, `stages` for
/// the last one. Throws UsageError unless the cuts are ascending and leave stages on both sides.
std::vector<int> PlacementEnds(const Argument& placement, int stages);

/// What the model refuses: a field of the machine's file, "SECTION.FIELD", or an option.
UsageError ModelError(const Argument& hardware, const analysis::InvalidArgument& error,
                      OtherNames names = {});

}  // namespace batchless
