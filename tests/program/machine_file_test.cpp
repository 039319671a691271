// Machine files: what is read, and what is refused in one line.
#include "machine_file.h"

#include <filesystem>

#include "catch.h"
#include "refusal.h"
#include "run_program.h"
#include "usage_error.h"

namespace batchless {
using hwmodel::Dimension;
using hwmodel::Machine;

namespace {

const std::string kGood =
    "name = \"m\"\n"
    "[compute]\n"
    "cores = { value = 10, source = \"s\" }\n"
    "peak = { value = \"2 TFLOP/s\", source = \"s\" }\n"
    "number = { value = \"2 B\", source = \"s\" }\n"
    "[local]\n"
    "memory = { value = \"48 KiB\", source = \"s\" }\n"
    "bandwidth = { value = \"8 Gb/s\", source = \"s\" }\n";

std::string Error(const std::string& text) {
  return test::MessageOf<UsageError>([&] { static_cast<void>(ParseMachine(text, "f.toml")); });
}

// The good file with one line in place of another.
std::string With(const std::string& line, const std::string& other) {
  std::string text = kGood;
  const std::size_t at = text.find(line);
  REQUIRE(at != std::string::npos);
  return text.replace(at, text.find('\n', at) - at, other);
}

}  // namespace

TEST_CASE("Numbers come with their units") {
  const Machine machine = ParseMachine(kGood, "f.toml");
  CHECK(machine.name == "m");
  CHECK(machine.cores == 10);
  CHECK(machine.peak_flops_per_second == 2e12);
  CHECK(machine.number_bytes == 2);
  CHECK(machine.local_memory_bytes == 48 * 1024);
  CHECK(machine.local_bytes_per_second == 1e9);
  CHECK_FALSE(machine.energy);
  CHECK(ParseQuantity("q", "1.5pJ/FLOP", Dimension::kJoulesPerFlop) == 1.5e-12);
  CHECK(ParseQuantity("q", "1 pJ/b", Dimension::kJoulesPerByte) == 8e-12);
  CHECK(ParseQuantity("q", "5 us", Dimension::kSeconds) == Approx(5e-6).epsilon(1e-15));
  CHECK(ParseQuantity("q", "220 Pb/s", Dimension::kBytesPerSecond) == 27.5e15);
  CHECK(ParseQuantity("q", "7", Dimension::kCount) == 7);
}

TEST_CASE("What is no such quantity is refused") {
  for (const char* text : {"", "GB", "40", "40 ", "40 GB/s", "40 GX", "40 XB", "40 mB", "40 nB",
                           "x GB", "nan GB", "inf GB", "-1 GB", "40 GB B", "1e999 B"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(ParseQuantity("q", text, Dimension::kBytes), UsageError);
  }
  CHECK_THROWS_AS(ParseQuantity("q", "4 B", Dimension::kCount), UsageError);
  CHECK_THROWS_AS(ParseQuantity("q", "4 mB/s", Dimension::kBytesPerSecond), UsageError);
  CHECK_THROWS_AS(ParseQuantity("q", "4 mFLOP/s", Dimension::kFlopsPerSecond), UsageError);
}

TEST_CASE("A machine file that is none is refused with line, field and what is accepted") {
  CHECK(Error(With("cores =", "cores = 10")) ==
        "f.toml:3: compute.cores: got 10, accepted: { value = ..., source = \"...\" }");
  CHECK(Error(With("cores =", "cores = { value = 10 }")) ==
        "f.toml:3: compute.cores.source: got nothing, accepted: a text that says where the number "
        "is from");
  CHECK(Error(With("peak =", "peak = { value = 20, source = \"s\" }")) ==
        "f.toml:4: compute.peak: got 20 without a unit, accepted: a text with its unit, \"1.5 "
        "TFLOP/s\" for instance");
  CHECK(Error(With("peak =", "peak = { value = \"2 TFLOP\", source = \"s\" }"))
            .find("f.toml:4: compute.peak: got 2 TFLOP, accepted: ") == 0);
  CHECK(Error(With("memory =", "memory = { value = \"-1 B\", source = \"s\" }"))
            .find("f.toml:7: local.memory: got -1 B, accepted: a number that is not negative") ==
        0);
  CHECK(Error(With("memory =", "memry = { value = \"1 B\", source = \"s\" }")) ==
        "f.toml:7: local.memry: got an unknown field, accepted: memory, bandwidth (did you mean "
        "memory?)");
  CHECK(Error(With("[local]", "[lokal]")).find("f.toml:6: lokal: got an unknown field") == 0);
  CHECK(Error(With("cores =", "")) == "f.toml: compute.cores: got nothing, accepted: a number");
  CHECK(Error(With("bandwidth =", "")).find("f.toml: local.bandwidth: got nothing") == 0);
  CHECK(Error(With("name =", "")) == "f.toml: name: got nothing, accepted: a text");
  CHECK(Error(With("cores =", "cores = { value = -3, source = \"s\" }")).find("compute.cores") !=
        std::string::npos);
  CHECK(Error(With("cores =", "cores = { value = 3, source = \"s\", sauce = 1 }"))
            .find("compute.cores.sauce: got an unknown field") != std::string::npos);
  // An integer between two doubles.
  CHECK(Error(With("cores =", "cores = { value = 9007199254740993, source = \"s\" }")) ==
        "f.toml: compute.cores: got 9007199254740992, accepted: an integer from 1 to 1e8");
  CHECK(Error("name = [").find("f.toml:1: got ") == 0);
  // Energies come all together.
  CHECK(Error(kGood + "[energy]\nflop = { value = \"1 pJ/FLOP\", source = \"s\" }\n") ==
        "f.toml: energy.local: got nothing, accepted: a text with its unit, \"10 pJ/B\" for "
        "instance");
}

TEST_CASE("Measured times are as many as there are stages") {
  const std::string measured =
      "[measured.linear]\nsource = \"s\"\nmicrobatch = 2\nforward_seconds = [1, 2]\n"
      "backward_seconds = [3, 4]\n";
  const Machine machine = ParseMachine(kGood + measured + "update_seconds = [5, 0.5]\n", "f.toml");
  REQUIRE(machine.measured.size() == 1);
  CHECK(machine.measured[0].backward_seconds == std::vector<double>{3, 4});
  CHECK(machine.measured[0].microbatch == 2);
  CHECK(machine.measured[0].sample_flops == 0);
  CHECK(Error(kGood + "[measured.linear]\nsource = \"s\"\nforward_seconds = [0, 0]\n"
                      "backward_seconds = [0, 0]\nupdate_seconds = [1, 0]\n") ==
        "f.toml:9: measured.linear: got 0 s for all passes, accepted: passes of which one takes "
        "time");
  const std::string last = measured + "update_seconds = [5, 0.5]\nsample_flops = ";
  CHECK(ParseMachine(kGood + last + "7\n", "f.toml").measured[0].sample_flops == 7);
  CHECK(Error(kGood + last + "0\n")
            .ends_with("measured.linear.sample_flops: got 0, accepted: an integer >= 1"));
  const std::string shared =
      "update_seconds = [5, 0.5]\n[measured.linear.shared]\nsource = \"s\"\n";
  const std::string times =
      "forward_seconds = [2, 2]\nbackward_seconds = [3, 8]\nupdate_seconds = [6, 0.5]\n";
  const auto error = [&](const std::string& text) {
    return Error(kGood + measured + shared + text).substr(std::string("f.toml:19: ").size());
  };
  const Machine both =
      ParseMachine(kGood + measured + shared + "workers = 4\nmicrobatch = 2\n" + times, "f.toml");
  CHECK(both.measured.size() == 2);
  CHECK(both.measured[0].workers == 1);
  CHECK(both.measured[1].workers == 4);
  CHECK(error("microbatch = 2\n" + times).find("measured.linear.shared.workers: got nothing") !=
        std::string::npos);
  CHECK(error("workers = 1\n" + times).find("shared.workers: got 1, accepted: an integer from 2") !=
        std::string::npos);
  CHECK(
      error("workers = 2\nmicrobatch = 3\n" + times)
          .find(
              "got 2 stages, micro-batches of 3, accepted: the 2 stages and micro-batches of 2") !=
      std::string::npos);
  CHECK(Error(kGood + measured + "update_seconds = [5]\n").find("measured.linear: got 2 forward") !=
        std::string::npos);
  CHECK(Error(kGood + measured + "update_seconds = [5, -1]\n").find("measured.linear.update") !=
        std::string::npos);
  CHECK(Error(kGood + "[measured.linear]\nforward = [1]\n").find("an unknown field") !=
        std::string::npos);
  const std::string other = Error(kGood + "[measured.lenet6]\nforward = [1]\n");
  CHECK(other.find("f.toml:9: measured.lenet6: got an unknown network, accepted: resnet20") == 0);
  CHECK(other.ends_with("(did you mean lenet5?)"));
}

TEST_CASE("What is written reads back as the same machine") {
  Machine machine = ParseMachine(kGood, "f.toml");
  machine.energy = hwmodel::MachineEnergy{1e-12, 2e-12, 3e-12, 4e-12};
  machine.launch_seconds = 1.0 / 3;
  machine.measured.push_back({"linear", 3, {0.1, 0.2}, {1.0 / 3, 1}, {0, 1e-9}});
  machine.measured[0].sample_flops = 9'007'199'254'740'993;
  machine.measured.push_back({"linear", 3, {0.2, 0.2}, {1.0 / 3, 2}, {0, 1e-9}, 8});
  const Machine again = ParseMachine(MachineText(machine, "test"), "g.toml");
  for (const hwmodel::MachineField& field : hwmodel::MachineFields()) {
    CAPTURE(field.section, field.name);
    if (field.member != nullptr) {
      CHECK(machine.*field.member == again.*field.member);
    } else {
      CHECK((*machine.energy).*field.energy_member == (*again.energy).*field.energy_member);
    }
  }
  CHECK(again.measured[0].backward_seconds == machine.measured[0].backward_seconds);
  CHECK(again.measured[0].microbatch == 3);
  CHECK(again.measured[0].sample_flops == machine.measured[0].sample_flops);
  REQUIRE(again.measured.size() == 2);
  CHECK(again.measured[0].workers == 1);
  CHECK(again.measured[1].workers == 8);
  CHECK(again.measured[1].forward_seconds == machine.measured[1].forward_seconds);
}

TEST_CASE("Every machine of the repository reads") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("hwmodel/machines")) {
    CAPTURE(entry.path());
    const Machine machine = ReadMachineFile("--hardware", entry.path().string());
    CHECK(machine.peak_flops_per_second / machine.cores > 1e8);
    ++files;
  }
  CHECK(files >= 9);
}

}  // namespace batchless
