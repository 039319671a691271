#include "batchless/hwmodel/machine.h"

#include <limits>

#include "batchless/analysis/argument.h"
#include "catch.h"

namespace batchless::hwmodel {
namespace {

Machine Good() {
  Machine machine;
  machine.name = "m";
  machine.peak_flops_per_second = 1e9;
  machine.local_memory_bytes = 1e6;
  machine.local_bytes_per_second = 1e9;
  machine.energy.emplace();
  return machine;
}

TEST_CASE("A number that cannot be is refused by its name", "[machine]") {
  CHECK_NOTHROW(Validate(Good()));
  for (const MachineField& field : MachineFields()) {
    for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
      Machine machine = Good();
      (field.member != nullptr ? machine.*field.member : (*machine.energy).*field.energy_member) =
          bad;
      const std::string name = std::string(field.section) + "." + std::string(field.name);
      try {
        Validate(machine);
        FAIL(name << " passed");
      } catch (const analysis::InvalidArgument& error) {
        CHECK(error.name() == name);
      }
    }
  }
}

TEST_CASE("Memory comes with its bandwidth", "[machine]") {
  Machine machine = Good();
  machine.local_bytes_per_second = 0;
  CHECK_THROWS_WITH(Validate(machine), Catch::Matchers::Contains("local.bandwidth"));
  machine = Good();
  machine.shared_bytes_per_second = 1;
  CHECK_THROWS_WITH(Validate(machine), Catch::Matchers::Contains("shared.memory"));
  machine = Good();
  machine.local_memory_bytes = machine.local_bytes_per_second = 0;
  CHECK_THROWS_AS(Validate(machine), analysis::InvalidArgument);
  for (const double cores : {0.0, 1.5, 1e9}) {
    machine = Good();
    machine.cores = cores;
    CHECK_THROWS_WITH(Validate(machine), Catch::Matchers::Contains("compute.cores"));
  }
}

}  // namespace
}  // namespace batchless::hwmodel
