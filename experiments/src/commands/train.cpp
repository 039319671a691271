#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "batchless/training/mpi_process_group.h"
#include "batchless/training/trainer.h"
#include "commands/commands.h"
#include "config.h"
#include "durable_file.h"
#include "memory.h"
#include "output_file.h"
#include "run_options.h"
#include "together.h"
#include "trace_file.h"
#include "training_run.h"
#include "version.h"
#include "weights_file.h"

namespace batchless {
namespace {

class TrainCommand final : public Command {
 public:
  explicit TrainCommand(CLI::App& root)
      : Command(root, "train", "Train a network",
                R"(DIR gets config.toml (every key), metrics.csv, samples.csv (with log_samples),
summary.json, manifest.json, checkpoint and SHA256SUMS, which `sha256sum -c` reads.
Ctrl-C writes a checkpoint and ends; the same command with --resume goes on to the same
bits.
A row of metrics.csv says how many samples have entered; its train_loss is the mean of
those that have come to the loss since the row before.

Processes that mpirun or srun starts share the stages; with schedule.replicas = R they
are R pipelines that share every mini-batch. Weights and logs are the same bits.

Keys of CONFIG and their defaults (...: it depends on others):

)" + ConfigurationHelp(),
                {"train experiments/configs/resnet20_sgdm.toml --out build/runs/resnet20",
                 "train experiments/configs/resnet20_sgdm.toml --out build/runs/resnet20 --resume",
                 "train experiments/configs/resnet20_sgdm.toml --set run.epochs=1 --set run.seed=2 "
                 "--out build/runs/short --json",
                 "train experiments/configs/resnet20_sgdm.toml --init-only --export-weights "
                 "initial.npz"}) {}

  void Run() override {
    const std::shared_ptr<training::ProcessGroup> processes = training::JoinMpiProcesses();
    const BuildInfo build = GetBuildInfo();
    RequireAlike(processes.get(), {{"batchless --version",
                                    fmt::format("{}, commit {}", build.version, build.commit)}});
    Configuration configuration;
    Together(processes.get(), [&] {
      configuration = LoadConfiguration(
          config_.Text("a configuration file, as in experiments/configs"), overrides_.texts());
      RefuseIf(init_only_.given() && processes != nullptr, "--init-only", "it in several processes",
               "one process");
    });
    if (init_only_.given()) {
      WriteInitialWeights(configuration);
    } else {
      Train(configuration, processes);
    }
  }

  // What no stage computes is in a network of the user's own; keys keep their names.
  UsageError Refused(const analysis::InvalidArgument& error) const override {
    return OptionError(error, {{"network", "network.file"}, {"network.norm", "network.norm"}});
  }

 private:
  // What is in the file of --init, which each of several processes reads.
  std::string InitialContent(bool is_one_of_several) const {
    if (!init_.given() || !is_one_of_several) return "nothing";
    const std::string path = init_.Text("");
    if (const std::string why = WhyUnreadable(path); !why.empty()) {
      throw UsageError("--init", path, fmt::format("{} ({})", kWeightsFile, why));
    }
    return "a file with SHA-256 " + FileDigest(path, std::numeric_limits<std::int64_t>::max());
  }

  void WriteInitialWeights(const Configuration& configuration) {
    out_.Refuse("nothing together with --init-only");
    trace_.Refuse("nothing together with --init-only");
    if (resume_.given()) throw UsageError("--resume", "it", "nothing together with --init-only");
    // Every schedule, rule and optimizer has the same weights: those that keep least besides make them.
    const training::TrainerOptions configured =
        TrainerOptionsOf(configuration, DataShapeOf(configuration)).front();
    training::TrainerOptions options;
    options.network = configured.network;
    options.batch = options.microbatch = configured.microbatch;
    options.seed = configured.seed;
    options.precision = configured.precision;
    options.convolution = configured.convolution;
    RefuseWithoutMemory("network.name", options);
    OutputFile file("--export-weights",
                    export_.Text("a file for the weights, whose name ends in .npz or .safetensors"),
                    kWeightsExtensions);
    const std::unique_ptr<training::Trainer> trainer = training::MakeTrainer(options);
    if (init_.given()) ReadWeights("--init", init_.Text(""), *trainer);
    WriteTensors(file, trainer->ExportWeights(), options.precision);
    const std::string digest = trainer->WeightsSha256();
    if (json()) {
      json().Put({{"network", options.network.name},
                  {"weights", file.path()},
                  {"weights_sha256", digest}});
      return;
    }
    PrintText("{}: initial weights of {}, SHA-256 {}\n", file.path(), options.network.name, digest);
  }

