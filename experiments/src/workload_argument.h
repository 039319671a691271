// A network's name on the command line.
#pragma once

#include <string>

#include "argument.h"
#include "batchless/hwmodel/workload.h"

namespace batchless {

/// One of hwmodel::WorkloadNames(), which a refusal lists, or another resnet(6n+2).
inline std::string WorkloadName(const Argument& argument) {
  const auto names = hwmodel::WorkloadNames();
  if (argument.given() && hwmodel::IsWorkloadName(argument.Text(""))) return argument.Text("");
  return std::string(names[argument.Choice(names)]);
}

}  // namespace batchless
