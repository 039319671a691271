#include "workload_argument.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "machine_file.h"
#include "network_file.h"

namespace batchless {

std::string WorkloadHelp() {
  return fmt::format("{}, or a network file PATH.toml or PATH.onnx; required",
                     fmt::join(hwmodel::WorkloadNames(), "|"));
}

std::string NormalizationHelp() {
  return fmt::format("Normalisation, {} (default: the network's own)",
                     fmt::join(hwmodel::kNormalizationNames, "|"));
}

std::string WorkloadName(const Argument& argument) {
  const auto names = hwmodel::WorkloadNames();
  const std::string& name = argument.given() ? argument.Text("") : argument.name();
  if (argument.given() && (hwmodel::IsWorkloadName(name) || IsNetworkFile(name))) return name;
  return std::string(names[argument.Choice(names)]);
}

hwmodel::Workload WorkloadOf(const Argument& network, int bytes_per_number) {
  const std::string name = WorkloadName(network);
  if (!IsNetworkFile(name)) return hwmodel::MakeWorkload(name, bytes_per_number);
  return hwmodel::MakeWorkload(ReadNetworkFile(network.name(), name), bytes_per_number);
}

std::optional<hwmodel::Normalization> NormalizationOf(const Argument& norm, bool is_file) {
  if (!norm.given()) return std::nullopt;
  if (is_file) norm.Refuse("nothing with a network file, which says it");
  return static_cast<hwmodel::Normalization>(norm.Choice(hwmodel::kNormalizationNames));
}

hwmodel::Workload WorkloadOf(const Argument& network, const Argument& norm, int bytes_per_number) {
  const std::string name = WorkloadName(network);
  const auto normalization = NormalizationOf(norm, IsNetworkFile(name));
  return normalization ? hwmodel::MakeWorkload(name, bytes_per_number, normalization)
                       : WorkloadOf(network, bytes_per_number);
}

hwmodel::Machine MachineOf(const Argument& hardware) {
  return ReadMachineFile(hardware.name(), hardware.Text("a machine file, as in hwmodel/machines"));
}

std::vector<int> PlacementEnds(const Argument& placement, int stages) {
  const std::vector<std::int64_t> cuts =
      placement.IntegerList({1, std::max(1, stages - 1)}, Repeats::kKeep);
  if (!std::is_sorted(cuts.begin(), cuts.end(), std::less_equal<>())) {
    placement.Refuse("ascending numbers of layers");
  }
  std::vector<int> group_ends(cuts.begin(), cuts.end());
  group_ends.push_back(stages);
  return group_ends;
}

UsageError ModelError(const Argument& hardware, const analysis::InvalidArgument& error,
                      OtherNames names) {
  if (error.name().find('.') == std::string::npos) return OptionError(error, names);
  return {fmt::format("{} {}: {}", hardware.name(), hardware.Text(""), error.name()), error.value(),
          error.accepted()};
}

}  // namespace batchless
