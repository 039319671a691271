#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "argument.h"
#include "batchless/hwmodel/fma_peak.h"
#include "batchless/hwmodel/memory_bandwidth.h"
#include "batchless/hwmodel/network.h"
#include "commands/commands.h"
#include "machine_file.h"
#include "memory.h"
#include "output_file.h"
#include "stage_timing.h"

namespace batchless {
namespace {

constexpr IntegerRange kMicrobatchRange{1, 4096};
constexpr IntegerRange kRoundsRange{1, 100'000};
constexpr std::array<std::string_view, 1> kExtensions = {".toml"};
constexpr std::string_view kSource = "measured by batchless calibrate";

// Where the system does not say: what most cores have at least.
constexpr std::int64_t kSecondLevelBytes = 256 << 10;
constexpr std::int64_t kThirdLevelBytes = 8 << 20;
constexpr std::int64_t kMemoryBytes = 256 << 20;

class CalibrateCommand final : public Command {
 public:
  explicit CalibrateCommand(CLI::App& root)
      : Command(
            root, "calibrate", "Measure this machine and a network's stages on it",
            "Measures one core: its peak of multiply-adds, what it copies a second within each\n"
            "cache and in memory, and the time of each stage of the network by the trainer's\n"
            "kernels, alone on its core. Peak and caches count once for each core, memory for\n"
            "all. The second-level cache is the local memory, the third-level cache the fabric\n"
            "between cores; its latency is not measured. --out writes a machine file for\n"
            "throughput and plan. Other programs on the machine lower what is measured.",
            {"calibrate --network resnet20 --out machine.toml",
             "calibrate --network vgg11 --microbatch 8 --json"}),
        network_(app(), "--network", "N",
                 fmt::format("{}; required", fmt::join(hwmodel::NetworkNames(), "|"))),
        microbatch_(app(), "--microbatch", "B", "Samples that go through together (default: 1)"),
        rounds_(app(), "--rounds", "R",
                "Passes through the network, of which the median counts (default: 15)"),
        out_(app(), "--out", "F.toml", "Write the machine to this file") {}

  void Run() override {
    const auto names = hwmodel::NetworkNames();
    const std::string name(names[network_.Choice(names)]);
    const auto microbatch = static_cast<int>(microbatch_.IntegerOr(1, kMicrobatchRange));
    const auto rounds = static_cast<int>(rounds_.IntegerOr(15, kRoundsRange));
    std::optional<OutputFile> out;
    if (out_.given()) out.emplace(out_.name(), out_.Text(""), kExtensions);
    const hwmodel::Network network = hwmodel::MakeNetwork({.name = name});

    hwmodel::Machine machine;
    machine.name = "this machine";
    machine.cores = std::max(1U, std::thread::hardware_concurrency());
    machine.peak_flops_per_second = machine.cores * hwmodel::MeasureFmaPeak();
    const std::int64_t second = Known(hwmodel::CacheBytes(2), kSecondLevelBytes);
    const std::int64_t third = Known(hwmodel::CacheBytes(3), kThirdLevelBytes);
    machine.local_memory_bytes = machine.cores * static_cast<double>(second);
    machine.local_bytes_per_second = machine.cores * hwmodel::MeasureCopyBandwidth(second / 2);
    machine.fabric_bytes_per_second =
        machine.cores * hwmodel::MeasureCopyBandwidth(std::min(third / 2, kMemoryBytes));
    machine.shared_memory_bytes = AvailableMemoryBytes().value_or(1e9);
    machine.shared_bytes_per_second = hwmodel::MeasureCopyBandwidth(kMemoryBytes);
    machine.measured.push_back(MeasureStages(network, microbatch, rounds));
    Validate(machine);

    if (out) {
      TextOutput output(out->temporary_path(), out->path());
      output.Print("{}", MachineText(machine, kSource));
      output.Close();
      out->Commit();
    }
    if (json()) {
      ReportJson(machine);
    } else {
      ReportText(network, machine);
    }
  }

 private:
  static std::int64_t Known(std::int64_t bytes, std::int64_t otherwise) {
    return bytes > 0 ? bytes : otherwise;
  }

  static double Total(const hwmodel::MeasuredNetwork& measured) {
    double seconds = 0;
    for (std::size_t s = 0; s < measured.forward_seconds.size(); ++s) {
      seconds +=
          measured.forward_seconds[s] + measured.backward_seconds[s] + measured.update_seconds[s];
    }
    return seconds;
  }

  void ReportJson(const hwmodel::Machine& machine) const {
    const hwmodel::MeasuredNetwork& measured = machine.measured.front();
    Json object;
    object["network"] = measured.network;
    object["microbatch"] = measured.microbatch;
    object["cores"] = machine.cores;
    object["peak_flops_per_second"] = machine.peak_flops_per_second;
    object["local_memory_bytes"] = machine.local_memory_bytes;
    object["local_bytes_per_second"] = machine.local_bytes_per_second;
    object["fabric_bytes_per_second"] = machine.fabric_bytes_per_second;
    object["shared_memory_bytes"] = machine.shared_memory_bytes;
    object["shared_bytes_per_second"] = machine.shared_bytes_per_second;
    object["seconds_per_microbatch"] = Total(measured);
    object["forward_seconds"] = measured.forward_seconds;
    object["backward_seconds"] = measured.backward_seconds;
    object["update_seconds"] = measured.update_seconds;
    if (out_.given()) object["out"] = out_.Text("");
    PrintJson(object);
  }

  static void ReportText(const hwmodel::Network& network, const hwmodel::Machine& machine) {
    const hwmodel::MeasuredNetwork& measured = machine.measured.front();
    TextOutput output;
    output.Print("{} cores, {} stages of {}, micro-batches of {}\n", machine.cores,
                 network.stage_count(), network.name, measured.microbatch);
    output.Print("  peak, all cores       {:.4g} FLOP/s\n", machine.peak_flops_per_second);
    output.Print("  second-level caches   {}, {:.4g} B/s\n", BytesText(machine.local_memory_bytes),
                 machine.local_bytes_per_second);
    output.Print("  third-level caches    {:.4g} B/s\n", machine.fabric_bytes_per_second);
    output.Print("  memory                {}, {:.4g} B/s\n", BytesText(machine.shared_memory_bytes),
                 machine.shared_bytes_per_second);
    output.Print("  a micro-batch         {:.4g} s on one core\n\n", Total(measured));
    output.Print("{:>5} {:>10} {:>10} {:>10}  {}\n", "stage", "forward", "backward", "update",
                 "name");
    for (std::size_t s = 0; s < measured.forward_seconds.size(); ++s) {
      output.Print("{:>5} {:>10.4g} {:>10.4g} {:>10.4g}  {}\n", s, measured.forward_seconds[s],
                   measured.backward_seconds[s], measured.update_seconds[s],
                   network.stages[s].name);
    }
    output.Close();
  }

  Argument network_;
  Argument microbatch_;
  Argument rounds_;
  Argument out_;
};

}  // namespace

std::unique_ptr<Command> MakeCalibrateCommand(CLI::App& root) {
  return std::make_unique<CalibrateCommand>(root);
}

}  // namespace batchless