  void Train(const Configuration& configuration,
             const std::shared_ptr<training::ProcessGroup>& processes) {
    const bool leads = processes == nullptr || processes->rank() == 0;
    TrainingRunOptions options;
    options.processes = processes;
    options.configuration = configuration;
    options.resume = resume_.given();
    if (trace_.given()) options.trace = trace_.Text("");
    std::string initial_content;
    Together(processes.get(), [&] { initial_content = InitialContent(processes != nullptr); });
    RequireAlike(processes.get(), {{"--init", initial_content},
                                   {"--export-weights", export_.given() ? "a file" : "nothing"},
                                   {"--trace", trace_.given() ? "a file" : "nothing"},
                                   {"--resume", resume_.given() ? "it" : "nothing"}});
    std::unique_ptr<OutputFile> trace;
    std::unique_ptr<OutputFile> weights;
    Together(processes.get(), [&] {
      options.out = out_.Text("a folder for the run's files");
      if (init_.given()) options.init = init_.Text("");
      if (leads && export_.given()) {
        weights =
            std::make_unique<OutputFile>("--export-weights", export_.Text(""), kWeightsExtensions);
      }
      if (leads && trace_.given()) {
        trace = std::make_unique<OutputFile>("--trace", trace_.Text(""), ".json,.csv");
      }
    });
    TrainingRun run(options);
    const bool was_finished = run.is_finished();
    OrAbort(processes.get(), [&] {
      const Json summary = run.Run();
      if (export_.given()) {
        const std::vector<training::NamedTensor> tensors = run.trainer().ExportWeights();
        if (weights) WriteTensors(*weights, tensors, run.trainer_options().precision);
      }
      if (trace_.given()) {
        const std::vector<training::TraceEvent> events = run.Trace();
        if (trace) WriteTrace(*trace, events);
      }
      if (!leads) return;
      if (json()) {
        json().Put(summary);
      } else {
        PrintSummary(summary, was_finished);
      }
    });
  }

  static void PrintSummary(const Json& summary, bool was_finished) {
    // The validation loss may be no number though the weights are finite; it is shown without a sign.
    const auto number = [&](const char* key) {
      const double value = summary[key].is_number() ? summary[key].get<double>() : NAN;
      return std::isnan(value) ? std::abs(value) : value;
    };
    if (was_finished) PrintText("the run was finished already\n");
    PrintText("{} on {}: {} samples in {:.1f} s, {:.1f} s of it training at {:.0f} samples/s\n",
              summary["network"].get<std::string>(), summary["data"].get<std::string>(),
              summary["samples"].get<std::int64_t>(), number("seconds"), number("training_seconds"),
              number("samples_per_second"));
    if (summary.contains("max_gradient_norm")) {
      PrintText("gradients   clipped stage by stage, to norms of at most {:g}\n",
                number("max_gradient_norm"));
    }
    PrintText("training    loss {:.4f}, accuracy {:.2f} %, in the last row of metrics.csv\n",
              number("train_loss"), 100 * number("train_accuracy"));
    PrintText("validation  loss {:.4f}, accuracy {:.2f} %\n", number("validation_loss"),
              100 * number("validation_accuracy"));
    if (summary.contains("source_bits_per_token")) {
      PrintText("excess      {:.4f} bits a token above the source's {:.4g}\n",
                number("validation_excess_bits_per_token"), number("source_bits_per_token"));
    }
    if (summary.contains("files_left_out")) {
      PrintText("left out    {} files of the folders of images: hidden, or no .jpg or .jpeg\n",
                summary["files_left_out"].get<std::int64_t>());
    }
    PrintText("weights     SHA-256 {}\n", summary["weights_sha256"].get<std::string>());
    PrintText("files       {}\n", summary["out"].get<std::string>());
  }

  Argument config_{app(), "CONFIG", "CONFIG.toml", "Configuration"};
  Argument out_{app(), "--out", "DIR", "Folder for the run's files; required but with --init-only"};
  Argument init_{app(), "--init", "W.npz|safetensors",
                 "Weights to start from, with PyTorch's names and layouts"};
  Argument export_{app(), "--export-weights", "W.npz|safetensors", "Write the final weights"};
  Argument trace_{app(), "--trace", "F.json|csv",
                  "Write what each worker did when in the first samples, for trace viewers or as a "
                  "table"};
  RepeatedArgument overrides_{
      app(), "--set", "section.key=value",
      "Override a key, in a phase alone as phase.N.section.key=value; may be "
      "given several times, once for a key"};
  Flag resume_{app(), "--resume", "Go on with the run in DIR, or start it"};
  Flag init_only_{app(), "--init-only", "Write the initial weights and do not train"};
};

}  // namespace

const CommandMaker kTrainCommand = MakeCommand<TrainCommand>;

}  // namespace batchless
