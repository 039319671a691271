#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "batchless/hwmodel/planner.h"
#include "batchless/hwmodel/published_runs.h"
#include "batchless/hwmodel/transformer_step.h"
#include "commands/commands.h"
#include "workload_argument.h"

namespace batchless {
namespace {

using hwmodel::BlockOptions;
using hwmodel::Recomputation;

constexpr std::string_view kSeconds = "step seconds";
constexpr std::string_view kActivations = "activations GiB";
constexpr std::string_view kShare = "activations %";
constexpr std::string_view kSpeedup = "speedup";
constexpr std::string_view kDefaultFit = "megatron-22B,turing-530B";
constexpr double kGib = 0x1p30;
constexpr std::int64_t kBatch = 128;  // Zhang and Abdelrahman's

struct Setting {
  std::string_view name;
  BlockOptions options;
};
constexpr Setting kPlain{"nothing recomputed", {}};
constexpr Setting kSequence{"sequence parallel", {.sequence_parallel = true}};
constexpr Setting kAttention{"attention recomputed", {.recomputation = Recomputation::kAttention}};
constexpr Setting kBoth{"sequence parallel, attention recomputed",
                        {.recomputation = Recomputation::kAttention, .sequence_parallel = true}};
constexpr Setting kFull{"all recomputed", {.recomputation = Recomputation::kFull}};

struct ValidationRow {
  std::string_view name;
  std::string_view quantity;
  std::string_view setting;
  double predicted = 0;
  double measured = 0;
  bool fitted = false;

  double error() const { return predicted / measured - 1; }
};

// Relative, of the seconds that were not fitted, of which there may be none.
struct Errors {
  double mean = 0;
  double worst = 0;
};

std::optional<Errors> ErrorsOf(const std::vector<ValidationRow>& rows) {
  Errors errors;
  int count = 0;
  for (const ValidationRow& row : rows) {
    if (row.fitted || row.quantity != kSeconds) continue;
    errors.mean += std::abs(row.error());
    errors.worst = std::max(errors.worst, std::abs(row.error()));
    ++count;
  }
  if (count == 0) return std::nullopt;
  errors.mean /= count;
  return errors;
}

class ValidateCommand final : public Command {
 public:
  explicit ValidateCommand(CLI::App& root)
      : Command(
            root, "validate", "Hold the hardware model to published runs",
            "Four language models of 22 to 1,000 billion parameters on 8 to 512 A100s: seconds of\n"
            "a step and gibibytes of a GPU, predicted beside measured (arXiv 2205.05198, at "
            "second\n"
            "hand). Two efficiencies, of computing and of moving bytes, are fitted to the seconds\n"
            "of the runs in --fit; the others are predictions. With --hardware also how much\n"
            "faster ResNets train on two such machines than on one (doi\n"
            "10.1155/2021/3839543, table 5; whose GPUs are not known here).\n",
            {"validate", "validate --fit gpt3-175B,megatron-1T --out validation.csv",
             "validate --hardware hwmodel/machines/v100.toml --json"}) {}

  void Run() override {
    const std::vector<bool> fitted = ReadFit();
    std::optional<hwmodel::Machine> machine;
    if (hardware_.given()) machine = MachineOf(hardware_);
    TableOutput table(out_);
    const hwmodel::Efficiencies efficiencies = Fit(fitted);
    std::vector<ValidationRow> rows;
    const auto runs = hwmodel::PublishedTransformers();
    for (std::size_t i = 0; i < runs.size(); ++i) AddTimes(runs[i], efficiencies, fitted[i], rows);
    for (const hwmodel::PublishedTransformer& run : runs) AddMemory(run, rows);
    if (machine) AddSpeedups(*machine, rows);
    const auto row = [&](std::size_t i) -> Json {
      return {{"name", rows[i].name},         {"quantity", rows[i].quantity},
              {"setting", rows[i].setting},   {"predicted", rows[i].predicted},
              {"measured", rows[i].measured}, {"error", rows[i].error()},
              {"fitted", rows[i].fitted}};
    };
    const std::optional<Errors> times = ErrorsOf(rows);
    if (json() || table.has_file()) {
      table.Report(json(),
                   {{"compute_efficiency", efficiencies.compute},
                    {"bandwidth_efficiency", efficiencies.bandwidth},
                    {"mean_time_error", times ? Json(times->mean) : Json(nullptr)},
                    {"worst_time_error", times ? Json(times->worst) : Json(nullptr)}},
                   "name,quantity,setting,predicted,measured,error,fitted", rows.size(), row);
      return;
    }
    PrintText("{:<12}  {:<15}  {:<39} {:>10} {:>10} {:>8}\n", "name", "quantity", "setting",
              "predicted", "measured", "error");
    for (const ValidationRow& r : rows) {
      PrintText("{:<12}  {:<15}  {:<39} {:>10.4f} {:>10.4f} {:>6.1f} %{}\n", r.name, r.quantity,
                r.setting, r.predicted, r.measured, 100 * r.error(), r.fitted ? "  fitted" : "");
    }
    PrintText("\nefficiencies, fitted: {:.4f} of computing, {:.4f} of moving bytes\n",
              efficiencies.compute, efficiencies.bandwidth);
    if (!times) {
      PrintText("seconds that were not fitted: none\n");
      return;
    }
    PrintText("seconds that were not fitted: off by {:.1f} % on average, {:.1f} % at most\n",
              100 * times->mean, 100 * times->worst);
  }

