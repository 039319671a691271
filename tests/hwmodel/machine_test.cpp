#include "batchless/hwmodel/machine.h"

#include <limits>

#include "batchless/analysis/argument.h"
#include "catch.h"
#include "refusal.h"

namespace batchless::hwmodel {
namespace {

Machine Good() {
  return {.name = std::string("m"),
          .peak_flops_per_second = 1e9,
          .local_memory_bytes = 1e6,
          .local_bytes_per_second = 1e9,
          .energy = MachineEnergy{}};
}

TEST_CASE("A number that cannot be is refused by its name", "[machine]") {
  CHECK_NOTHROW(Validate(Good()));
  for (const MachineField& field : MachineFields()) {
    for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
      Machine machine = Good();
      (field.member != nullptr ? machine.*field.member : (*machine.energy).*field.energy_member) =
          bad;
      CHECK(test::RefusedName([&] { Validate(machine); }) ==
            std::string(field.section) + "." + std::string(field.name));
    }
  }
}

TEST_CASE("Measured times grow from those of one worker to those of the most", "[machine]") {
  Machine machine = Good();
  CHECK_FALSE(machine.MeasuredTimes("n", 1));
  machine.measured.push_back({"n", 1, {1, 2}, {4, 4}, {0, 1}});
  CHECK(machine.MeasuredTimes("n", 7)->forward_seconds == std::vector<double>{1, 2});
  machine.measured.push_back({"n", 1, {3, 2}, {8, 5}, {0, 2}, 5});
  machine.measured.push_back({"other", 1, {9, 9}, {9, 9}, {9, 9}, 50});
  CHECK(machine.MeasuredTimes("n", 1)->backward_seconds == std::vector<double>{4, 4});
  const std::optional<MeasuredNetwork> between = machine.MeasuredTimes("n", 3);
  CHECK(between->workers == 3);
  CHECK(between->forward_seconds == std::vector<double>{2, 2});
  CHECK(between->backward_seconds == std::vector<double>{6, 4.5});
  CHECK(between->update_seconds == std::vector<double>{0, 1.5});
  for (const int workers : {5, 100}) {
    CHECK(machine.MeasuredTimes("n", workers)->forward_seconds == std::vector<double>{3, 2});
  }
}

TEST_CASE("A server comes with its machines and its bandwidth", "[machine]") {
  Machine machine = Good();
  machine.server_machines = 8;
  CHECK_THROWS_WITH(Validate(machine), Catch::Matchers::Contains("server.bandwidth"));
  machine.server_bytes_per_second = 1e9;
  CHECK_NOTHROW(Validate(machine));
  machine.server_machines = 1.5;
  CHECK_THROWS_WITH(Validate(machine), Catch::Matchers::Contains("server.machines"));
  machine.server_machines = 0;
  CHECK_THROWS_WITH(Validate(machine), Catch::Matchers::Contains("server.machines"));
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
  for (const double links : {0.0, 1.5, 1e4}) {
    machine = Good();
    machine.fabric_links = links;
    CHECK_THROWS_WITH(Validate(machine), Catch::Matchers::Contains("fabric.links"));
  }
}

}  // namespace
}  // namespace batchless::hwmodel
