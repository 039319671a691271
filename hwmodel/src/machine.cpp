#include "batchless/hwmodel/machine.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {
namespace {

constexpr std::array<MachineField, 17> kFields = {{
    {"compute", "cores", Dimension::kCount, true, &Machine::cores, nullptr,
     "workers that compute on their own"},
    {"compute", "peak", Dimension::kFlopsPerSecond, true, &Machine::peak_flops_per_second, nullptr,
     "of all cores, for numbers of that size"},
    {"compute", "number", Dimension::kBytes, true, &Machine::number_bytes, nullptr,
     "size of a number"},
    {"compute", "launch", Dimension::kSeconds, false, &Machine::launch_seconds, nullptr,
     "from one operation of the whole machine to the next"},
    {"local", "memory", Dimension::kBytes, false, &Machine::local_memory_bytes, nullptr,
     "of all cores together, each with its share"},
    {"local", "bandwidth", Dimension::kBytesPerSecond, false, &Machine::local_bytes_per_second,
     nullptr, "of all cores together"},
    {"shared", "memory", Dimension::kBytes, false, &Machine::shared_memory_bytes, nullptr,
     "one for all cores"},
    {"shared", "bandwidth", Dimension::kBytesPerSecond, false, &Machine::shared_bytes_per_second,
     nullptr, "of that memory"},
    {"fabric", "bandwidth", Dimension::kBytesPerSecond, false, &Machine::fabric_bytes_per_second,
     nullptr, "that all cores together send to one another"},
    {"fabric", "latency", Dimension::kSeconds, false, &Machine::fabric_latency_seconds, nullptr,
     "from one core to the next"},
    {"fabric", "links", Dimension::kCount, false, &Machine::fabric_links, nullptr,
     "of a core, over which it sends its part; one reaches every core"},
    {"network", "bandwidth", Dimension::kBytesPerSecond, false, &Machine::network_bytes_per_second,
     nullptr, "between machines, in each direction"},
    {"network", "latency", Dimension::kSeconds, false, &Machine::network_latency_seconds, nullptr,
     "between machines"},
    {"energy", "flop", Dimension::kJoulesPerFlop, true, nullptr, &MachineEnergy::joules_per_flop,
     "of a FLOP"},
    {"energy", "local", Dimension::kJoulesPerByte, true, nullptr,
     &MachineEnergy::joules_per_local_byte, "of a byte read from or written to local memory"},
    {"energy", "shared", Dimension::kJoulesPerByte, true, nullptr,
     &MachineEnergy::joules_per_shared_byte, "of a byte of shared memory"},
    {"energy", "fabric", Dimension::kJoulesPerByte, true, nullptr,
     &MachineEnergy::joules_per_fabric_byte, "of a byte sent to another core"},
}};

constexpr double kMaxCores = 1e8;

std::string FullName(const MachineField& field) {
  return std::string(field.section) + "." + std::string(field.name);
}

void RequirePair(std::string_view section, double memory, double bandwidth) {
  if ((memory > 0) == (bandwidth > 0)) return;
  const bool lacks_memory = memory <= 0;
  throw analysis::InvalidArgument(std::string(section) + (lacks_memory ? ".memory" : ".bandwidth"),
                                  "nothing",
                                  std::string("a positive one beside ") + std::string(section) +
                                      (lacks_memory ? ".bandwidth" : ".memory"));
}

}  // namespace

const MeasuredNetwork* Machine::FindMeasured(std::string_view network) const {
  for (const MeasuredNetwork& candidate : measured) {
    if (candidate.network == network) return &candidate;
  }
  return nullptr;
}

std::optional<MeasuredNetwork> Machine::MeasuredTimes(std::string_view network, int workers) const {
  const MeasuredNetwork* one = FindMeasured(network);
  if (one == nullptr) return std::nullopt;
  const MeasuredNetwork* most = one;
  for (const MeasuredNetwork& candidate : measured) {
    if (candidate.network == network && candidate.workers > most->workers) most = &candidate;
  }
  MeasuredNetwork result = *one;
  result.workers = std::clamp(workers, one->workers, most->workers);
  if (most == one) return result;
  const double share = static_cast<double>(result.workers - one->workers) /
                       static_cast<double>(most->workers - one->workers);
  for (std::vector<double> MeasuredNetwork::*const times :
       {&MeasuredNetwork::forward_seconds, &MeasuredNetwork::backward_seconds,
        &MeasuredNetwork::update_seconds}) {
    for (std::size_t s = 0; s < (result.*times).size(); ++s) {
      (result.*times)[s] += share * ((most->*times)[s] - (result.*times)[s]);
    }
  }
  return result;
}

std::span<const MachineField> MachineFields() { return kFields; }

void Validate(const Machine& machine) {
  for (const MachineField& field : kFields) {
    if (field.member == nullptr && !machine.energy) continue;
    const double value =
        field.member != nullptr ? machine.*field.member : (*machine.energy).*field.energy_member;
    if (!std::isfinite(value) || value < 0) {
      throw analysis::InvalidArgument(FullName(field), value, "a number that is not negative");
    }
  }
  if (machine.cores < 1 || machine.cores > kMaxCores ||
      machine.cores != std::floor(machine.cores)) {
    throw analysis::InvalidArgument("compute.cores", machine.cores, "an integer from 1 to 1e8");
  }
  if (machine.fabric_links < 1 || machine.fabric_links > 1000 ||
      machine.fabric_links != std::floor(machine.fabric_links)) {
    throw analysis::InvalidArgument("fabric.links", machine.fabric_links,
                                    "an integer from 1 to 1000");
  }
  if (machine.number_bytes < 1 || machine.number_bytes > 8 ||
      machine.number_bytes != std::floor(machine.number_bytes)) {
    throw analysis::InvalidArgument("compute.number", machine.number_bytes, "1 B to 8 B");
  }
  if (machine.peak_flops_per_second <= 0) {
    throw analysis::InvalidArgument("compute.peak", machine.peak_flops_per_second,
                                    "a positive number");
  }
  RequirePair("local", machine.local_memory_bytes, machine.local_bytes_per_second);
  RequirePair("shared", machine.shared_memory_bytes, machine.shared_bytes_per_second);
  if (machine.memory_bytes() <= 0) {
    throw analysis::InvalidArgument("local.memory", "nothing", "local or shared memory");
  }
}

}  // namespace batchless::hwmodel