  UsageError Refused(const analysis::InvalidArgument& error) const override {
    return ModelError(hardware_, error);
  }

 private:
  // By run.
  std::vector<bool> ReadFit() const {
    const auto runs = hwmodel::PublishedTransformers();
    std::vector<std::string_view> names;
    for (const hwmodel::PublishedTransformer& run : runs) names.push_back(run.run.name);
    std::vector<bool> fitted(runs.size());
    const std::string text = fit_.given() ? fit_.Text("") : std::string(kDefaultFit);
    const std::string accepted = fmt::format("two or more of {}", fmt::join(names, ", "));
    for (const std::string_view name : SplitList(text)) {
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end()) throw UsageError(fit_.name(), text, accepted);
      fitted[static_cast<std::size_t>(found - names.begin())] = true;
    }
    RefuseIf(std::count(fitted.begin(), fitted.end(), true) < 2, fit_.name(), text, accepted);
    return fitted;
  }

  static hwmodel::Efficiencies Fit(const std::vector<bool>& fitted) {
    std::vector<hwmodel::MeasuredStep> steps;
    const auto runs = hwmodel::PublishedTransformers();
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (!fitted[i]) continue;
      steps.push_back({runs[i].run, kFull.options, runs[i].full_seconds});
      steps.push_back({runs[i].run, kBoth.options, runs[i].attention_seconds});
    }
    return hwmodel::FitEfficiencies(steps, hwmodel::PublishedNode());
  }

  static void AddTimes(const hwmodel::PublishedTransformer& published,
                       const hwmodel::Efficiencies& efficiencies, bool fitted,
                       std::vector<ValidationRow>& rows) {
    const hwmodel::Machine node = hwmodel::PublishedNode();
    const auto add = [&](const Setting& setting, double seconds) {
      rows.push_back({published.run.name, kSeconds, setting.name,
                      PredictStepSeconds(published.run, setting.options, node, efficiencies),
                      seconds, fitted});
    };
    add(kFull, published.full_seconds);
    add(kBoth, published.attention_seconds);
  }

  static void AddMemory(const hwmodel::PublishedTransformer& published,
                        std::vector<ValidationRow>& rows) {
    const auto kept = [&](const Setting& setting) {
      return PredictActivationBytes(published.run, setting.options);
    };
    const auto add = [&](std::string_view quantity, const Setting& setting, double unit,
                         double measured) {
      rows.push_back({published.run.name, quantity, setting.name, kept(setting) / unit, measured});
    };
    const double percent = kept(kPlain) / 100;
    rows.push_back({published.run.name, "weights GiB", "with gradients and optimizer",
                    PredictWeightBytes(published.run) / kGib, published.weight_gib});
    add(kActivations, kPlain, kGib, published.activation_gib);
    add(kActivations, kBoth, kGib, published.attention_gib);
    add(kShare, kSequence, percent, published.sequence_percent);
    add(kShare, kAttention, percent, published.again_percent);
    add(kShare, kBoth, percent, published.both_percent);
    add(kShare, kFull, percent, published.full_percent);
  }

  static void AddSpeedups(const hwmodel::Machine& machine, std::vector<ValidationRow>& rows) {
    for (const hwmodel::PublishedSpeedup& published : hwmodel::PublishedSpeedups()) {
      const hwmodel::Workload workload =
          hwmodel::MakeWorkload(published.network, static_cast<int>(machine.number_bytes));
      hwmodel::PlanOptions options{.scheme = "pb", .machines = 1, .batch = kBatch};
      const double one = MakePlan(workload, machine, options).samples_per_second;
      options.machines = 2;
      options.group_ends = {published.cut, workload.stage_count()};
      const double speedup = MakePlan(workload, machine, options).samples_per_second / one;
      rows.push_back({published.network, kSpeedup, "two machines", speedup, published.pipelined()});
      // Half of the samples at each rate.
      rows.push_back({published.network, kSpeedup, "two machines, half pipelined",
                      2 / (1 + 1 / speedup), published.hybrid()});
    }
  }

  Argument fit_{
      app(), "--fit", "RUNS",
      fmt::format("Those whose seconds the efficiencies are fitted to (default: {})", kDefaultFit)};
  Argument hardware_{app(), "--hardware", "F.toml",
                     "Machine file, as in hwmodel/machines, for the speedups"};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
};

}  // namespace

const CommandMaker kValidateCommand = MakeCommand<ValidateCommand>;

}  // namespace batchless
