#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "batchless/hwmodel/core_speed.h"
#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/training/random.h"
#include "batchless/training/sample_source.h"
#include "batchless/training/token_dataset.h"
#include "batchless/training/trainer.h"
#include "commands/commands.h"
#include "machine_file.h"
#include "memory.h"
#include "output_file.h"
#include "stage_timing.h"

namespace batchless {
namespace {

constexpr IntegerRange kRoundsRange{1, 100'000};
constexpr std::string_view kSource = "measured by batchless calibrate";

// Where the system does not say: what most cores have at least.
constexpr std::int64_t kSecondLevelBytes = 256 << 10;
constexpr std::int64_t kThirdLevelBytes = 8 << 20;
constexpr std::int64_t kMemoryBytes = 256 << 20;

// Long enough that a second in which the machine is slow does not decide.
constexpr double kMeasuredSeconds = 5;
// So small that the weights stay what they are.
constexpr double kRate = 1e-9;

// One sample of noise over and over, for networks of any input, as long as nobody wants the work to end:
// Interrupted then.
class Noise final : public training::SampleSource {
 public:
  Noise(const hwmodel::Network& network, const WorkMonitor* monitor)
      : shape_{network.input.channels, network.input.height, network.input.width},
        classes_(network.classes),
        labels_(hwmodel::LabelsOf(network)),
        values_(static_cast<std::size_t>(shape_.size())),
        monitor_(monitor) {
    training::CounterRandom random(1, training::RandomStream::kSynthetic, 0);
    for (float& value : values_) {
      value = labels_ > 1 ? static_cast<float>(random.Below(training::kMarkovVocabulary))
                          : static_cast<float>(2 * random.Uniform() - 1);
    }
  }

  const std::string& name() const override { return name_; }
  const training::ImageShape& shape() const override { return shape_; }
  int classes() const override { return classes_; }
  int Label(std::int64_t /*position*/) const override { return 0; }
  void Read(std::int64_t /*position*/, std::span<float> image) const override {
    CheckStopped(monitor_);
    std::copy(values_.begin(), values_.end(), image.begin());
  }
  int labels_per_sample() const override { return labels_; }

 private:
  void DoReadLabels(std::int64_t /*position*/, std::span<std::int32_t> labels) const override {
    std::fill(labels.begin(), labels.end(), 0);
  }

  std::string name_ = "noise";
  training::ImageShape shape_;
  int classes_;
  int labels_;  // of a sample
  std::vector<float> values_;
  const WorkMonitor* monitor_;
};

// Pipelined backpropagation in its plain form, which the hardware model knows.
training::TrainerOptions PipelineOf(hwmodel::Network network, int microbatch) {
  training::TrainerOptions options;
  const int stages = network.stage_count();
  options.network = std::move(network);
  options.schedule = hwmodel::PipelinedBackpropagation(stages, std::int64_t{2} * stages);
  options.batch = microbatch;
  options.microbatch = microbatch;
  options.samples = microbatch;
  options.learning_rate.base = kRate;
  return options;
}

class CalibrateCommand final : public Command {
 public:
  explicit CalibrateCommand(CLI::App& root)
      : Command(root, "calibrate", "Measure this machine and a network's stages on it",
                R"(Measures one core: its peak of multiply-adds, what it copies a second within each
cache and in memory, and the time of each stage of the network in a pipeline that
trains: with one worker, and with as many as there are cores. Peak and caches count
once for each core, memory for all. The second-level cache is the local memory, the
third-level cache the fabric between cores; its latency is not measured. --out writes
a machine file for throughput, plan and train (schedule.machine). Other programs on
the machine lower what is measured. It takes up to a minute, longer where a
micro-batch takes seconds; fewer --rounds take less.)",
                {"calibrate --network resnet20 --out machine.toml",
                 "calibrate --network resnet20 --microbatch 8 --rounds 20 --json"}) {}

  void Run() override {
    const auto names = hwmodel::NetworkNames();
    const std::string name(names[network_.Choice(names)]);
    const auto microbatch = static_cast<int>(microbatch_.IntegerOr(1, {1, 4096}));
    const std::int64_t rounds = rounds_.IntegerOr(0, kRoundsRange);
    std::optional<OutputFile> out;
    if (out_.given()) out.emplace(out_.name(), out_.Text(""), ".toml");
    const hwmodel::Network network = hwmodel::MakeNetwork({.name = name});
    RefuseWithoutMemory(network_.name(), PipelineOf(network, microbatch));

    hwmodel::Machine machine;
    machine.name = "this machine";
    machine.cores = std::max(1U, std::thread::hardware_concurrency());
    machine.peak_flops_per_second = machine.cores * hwmodel::MeasureFmaPeak();
    const std::int64_t second = Known(hwmodel::CacheBytes(2), kSecondLevelBytes);
    const std::int64_t third = Known(hwmodel::CacheBytes(3), kThirdLevelBytes);
    machine.local_memory_bytes = machine.cores * static_cast<double>(second);
    CheckStopped(monitor());
    machine.local_bytes_per_second = machine.cores * hwmodel::MeasureCopyBandwidth(second / 2);
    CheckStopped(monitor());
    machine.fabric_links = 1;  // through the cache every core reaches every other
    machine.fabric_bytes_per_second =
        machine.cores * hwmodel::MeasureCopyBandwidth(std::min(third / 2, kMemoryBytes));
    CheckStopped(monitor());
    machine.shared_memory_bytes = AvailableMemoryBytes().value_or(1e9);
    machine.shared_bytes_per_second = hwmodel::MeasureCopyBandwidth(kMemoryBytes);
    machine.measured =
        Measure(PipelineOf(network, microbatch), static_cast<int>(machine.cores), rounds);
    Validate(machine);

    if (out) out->Write(MachineText(machine, kSource));
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

  // 0 rounds: as many as take some seconds.
  hwmodel::MeasuredNetwork MeasureFor(const training::TrainerOptions& options,
                                      std::int64_t rounds) const {
    const Noise source(options.network, monitor());
    if (rounds > 0) return MeasureStages(options, source, rounds);
    const double seconds = Total(MeasureStages(options, source, 1)) / options.workers;
    const double fitting =
        std::clamp(kMeasuredSeconds / seconds, 1.0, static_cast<double>(kRoundsRange.high));
    return MeasureStages(options, source, static_cast<std::int64_t>(fitting));
  }

  std::vector<hwmodel::MeasuredNetwork> Measure(training::TrainerOptions options, int cores,
                                                std::int64_t rounds) const {
    std::vector<hwmodel::MeasuredNetwork> measured = {MeasureFor(options, rounds)};
    options.workers = std::min(cores, options.network.stage_count());
    options.stage_costs = StageCosts(measured.front(), options);
    if (options.workers > 1) measured.push_back(MeasureFor(options, rounds));
    return measured;
  }

  static double Total(const hwmodel::MeasuredNetwork& measured) {
    double seconds = 0;
    for (std::size_t s = 0; s < measured.forward_seconds.size(); ++s) {
      seconds +=
          measured.forward_seconds[s] + measured.backward_seconds[s] + measured.update_seconds[s];
    }
    return seconds;
  }

  static Json Seconds(const hwmodel::MeasuredNetwork& measured) {
    return {{"seconds_per_microbatch", Total(measured)},
            {"forward_seconds", measured.forward_seconds},
            {"backward_seconds", measured.backward_seconds},
            {"update_seconds", measured.update_seconds}};
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
    object.update(Seconds(measured));
    object["shared"] = nullptr;
    if (machine.measured.size() > 1) {
      const hwmodel::MeasuredNetwork& shared = machine.measured.back();
      object["shared"] = {{"workers", shared.workers}};
      object["shared"].update(Seconds(shared));
    }
    if (out_.given()) object["out"] = out_.Text("");
    json().Put(object);
  }

  static void ReportText(const hwmodel::Network& network, const hwmodel::Machine& machine) {
    const hwmodel::MeasuredNetwork& measured = machine.measured.front();
    PrintText("{} cores, {} stages of {}, micro-batches of {}\n", machine.cores,
              network.stage_count(), network.name, measured.microbatch);
    PrintText("  peak, all cores       {:.4g} FLOP/s\n", machine.peak_flops_per_second);
    PrintText("  second-level caches   {}, {:.4g} B/s\n", BytesText(machine.local_memory_bytes),
              machine.local_bytes_per_second);
    PrintText("  third-level caches    {:.4g} B/s\n", machine.fabric_bytes_per_second);
    PrintText("  memory                {}, {:.4g} B/s\n", BytesText(machine.shared_memory_bytes),
              machine.shared_bytes_per_second);
    PrintText("  a micro-batch         {:.4g} s on one core", Total(measured));
    if (machine.measured.size() > 1) {
      const hwmodel::MeasuredNetwork& shared = machine.measured.back();
      PrintText("; {:.4g} s in all on {} that share it", Total(shared), shared.workers);
    }
    PrintText("\n\n");
    PrintText("{:>5} {:>10} {:>10} {:>10}  {}\n", "stage", "forward", "backward", "update", "name");
    for (std::size_t s = 0; s < measured.forward_seconds.size(); ++s) {
      PrintText("{:>5} {:>10.4g} {:>10.4g} {:>10.4g}  {}\n", s, measured.forward_seconds[s],
                measured.backward_seconds[s], measured.update_seconds[s], network.stages[s].name);
    }
  }

  Argument network_{app(), "--network", "N",
                    fmt::format("{}; required", fmt::join(hwmodel::NetworkNames(), "|"))};
  Argument microbatch_{app(), "--microbatch", "B", "Samples that go through together (default: 1)"};
  Argument rounds_{app(), "--rounds", "R",
                   "Micro-batches of the full pipeline whose median counts (default: 5 s of them)"};
  Argument out_{app(), "--out", "F.toml", "Write the machine to this file"};
};

}  // namespace

const CommandMaker kCalibrateCommand = MakeCommand<CalibrateCommand>;

}  // namespace batchless
