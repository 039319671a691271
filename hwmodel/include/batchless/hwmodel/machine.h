// A machine as what a throughput needs to know of it.
//
//   P    cores       workers that compute on their own: cores of a wafer, tiles, multiprocessors
//   R    peak        FLOPs a second of all cores, at the precision of the numbers
//   local memory     of all cores together; each core reads only its share, at its share of the
//                    bandwidth
//   shared memory    one for all cores, at one bandwidth that they share: a GPU's HBM, a CPU's DRAM
//   fabric           between cores: bytes a second that all cores together can send, each over `links`
//                    links, latency to the next core. With one link a core reaches every other at
//                    once, with four its neighbours in a mesh
//   network          between machines: bytes a second in each direction, latency
//   server           so many machines that the network connects, and what connects such servers: bytes a
//                    second of a machine in each direction, latency. Without it the network connects all
//   launch           time from one operation of the whole machine to the next: a GPU's kernel launch
//
// A field is zero where the machine lacks the feature. Vendors print totals, so the fields are totals.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace batchless::hwmodel {

/// Energy of an operation; a multiply-add is two FLOPs.
struct MachineEnergy {
  double joules_per_flop = 0;
  double joules_per_local_byte = 0;
  double joules_per_shared_byte = 0;
  double joules_per_fabric_byte = 0;
};

/// Measured seconds of each stage of a network on one core, for one micro-batch, while workers on as
/// many cores shared the stages.
struct MeasuredNetwork {
  std::string network;
  std::int64_t microbatch = 1;  ///< samples
  std::vector<double> forward_seconds;
  std::vector<double> backward_seconds;  ///< both gradients
  std::vector<double> update_seconds;
  int workers = 1;
  /// FLOPs of a sample, forward and both gradients, which tell networks of one name apart. 0: not known.
  std::int64_t sample_flops = 0;
};

struct Machine {
  std::string name;
  double cores = 1;
  double peak_flops_per_second = 0;
  double number_bytes = 4;
  double local_memory_bytes = 0;
  double local_bytes_per_second = 0;
  double shared_memory_bytes = 0;
  double shared_bytes_per_second = 0;
  double fabric_bytes_per_second = 0;
  double fabric_latency_seconds = 0;
  double fabric_links = 4;  ///< of a core
  double network_bytes_per_second = 0;
  double network_latency_seconds = 0;
  double server_machines = 0;
  double server_bytes_per_second = 0;
  double server_latency_seconds = 0;
  double launch_seconds = 0;
  std::optional<MachineEnergy> energy{};
  /// Times of networks: with one worker, then perhaps with several, which have memory and its bandwidth in
  /// common.
  std::vector<MeasuredNetwork> measured{};

  double core_flops_per_second() const { return peak_flops_per_second / cores; }
  double link_bytes_per_second() const { return fabric_bytes_per_second / (cores * fabric_links); }
  double core_memory_bytes() const { return local_memory_bytes / cores; }
  /// Share of all memory that a run may take.
  double memory_bytes() const { return local_memory_bytes + shared_memory_bytes; }
  /// With that many workers: times grow linearly from those of one to those of the most measured, and
  /// no further. None where the network was not measured.
  std::optional<MeasuredNetwork> MeasuredTimes(std::string_view network, int workers) const;
};

enum class Dimension : unsigned char {
  kCount,           ///< an integer, no unit
  kFlopsPerSecond,  ///< FLOP/s
  kBytes,           ///< B
  kBytesPerSecond,  ///< B/s
  kSeconds,         ///< s
  kJoulesPerFlop,   ///< J/FLOP
  kJoulesPerByte,   ///< J/B
};

/// One row of the table of fields: how a machine file calls a number, and where it goes. Exactly one
/// of the two members is set.
struct MachineField {
  std::string_view section;
  std::string_view name;
  Dimension dimension;
  bool required;
  double Machine::*member = nullptr;
  double MachineEnergy::*energy_member = nullptr;

  /// Where the machine has the number; null for an energy that it has none of.
  double* In(Machine& machine) const {
    if (member != nullptr) return &(machine.*member);
    return machine.energy ? &((*machine.energy).*energy_member) : nullptr;
  }
};

/// The table, in the order of a file: compute, local, shared, fabric, network, server, energy.
std::span<const MachineField> MachineFields();

/// Throws analysis::InvalidArgument naming section.name unless every number is finite and not
/// negative, cores is an integer from 1 to 10^8, links one from 1 to 1000, a number has 1 to 8 bytes,
/// there is a peak, a server has an integer number of machines and a bandwidth, and there is local or
/// shared memory, each with its bandwidth.
void Validate(const Machine& machine);

}  // namespace batchless::hwmodel

// Example
//   Machine machine;
//   machine.name = "ours";
//   machine.cores = 100;
//   machine.peak_flops_per_second = 1e12;
//   machine.local_memory_bytes = 1e9;
//   machine.local_bytes_per_second = 1e12;
//   Validate(machine);
//   CHECK(machine.core_flops_per_second() == 1e10);
//   CHECK(machine.core_memory_bytes() == 1e7);
