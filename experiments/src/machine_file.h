// Machines as TOML files: hwmodel/machines/*.toml, and what `batchless calibrate` writes.
//
//   name = "..."
//   [section]
//   field = { value = "40 GB", source = "where the number is from" }
//
// The fields are those of hwmodel::MachineFields(). Every number has its unit and its source; a
// count is a number without a unit. Units: B, FLOP/s, B/s, s, J/FLOP, J/B, with prefixes f p n u m k
// M G T P E, Ki Mi Gi Ti for bytes, and b in place of B for bits.
//
//   [measured.NETWORK]           times of each stage on one core, as many as it has stages
//   source = "..."
//   microbatch = 1
//   sample_flops = 123           optional: FLOPs of a sample, by which a network that has only the
//                                name of the measured one is refused
//   forward_seconds = [...]      also backward_seconds, update_seconds
//   [measured.NETWORK.shared]    the same while several workers share the stages, if it was measured
//   workers = 2                  on as many cores
#pragma once

#include <string>
#include <string_view>

#include "batchless/hwmodel/machine.h"

namespace batchless {

// Throws UsageError in one line that names `argument`, file, line, field, value and what is accepted.
hwmodel::Machine ReadMachineFile(const std::string& argument, const std::string& path);

// The same from a text; `path` is what errors call it.
hwmodel::Machine ParseMachine(const std::string& text, const std::string& path);

// A quantity as it is written in a file, in SI units. Throws UsageError with `name`.
double ParseQuantity(std::string_view name, std::string_view text, hwmodel::Dimension dimension);

// A file with the same source for every number; reads back as the same machine.
std::string MachineText(const hwmodel::Machine& machine, std::string_view source);

}  // namespace batchless
