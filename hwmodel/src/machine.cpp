#include "batchless/hwmodel/machine.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "checks.h"

namespace batchless::hwmodel {
namespace {

using enum Dimension;
constexpr std::array<MachineField, 20> kFields = {{
    {"compute", "cores", kCount, true, &Machine::cores},
    {"compute", "peak", kFlopsPerSecond, true, &Machine::peak_flops_per_second},
    {"compute", "number", kBytes, true, &Machine::number_bytes},
    {"compute", "launch", kSeconds, false, &Machine::launch_seconds},
    {"local", "memory", kBytes, false, &Machine::local_memory_bytes},
    {"local", "bandwidth", kBytesPerSecond, false, &Machine::local_bytes_per_second},
    {"shared", "memory", kBytes, false, &Machine::shared_memory_bytes},
    {"shared", "bandwidth", kBytesPerSecond, false, &Machine::shared_bytes_per_second},
    {"fabric", "bandwidth", kBytesPerSecond, false, &Machine::fabric_bytes_per_second},
    {"fabric", "latency", kSeconds, false, &Machine::fabric_latency_seconds},
    {"fabric", "links", kCount, false, &Machine::fabric_links},
    {"network", "bandwidth", kBytesPerSecond, false, &Machine::network_bytes_per_second},
    {"network", "latency", kSeconds, false, &Machine::network_latency_seconds},
    {"server", "machines", kCount, false, &Machine::server_machines},
    {"server", "bandwidth", kBytesPerSecond, false, &Machine::server_bytes_per_second},
    {"server", "latency", kSeconds, false, &Machine::server_latency_seconds},
    {"energy", "flop", kJoulesPerFlop, true, nullptr, &MachineEnergy::joules_per_flop},
    {"energy", "local", kJoulesPerByte, true, nullptr, &MachineEnergy::joules_per_local_byte},
    {"energy", "shared", kJoulesPerByte, true, nullptr, &MachineEnergy::joules_per_shared_byte},
    {"energy", "fabric", kJoulesPerByte, true, nullptr, &MachineEnergy::joules_per_fabric_byte},
}};

void RequirePair(const std::string& section, double memory, double bandwidth) {
  RefuseIf(bandwidth > 0 && memory <= 0, section + ".memory", "nothing",
           "a positive one beside " + section + ".bandwidth");
  RefuseIf(memory > 0 && bandwidth <= 0, section + ".bandwidth", "nothing",
           "a positive one beside " + section + ".memory");
}

}  // namespace

std::optional<MeasuredNetwork> Machine::MeasuredTimes(std::string_view network, int workers) const {
  // The first of a network is of one worker.
  const MeasuredNetwork* one = nullptr;
  const MeasuredNetwork* most = nullptr;
  for (const MeasuredNetwork& candidate : measured) {
    if (candidate.network != network) continue;
    if (one == nullptr) one = most = &candidate;
    if (candidate.workers > most->workers) most = &candidate;
  }
  if (one == nullptr) return std::nullopt;
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
  const auto is_integer = [](double value, double low, double high) {
    return value >= low && value <= high && value == std::floor(value);
  };
  Machine copy = machine;
  for (const MachineField& field : kFields) {
    const double* value = field.In(copy);
    if (value == nullptr) continue;
    RefuseIf(!std::isfinite(*value) || *value < 0,
             std::string(field.section) + "." + std::string(field.name), *value,
             "a number that is not negative");
  }
  RefuseIf(!is_integer(machine.cores, 1, 1e8), "compute.cores", machine.cores,
           "an integer from 1 to 1e8");
  RefuseIf(!is_integer(machine.fabric_links, 1, 1000), "fabric.links", machine.fabric_links,
           "an integer from 1 to 1000");
  RefuseIf(!is_integer(machine.number_bytes, 1, 8), "compute.number", machine.number_bytes,
           "1 B to 8 B");
  RefuseIf(!(machine.peak_flops_per_second > 0), "compute.peak", machine.peak_flops_per_second,
           "a positive number");
  RefuseIf(!is_integer(machine.server_machines, 0, 1e6), "server.machines", machine.server_machines,
           "an integer from 1 to 1e6");
  RefuseIf((machine.server_machines > 0) != (machine.server_bytes_per_second > 0),
           machine.server_machines > 0 ? "server.bandwidth" : "server.machines", "nothing",
           "both of a server");
  RequirePair("local", machine.local_memory_bytes, machine.local_bytes_per_second);
  RequirePair("shared", machine.shared_memory_bytes, machine.shared_bytes_per_second);
  RefuseIf(machine.memory_bytes() <= 0, "local.memory", "nothing", "local or shared memory");
}

}  // namespace batchless::hwmodel
