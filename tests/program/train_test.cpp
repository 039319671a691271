// Training from configuration to summary: what it writes, and that nothing but the configuration
// decides what is in it, whenever the program ended and went on.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <tuple>

#include "batchless/training/backend.h"
#include "batchless/training/dataset.h"
#include "batchless/training/sha256.h"
#include "catch.h"
#include "config.h"
#include "npz.h"
#include "result.h"
#include "run_program.h"

using namespace batchless::test;
using batchless::training::NamedTensor;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr int kTrainSize = 200;
constexpr int kValidationSize = 50;

// Small enough for a run in a fraction of a second, with events that do not fall together.
constexpr const char* kConfiguration = R"(
[network]
name = "mlp"
hidden = [16]
[data]
name = "cifar10"
root = "data"
[optimizer]
batch = 8
lr = 0.01
weight_decay = 1e-4
decay_points = [0.5]
[run]
epochs = 5
checkpoint_every_samples = 48
log_every_samples = 60
log_samples = true
)";

// Another schedule, rule, rate, optimizer and batch on the way.
constexpr const char* kPhases = R"(
[[phase]]
until = 0.3
schedule.kind = "pb"
schedule.microbatch = 8
rule.name = "lwp-v+sc"
[[phase]]
until = 0.6
schedule.kind = "fill-drain"
schedule.workers = 2
optimizer.lr = 0.02
[[phase]]
optimizer.kind = "adam"
optimizer.batch = 12
optimizer.lr = 0.001
)";

struct TinyData {
  TinyData() {
    const std::string sizes = "--train-size " + std::to_string(kTrainSize) + " --validation-size " +
                              std::to_string(kValidationSize);
    REQUIRE(Run(Words("data synth --out . " + sizes), folder.path()).exit_code == 0);
  }

  TemporaryFolder folder;
};

// A folder with that configuration and its data.
class Workplace {
 public:
  Workplace() {
    WriteFile(folder_ / "run.toml", kConfiguration);
    WriteFile(folder_ / "phases.toml", std::string(kConfiguration) + kPhases);
    static const TinyData data;
    fs::create_directory_symlink(data.folder.path(), folder_ / "data");
  }

  const fs::path& path() const { return folder_.path(); }
  std::string operator/(const std::string& name) const { return folder_ / name; }
  Outcome Call(const std::string& line) const { return Run(Words(line), folder_.path()); }

  // Trains into the folder `out` and returns the summary.
  Json Train(const std::string& out, const std::string& options = "") const {
    return Ask("train run.toml --out " + out + " " + options);
  }
  Json Ask(const std::string& line) const { return Result(line, folder_.path()); }
  void CheckRefused(const std::string& line, const std::string& part) const {
    CheckRefusal(line, part, folder_.path());
  }

 private:
  TemporaryFolder folder_;
};

// What has to be the same however a run came to its end.
struct Files {
  std::string weights;
  std::string metrics;
  std::string samples;

  bool operator==(const Files&) const = default;
};

Files ResultOf(const Workplace& workplace, const std::string& out) {
  return {Json::parse(ReadFile(workplace / (out + "/summary.json")))["weights_sha256"],
          ReadFile(workplace / (out + "/metrics.csv")),
          ReadFile(workplace / (out + "/samples.csv"))};
}

// Waits until it holds; only a program that hangs takes minutes.
template <class Condition>
void WaitUntil(Condition condition) {
  const auto hung = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!condition() && std::chrono::steady_clock::now() < hung) Sleep(10);
  REQUIRE(condition());
}

}  // namespace

TEST_CASE("a run leaves its files, with the rows that its intervals ask for") {
  const Workplace workplace;
  const Json summary = workplace.Train("a");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(workplace / "a")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"SHA256SUMS", "checkpoint", "config.toml",
                                          "manifest.json", "metrics.csv", "samples.csv",
                                          "summary.json"});

  const auto metrics = CsvRows(ReadFile(workplace / "a/metrics.csv"));
  CHECK(metrics[0] == Split("samples,epoch,learning_rate,train_loss,train_accuracy,"
                            "validation_loss,validation_accuracy",
                            ','));
  // The first whole mini-batch of 8 at or after each multiple of 60 (log) or 200 (validation).
  std::set<int> logged = {1000};
  std::set<int> validated = {1000};
  for (int i = 60; i < 1000; i += 60) logged.insert((i + 7) / 8 * 8);
  for (int i = 200; i < 1000; i += 200) validated.insert(i);
  std::set<int> all = logged;
  all.insert(validated.begin(), validated.end());
  REQUIRE(metrics.size() == 1 + all.size());
  std::size_t i = 1;
  for (const int samples : all) {
    const std::vector<std::string>& row = metrics[i++];
    INFO(samples);
    REQUIRE(row.size() == 7);
    CHECK(row[0] == std::to_string(samples));
    CHECK(std::stod(row[1]) == samples / 200.0);
    // The rate of the last update: it drops for the one that begins at sample 500 or later.
    CHECK(std::stod(row[2]) == (samples - 8 >= 500 ? 0.01 * 0.1 : 0.01));
    CHECK(row[3].empty() == !logged.contains(samples));
    CHECK(row[4].empty() == !logged.contains(samples));
    CHECK(row[5].empty() == !validated.contains(samples));
    CHECK(row[6].empty() == !validated.contains(samples));
  }

  // The rows of samples.csv make up the log's means.
  const auto samples = CsvRows(ReadFile(workplace / "a/samples.csv"));
  CHECK(samples[0] == Split("sample,label,loss", ','));
  REQUIRE(samples.size() == 1001);
  double loss = 0;
  for (std::size_t k = 0; k < 64; ++k) {
    CHECK(samples[k + 1][0] == std::to_string(k));
    loss += std::stod(samples[k + 1][2]);
  }
  CHECK(std::stod(metrics[1][3]) == loss / 64);

  CHECK(Json::parse(ReadFile(workplace / "a/summary.json")) == summary);
  CHECK(summary["samples"] == 1000);
  CHECK(summary["updates"] == 125);
  CHECK(summary["diverged"].is_null());
  CHECK(summary["weights_sha256"].get<std::string>().size() == 64);
  CHECK(summary["samples_per_second"].get<double>() > 0);
  CHECK(summary["seconds"].get<double>() >= summary["training_seconds"].get<double>());
  CHECK(summary["memory_before_bytes"].get<double>() > 1e6);
  CHECK(summary["peak_memory_bytes"] >= summary["memory_before_bytes"]);
  CHECK(summary["train_loss"] == std::stod(metrics.back()[3]));
  CHECK(summary["validation_accuracy"] == std::stod(metrics.back()[6]));
  CHECK(summary["workers"].size() == 1);

  const Json manifest = Json::parse(ReadFile(workplace / "a/manifest.json"));
  for (const char* key : {"version", "commit", "compiler", "flags", "cpu", "started", "finished"}) {
    INFO(key);
    CHECK_FALSE(manifest[key].get<std::string>().empty());
  }
  CHECK(manifest["cpu"].get<std::string>().ends_with(", " +
                                                     batchless::training::VectorInstructions()));
  CHECK(manifest["seed"] == 1);
  CHECK(manifest["threads"] == 1);
  CHECK(manifest["data"]["train_sha256"].get<std::string>().size() == 64);
}

TEST_CASE("configuration and seed decide every byte; workers do not") {
  const Workplace workplace;
  workplace.Train("a");
  workplace.Train("b");
  CHECK(ResultOf(workplace, "a") == ResultOf(workplace, "b"));
  CHECK(ReadFile(workplace / "a/config.toml") == ReadFile(workplace / "b/config.toml"));
  workplace.Train("c", "--set schedule.kind=fill-drain --set schedule.workers=3");
  CHECK(ResultOf(workplace, "a") == ResultOf(workplace, "c"));
  workplace.Train("d", "--set run.seed=2");
  CHECK(ResultOf(workplace, "a").weights != ResultOf(workplace, "d").weights);

  // The resolved configuration is one for the same run.
  const Outcome again = workplace.Call("train a/config.toml --out e");
  CHECK(again.exit_code == 0);
  CHECK(ResultOf(workplace, "a") == ResultOf(workplace, "e"));
  CHECK(ReadFile(workplace / "a/config.toml") == ReadFile(workplace / "e/config.toml"));
}

TEST_CASE("workers share the stages by measured times, which change no byte") {
  const Workplace place;
  const std::string common =
      "--set optimizer.batch=1 --set optimizer.lr=0.001 --set schedule.kind=pb ";
  // A thousand samples are more than twenty times what is measured of four stages.
  place.Train("alone", common);
  const std::string two = common + "--set schedule.workers=2 ";
  const auto shared = [](const Json& summary) {
    const Json& workers = summary["workers"];
    CHECK(workers[0]["first_stage"] == 0);
    CHECK(workers[0]["end_stage"] == workers[1]["first_stage"]);
    CHECK(workers[1]["end_stage"] == 4);
    return workers[0]["end_stage"].get<int>();
  };
  shared(place.Train("measured", two));
  CHECK(shared(place.Train("flops", two + "--set schedule.balance=flops")) == 1);

  // From a file: the last stage costs as much as all others.
  const std::string machine = R"(name = "a machine"
[compute]
cores = { value = 2, source = "made up" }
peak = { value = "1 GFLOP/s", source = "made up" }
number = { value = "4 B", source = "made up" }
[shared]
memory = { value = "1 GB", source = "made up" }
bandwidth = { value = "1 GB/s", source = "made up" }
)";
  const auto measured = [](const std::string& times) {
    std::string text = "[measured.mlp]\nsource = \"made up\"\nmicrobatch = 1\n";
    for (const char* pass : {"forward", "backward", "update"}) {
      text += std::string(pass) + "_seconds = " + times + "\n";
    }
    return text;
  };
  WriteFile(place / "machine.toml", machine + measured("[1, 1, 1, 3]"));
  CHECK(shared(place.Train("file", two + "--set schedule.machine=machine.toml")) == 3);
  // From a pipe, which can be read once.
  std::array<int, 2> ends = {};
  REQUIRE(pipe(ends.data()) == 0);
  const std::string content = ReadFile(place / "machine.toml");
  REQUIRE(write(ends[1], content.data(), content.size()) == std::ssize(content));
  close(ends[1]);
  const std::string pipe_end = "/dev/fd/" + std::to_string(ends[0]);
  CHECK(shared(place.Train("pipe", two + "--set schedule.machine=" + pipe_end)) == 3);
  close(ends[0]);
  for (const std::string out : {"measured", "flops", "file", "pipe"}) {
    CHECK(ResultOf(place, out) == ResultOf(place, "alone"));
  }

  WriteFile(place / "short.toml", machine + measured("[1, 1]"));
  WriteFile(place / "empty.toml", machine);
  for (const std::string file : {"short.toml", "empty.toml"}) {
    place.CheckRefused("train run.toml --out x " + two + "--set schedule.machine=" + file,
                       "schedule.machine: got " + file +
                           ", accepted: a machine file with measured "
                           "times of the 4 stages of mlp");
  }
  // Another network may have that name and as many stages.
  std::string others = machine + measured("[1, 1, 1, 3]");
  others.insert(others.find("microbatch"), "sample_flops = 100\n");
  WriteFile(place / "others.toml", others);
  place.CheckRefused("train run.toml --out x " + two + "--set schedule.machine=others.toml",
                     "schedule.machine: got others.toml, accepted: a machine file with times of "
                     "mlp of ");
  for (const std::string& workers : {common, two}) {
    place.CheckRefused("train run.toml --out x " + workers + "--set schedule.machine=none.toml",
                       "schedule.machine: got none.toml, accepted: a machine file");
  }
  // A phase's own count, too.
  WriteFile(place / "hybrid.toml", kConfiguration + std::string("[[phase]]\nuntil = 0.5\n"
                                                                "[[phase]]\n"));
  const std::string hybrid = "train hybrid.toml --out x " + common;
  place.CheckRefused(hybrid + "--set phase.2.schedule.machine=none.toml",
                     "schedule.machine: got none.toml, accepted: a machine file");
  place.CheckRefused(
      hybrid + "--set phase.2.schedule.workers=2 --set phase.2.schedule.machine=short.toml",
      "as batchless calibrate writes it (phase 2)");
  CHECK_FALSE(fs::exists(place / "x"));
}

TEST_CASE("other networks, rules and schedules train") {
  const Workplace workplace;
  for (const std::string options : {
           "--set network.name=linear --set network.hidden=[] --set run.precision=double",
           "--set network.name=lenet5 --set network.hidden=[] --set data.name=synthetic "
           "--set data.limit_train=200 --set data.limit_validation=50",
           "--set network.name=resnet20 --set network.hidden=[] --set network.norm=batch",
           "--set rule.name=lwp-w+sc --set optimizer.schedule=cosine "
           "--set optimizer.decay_points=[]",
           "--set optimizer.schedule=one-cycle --set run.convolution=reference "
           "--set optimizer.decay_points=[]",
           "--set schedule.microbatch=4 --set optimizer.warmup_samples=24",
           "--set schedule.kind=interleaved --set schedule.stages=2 "
           "--set schedule.microbatch=1 --set schedule.recompute=true",
           "--set optimizer.kind=adamw --set optimizer.beta2=0.99",
           "--set optimizer.kind=muon --set optimizer.vector_lr_ratio=0.1",
           "--set optimizer.kind=basis-rotation --set rule.name=lwp-v+sc",
       }) {
    const std::string name = std::to_string(std::hash<std::string>()(options));
    CHECK(workplace.Train(name, options + " --set run.epochs=0.1 ")["samples"] == 24);
  }
}

TEST_CASE("a network of layers that do not train together is refused by its key") {
  const Workplace place;
  WriteFile(place / "net.toml", R"(name = "net"
input = [3, 32, 32]
classes = 10
[[stage]]
name = "conv"
layers = [{ kind = "convolution", channels = 24, kernel = 3 }]
[[stage]]
name = "norm"
layers = ["layer_norm"]
[[stage]]
name = "fc"
layers = [{ kind = "linear", features = 10 }]
[[stage]]
name = "loss"
layers = ["loss"]
)");
  const std::string line = "train run.toml --set network.file=net.toml ";
  const std::string refused =
      "batchless: network.file: got norm of no token's channels, accepted: ";
  place.CheckRefused(line + "--out a", refused);
  place.CheckRefused(line + "--init-only --export-weights w.npz", refused);
}

TEST_CASE("the manifest names the files that a run depends on, and what its phases took") {
  const Workplace place;
  WriteFile(place / "q.json",
            R"({"rows": [{"delay": 0, "numerator": [1, 0], "denominator": [1, -1.9, 0.9]}]})");
  const auto manifest = [&](const std::string& out, const std::string& options) {
    place.Ask("train phases.toml --out " + out + " --set run.epochs=0.5 " + options);
    return Json::parse(ReadFile(place / (out + "/manifest.json")));
  };
  const Json own = manifest("a", "");
  CHECK(own["quotients_sha256"].is_null());
  // Its second phase has two workers.
  CHECK(own["threads"] == 2);
  CHECK(own["replicas"] == 1);
  const Json other =
      manifest("b", "--set phase.2.optimizer.kind=linear --set phase.2.optimizer.file=q.json ");
  CHECK(other["quotients_sha256"].get<std::string>().size() == 64);
}

TEST_CASE("random delays train from a text or a file, which is part of the run") {
  const Workplace place;
  const std::string common =
      "--set schedule.kind=random-delay --set rule.name=lwp-v+sc --set schedule.compensate=own ";
  const std::string by_text = "--set schedule.delays=uniform:0:1 ";
  const std::string by_file = "--set schedule.delays=delays.csv ";
  WriteFile(place / "delays.csv", "delay,probability\n0,0.5\n1,0.5\n");
  const Json text = place.Train("a", common + by_text);
  CHECK(place.Train("b", common + by_file)["weights_sha256"] == text["weights_sha256"]);
  CHECK(place.Train("c", common + by_text + "--set run.seed=5 ")["weights_sha256"] !=
        text["weights_sha256"]);

  const std::string stopped = "train run.toml --out d " + common + by_file;
  const std::string shorter = "--set run.samples=40 ";
  REQUIRE(place.Call(stopped + shorter).exit_code == 0);
  CHECK(place.Call(stopped + shorter + "--resume").exit_code == 0);
  WriteFile(place / "delays.csv", "delay,probability\n0,0.4\n1,0.6\n");
  place.CheckRefused(stopped + shorter + "--resume",
                     "schedule.delays: got delays.csv, accepted: the schedule that the run was");

  // In a phase alone it is refused by its own name, too.
  WriteFile(place / "phase.toml",
            kConfiguration + std::string("[[phase]]\nuntil = 0.5\n[[phase]]\n"
                                         "schedule.kind = \"random-delay\"\n"
                                         "schedule.delays = \"delays.csv\"\n"));
  const std::string phase = "train phase.toml --out f --resume " + shorter;
  REQUIRE(place.Call(phase).exit_code == 0);
  WriteFile(place / "delays.csv", "delay,probability\n0,0.3\n1,0.7\n");
  place.CheckRefused(phase,
                     "schedule.delays: got delays.csv, accepted: the schedule that the run was");
}

TEST_CASE("a schedule's file trains as the schedule that it holds") {
  const Workplace place;
  const std::string common = "--set optimizer.batch=1 --set optimizer.lr=0.001 ";
  // The MLP of the configuration has four stages.
  REQUIRE(
      place.Call("schedule --kind 1f1b --stages 4 --microbatches 20 --out list.csv").exit_code ==
      0);
  const Json by_name = place.Train("a", common + "--set schedule.kind=1f1b");
  const Json by_file =
      place.Train("b", common + "--set schedule.kind=file --set schedule.file=list.csv");
  CHECK(by_file["weights_sha256"] == by_name["weights_sha256"]);
  CHECK(place.Train("c", common + "--set schedule.kind=pb")["weights_sha256"] !=
        by_name["weights_sha256"]);

  // Groups of one stage each are the network's own pipeline.
  const Json pb = place.Train("d", common + "--set schedule.kind=pb");
  const Json zhang =
      place.Train("e", common + "--set schedule.kind=zhang --set schedule.placement=[1,2,3]");
  CHECK(zhang["weights_sha256"] == pb["weights_sha256"]);
  CHECK(place.Train("f",
                    common + "--set schedule.kind=pb --set schedule.stages=2")["weights_sha256"] !=
        pb["weights_sha256"]);

  // The file is part of the run: other actions, though of the same sizes, are another one.
  const std::string stopped =
      "train run.toml --out h --set schedule.kind=file --set schedule.file=list.csv " + common;
  REQUIRE(place.Call(stopped + "--set run.samples=40").exit_code == 0);
  CHECK(Json::parse(ReadFile(place / "h/manifest.json"))["schedule_sha256"].is_string());
  CHECK(place.Call(stopped + "--set run.samples=40 --resume").exit_code == 0);
  REQUIRE(
      place.Call("schedule --kind 1f1b --stages 4 --microbatches 24 --out list.csv").exit_code ==
      0);
  place.CheckRefused(stopped + "--set run.samples=40 --resume",
                     "schedule.file: got list.csv, accepted: the schedule that the run was");
  REQUIRE(
      place.Call("schedule --kind 1f1b --stages 4 --microbatches 20 --out list.csv").exit_code ==
      0);

  place.CheckRefused("train run.toml --out g --set schedule.kind=file --set schedule.file=list.csv",
                     "optimizer.batch: got 8, accepted: 1");
}

TEST_CASE("MNIST's files train LeNet-5") {
  const Workplace workplace;
  fs::create_directories(workplace / "digits/mnist");
  std::mt19937 random(1);
  for (const std::string prefix : {"train", "t10k"}) {
    const auto header = [](char dimensions, const std::vector<char>& sizes) {
      std::string text = {0, 0, 8, dimensions};
      for (const char size : sizes) text += {0, 0, 0, size};
      return text;
    };
    std::string images = header(3, {20, 28, 28});
    std::string labels = header(1, {20});
    for (int i = 0; i < 20; ++i) {
      labels += static_cast<char>(i % 10);
      for (int k = 0; k < 28 * 28; ++k) images += static_cast<char>(random() % 256);
    }
    WriteFile(workplace / ("digits/mnist/" + prefix + "-images-idx3-ubyte"), images);
    WriteFile(workplace / ("digits/mnist/" + prefix + "-labels-idx1-ubyte"), labels);
  }
  const std::string config = fs::absolute("experiments/configs/lenet5_mnist.toml").string();
  // Noise is learnt by heart.
  CHECK(workplace.Ask("train " + config +
                      " --out a --set data.root=digits --set run.epochs=60 "
                      "--set optimizer.batch=10 --set optimizer.lr=0.05")["train_accuracy"] == 1.0);
}

TEST_CASE("in sequential order without augmentation another program can follow") {
  const Workplace workplace;
  workplace.Train("a", "--set data.order=sequential --set data.augment=false");
  const auto data =
      batchless::training::LoadCifar10(workplace / "data", batchless::training::Split::kTrain);
  const auto rows = CsvRows(ReadFile(workplace / "a/samples.csv"));
  for (int k = 0; k < 1000; ++k) {
    if (rows[k + 1][1] != std::to_string(data->label(k % kTrainSize))) FAIL("sample " << k);
  }
}

TEST_CASE("nothing is overwritten without --resume, and a finished run stays as it is") {
  const Workplace workplace;
  workplace.Train("a");
  const Files result = ResultOf(workplace, "a");
  const std::string summary = ReadFile(workplace / "a/summary.json");
  workplace.CheckRefused("train run.toml --out a",
                         "--out: got a, accepted: a folder without a run");
  workplace.CheckRefused("train run.toml --out run.toml", "--out: got run.toml");
  const Outcome again = workplace.Call("train run.toml --out a --resume");
  CHECK(again.exit_code == 0);
  CHECK(Contains(again.out, "finished already"));
  CHECK(ReadFile(workplace / "a/summary.json") == summary);
  CHECK(ResultOf(workplace, "a") == result);
  // What somebody has changed since is not its result.
  WriteFile(workplace / "a/summary.json", "");
  workplace.CheckRefused("train run.toml --out a --resume",
                         "--out: got a/summary.json, accepted: the file that the run left");
  WriteFile(workplace / "a/summary.json", summary);
  // Without its checkpoint it cannot go on, and is not begun anew over what is there.
  fs::rename(workplace / "a/checkpoint", workplace / "checkpoint");
  workplace.CheckRefused("train run.toml --out a --resume", "--resume: got a, accepted: a folder");
  CHECK(ReadFile(workplace / "a/summary.json") == summary);
  CHECK(ReadFile(workplace / "a/metrics.csv") == result.metrics);
  fs::rename(workplace / "checkpoint", workplace / "a/checkpoint");
  // Its first samples are long gone.
  workplace.CheckRefused("train run.toml --out a --resume --trace t.csv", "--trace: got t.csv");
  // Killed between the last checkpoint and the manifest, which comes before the summary.
  Json manifest = Json::parse(ReadFile(workplace / "a/manifest.json"));
  CHECK(manifest["finished"].is_string());
  manifest["finished"] = nullptr;
  WriteFile(workplace / "a/manifest.json", manifest.dump());
  fs::remove(workplace / "a/summary.json");
  workplace.Train("a", "--resume");
  CHECK(ResultOf(workplace, "a") == result);
  CHECK(Json::parse(ReadFile(workplace / "a/manifest.json"))["finished"].is_string());
}

TEST_CASE("a run that is told to stop says how to go on, and goes on to the same bits") {
  const Workplace workplace;
  const std::string longer = " --set run.epochs=300 --out ";
  REQUIRE(workplace.Call("train run.toml" + longer + "whole").exit_code == 0);
  for (const int signal_number : {SIGINT, SIGTERM}) {
    const std::string out = std::to_string(signal_number);
    int interrupted = 0;
    std::string interval;
    for (int attempt = 0; attempt < 100; ++attempt) {
      // Only the last checkpoint of an interruption counts: no others on the way.
      interval = std::to_string(1000000 + attempt);
      RunningProgram program(Words("train run.toml --resume --set run.checkpoint_every_samples=" +
                                   interval + longer + out),
                             workplace.path());
      // Longer each time: a busy machine may take all of the first ones to start the program.
      Sleep(250 + 50 * attempt);
      kill(program.process(), signal_number);
      // `timeout` signals a process, then its group.
      if (attempt % 2 == 1) kill(program.process(), signal_number);
      const Outcome outcome = program.Wait();
      if (outcome.exit_code == 0) break;
      INFO(outcome.error);
      REQUIRE(outcome.exit_code == 128 + signal_number);
      CHECK(outcome.out.empty());
      if (Contains(outcome.error, "--resume")) ++interrupted;
    }
    CHECK(interrupted > 0);
    CHECK(ResultOf(workplace, "whole") == ResultOf(workplace, out));
    CHECK(Contains(ReadFile(workplace / (out + "/config.toml")), "samples = " + interval));
  }
}

TEST_CASE("a run of another optimizer goes on to the same bits, with what its file resolved") {
  const Workplace place;
  const std::string adamw = "--set optimizer.kind=adamw --set rule.name=lwp-v ";
  const Json whole = place.Train("a", adamw);
  CHECK(Contains(ReadFile(place / "a/config.toml"), "beta2 = 0.999"));
  CHECK_FALSE(Contains(ReadFile(place / "a/config.toml"), "momentum ="));
  REQUIRE(place.Call("train a/config.toml --out b").exit_code == 0);
  CHECK(Json::parse(ReadFile(place / "b/summary.json"))["weights_sha256"] ==
        whole["weights_sha256"]);
  place.CheckRefused("train run.toml --resume --out b " + adamw + "--set optimizer.beta1=0.5",
                     "optimizer.beta1");
}

TEST_CASE("a phase of a larger mini-batch follows one of few samples") {
  const Workplace workplace;
  WriteFile(workplace / "larger.toml",
            kConfiguration + std::string("\n[[phase]]\nuntil = 0.1\noptimizer.batch = 1\n"
                                         "[[phase]]\noptimizer.batch = 32\n"));
  const Json summary = workplace.Ask("train larger.toml --out a --set run.samples=72");
  CHECK(summary["samples"] == 72);
  // 8 of one sample and 2 of 32.
  CHECK(summary["updates"] == 10);
}

TEST_CASE("a checkpoint of a phase whose updates were not counted is refused") {
  const Workplace place;
  WriteFile(place / "run.toml", std::string(kConfiguration) +
                                    "\n[[phase]]\nuntil = 0.001\noptimizer.kind = \"adam\"\n"
                                    "optimizer.lr = 0.001\n[[phase]]\noptimizer.kind = \"adamw\"\n"
                                    "optimizer.lr = 0.001\n");
  const std::string run = "train run.toml --set run.epochs=1000 --out a --resume";
  for (int attempt = 0; !fs::exists(place / "a/checkpoint") ||
                        Contains(ReadFile(place / "a/checkpoint"), "\"joined_updates\":0");
       ++attempt) {
    REQUIRE(attempt < 100);
    RunningProgram program(Words(run), place.path());
    Sleep(250 + 50 * attempt);
    kill(program.process(), SIGINT);
    REQUIRE(program.Wait().exit_code == 128 + SIGINT);
  }
  // As an earlier version wrote it.
  std::string text = ReadFile(place / "a/checkpoint");
  const std::size_t place_of_key = text.find("\"joined_updates\"");
  text.erase(place_of_key, text.find(',', place_of_key) + 1 - place_of_key);
  text.erase(text.size() - 65);
  batchless::training::Sha256 digest;
  digest.Update(text);
  WriteFile(place / "a/checkpoint", text + digest.HexDigest() + "\n");
  place.CheckRefused(run, "--resume: got a/checkpoint, accepted: a checkpoint of a version that");
}

TEST_CASE("a run that is killed at any moment goes on to the same bits") {
  const std::string configuration = GENERATE("run.toml", "phases.toml");
  const Workplace workplace;
  // Checkpoints all the time, so that some kills hit one while it is written.
  const std::string run = "train " + configuration +
                          " --set run.epochs=15 --set run.checkpoint_every_samples=16 --out ";
  REQUIRE(workplace.Call(run + "whole").exit_code == 0);
  const Files whole = ResultOf(workplace, "whole");
  std::mt19937 random(1);
  int kills = 0;
  int partial_checkpoints = 0;
  for (int k = 0; kills < 8; ++k) {
    const std::string out = "killed" + std::to_string(k);
    // Longer each time: a busy machine may take all of the first ones to start the program.
    int most_milliseconds = 200;
    for (bool is_done = false; !is_done; most_milliseconds += most_milliseconds / 4) {
      RunningProgram program(Words(run + out + " --resume"), workplace.path());
      Sleep(std::uniform_int_distribution<int>(1, most_milliseconds)(random));
      kill(program.process(), SIGKILL);
      const Outcome outcome = program.Wait();
      is_done = outcome.exit_code == 0;
      INFO(outcome.error);
      if (!is_done) REQUIRE(outcome.exit_code == 128 + SIGKILL);
      if (!is_done) ++kills;
      if (fs::exists(workplace / (out + "/checkpoint.partial"))) ++partial_checkpoints;
    }
    CHECK(ResultOf(workplace, out) == whole);
  }
  INFO(kills << " kills, " << partial_checkpoints << " while a checkpoint was written");
  CHECK(kills >= 8);
}

TEST_CASE("another configuration is no resumption; what changes no result may change") {
  const Workplace workplace;
  REQUIRE(workplace.Call("train run.toml --out whole").exit_code == 0);
  workplace.Train("a");
  workplace.CheckRefused("train run.toml --out a --resume --set optimizer.lr=0.02",
                         "optimizer.lr: got 0.02, accepted: 0.01, as the run in a has it");
  workplace.CheckRefused("train run.toml --out a --resume --set run.epochs=6",
                         "run.epochs: got 6, accepted: 5");
  workplace.CheckRefused("train run.toml --out a --resume --set run.log_samples=false",
                         "run.log_samples");
  // The first one in the order of the table.
  workplace.CheckRefused(
      "train run.toml --out a --resume --set run.seed=3 --set network.hidden=[17]",
      "network.hidden: got [17], accepted: [16]");
  // Other data in the same place.
  Workplace other;
  fs::remove(other / "data");
  fs::create_directory(other / "data");
  REQUIRE(other.Call("data synth --seed 9 --train-size 200 --validation-size 50 --out data")
              .exit_code == 0);
  fs::copy(workplace / "a", other / "a");
  other.CheckRefused("train run.toml --out a --resume", "data.root: got data");

  const Outcome outcome = workplace.Call(
      "train run.toml --out a --resume --set run.checkpoint_every_samples=8 --set "
      "run.log_every_samples=999 --set run.validate_every_samples=7");
  CHECK(outcome.exit_code == 0);
  // Killed before its first checkpoint: the folder's configuration is what counts.
  for (const char* name : {"checkpoint", "summary.json", "metrics.csv"}) {
    fs::remove(workplace / (std::string("a/") + name));
  }
  workplace.CheckRefused("train run.toml --out a --resume --set run.seed=2", "run.seed");
  workplace.Train("a", "--resume");
  CHECK(ResultOf(workplace, "a") == ResultOf(workplace, "whole"));
}

TEST_CASE("a damaged checkpoint is refused by name") {
  const Workplace workplace;
  workplace.Train("a");
  const Files result = ResultOf(workplace, "a");
  const std::string good = ReadFile(workplace / "a/checkpoint");
  const std::string resume = "train run.toml --out a --resume";
  std::mt19937 random(1);
  for (int k = 0; k < 10; ++k) {
    std::string flipped = good;
    const std::size_t place = random() % good.size();
    flipped[place] = static_cast<char>(flipped[place] ^ (1 << k % 8));
    WriteFile(workplace / "a/checkpoint", flipped);
    INFO("byte " << place);
    workplace.CheckRefused(resume, "a/checkpoint");
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{30}, good.size() / 2, good.size() - 1}) {
    WriteFile(workplace / "a/checkpoint", good.substr(0, size));
    INFO("cut to " << size);
    workplace.CheckRefused(resume, "a/checkpoint");
  }
  WriteFile(workplace / "a/checkpoint", good);
  WriteFile(workplace / "a/metrics.csv", "samples");
  fs::remove(workplace / "a/checkpoint");
  fs::remove(workplace / "a/summary.json");
  workplace.Train("a", "--resume");
  CHECK(ResultOf(workplace, "a") == result);

  // Rows that the checkpoint counts on are gone.
  const std::string longer = "train run.toml --set run.epochs=100000 --out b";
  RunningProgram program(Words(longer), workplace.path());
  const std::string metrics = workplace / "b/metrics.csv";
  WaitUntil([&] { return fs::exists(metrics) && CsvRows(ReadFile(metrics)).size() > 2; });
  kill(program.process(), SIGTERM);
  REQUIRE(program.Wait().exit_code == 128 + SIGTERM);
  WriteFile(workplace / "b/metrics.csv", "samples");
  workplace.CheckRefused(longer + " --resume", "--resume: got b/metrics.csv");
}

TEST_CASE("weights go out and come in bit for bit") {
  const Workplace workplace;
  const auto init_only = [&](const std::string& rest) -> Json {
    return workplace.Ask("train run.toml --init-only --export-weights " + rest)["weights_sha256"];
  };
  const Json digest = init_only("w.npz");
  CHECK_FALSE(fs::exists(workplace / "w"));
  const std::vector<NamedTensor> written = batchless::ReadNpz(workplace / "w.npz", 1 << 20);
  CHECK(batchless::analysis::NamesOf(written) ==
        std::vector<std::string_view>{"classifier.0.weight", "classifier.0.bias",
                                      "classifier.1.weight", "classifier.1.bias"});
  CHECK(written[0].shape == std::vector<std::int64_t>{16, 3072});

  CHECK(init_only("v.npz --init w.npz --set run.seed=5") == digest);
  CHECK(ReadFile(workplace / "v.npz") == ReadFile(workplace / "w.npz"));

  // A run from the exported start is the run itself; so is one that goes on without the file.
  const Json whole = workplace.Train("a", "--export-weights a.npz");
  CHECK(workplace.Train("b", "--init w.npz")["weights_sha256"] == whole["weights_sha256"]);
  CHECK(ResultOf(workplace, "a") == ResultOf(workplace, "b"));
  CHECK(init_only("c.npz --init a.npz") == whole["weights_sha256"]);
  workplace.CheckRefused("train run.toml --out b --resume --init a.npz", "--init: got a.npz");

  // Whatever the schedule, its delays and the optimizer are: initial weights depend on none of them.
  WriteFile(workplace / "q.json",
            R"({"rows": [{"delay": 4, "numerator": [1, 0], "denominator": [1, -1.9, 0.9]}]})");
  for (const std::string schedule :
       {"schedule.gradient_shrink=0.5", "schedule.recompute_stages=[1]",
        "optimizer.max_gradient_norm=1", "rule.name=lwp-v+sc"}) {
    std::string settings = " --set schedule.kind=pb --set optimizer.batch=1 --set " + schedule;
    if (schedule.find("recompute") != std::string::npos) {
      settings += " --set schedule.recompute=true --set schedule.weight_stashing=true";
    }
    INFO(schedule);
    CHECK(init_only("d.npz" + settings) == digest);
  }
  CHECK(init_only("d.npz --set optimizer.kind=linear --set optimizer.file=q.json "
                  "--set schedule.kind=uniform-delay --set schedule.delay=4") == digest);

  const Json twofold = workplace.Train("e", "--set run.precision=double --export-weights e.npz");
  CHECK(init_only("f.npz --init e.npz --set run.precision=double") == twofold["weights_sha256"]);
}

TEST_CASE("weights go out and come in as safetensors, too") {
  const Workplace workplace;
  const std::string init_only = "train run.toml --init-only --export-weights ";
  const std::string path = "w.safetensors";
  CHECK(workplace.Ask(init_only + path)["weights_sha256"] ==
        workplace.Ask(init_only + "w.npz")["weights_sha256"]);
  const std::string written = ReadFile(workplace / path);
  // Read and written under one name: the same file, from another seed.
  workplace.Ask(init_only + path + " --init " + path + " --set run.seed=5");
  CHECK(ReadFile(workplace / path) == written);
  CHECK(workplace.Train("a", "--init w.npz")["weights_sha256"] ==
        workplace.Train("b", "--init " + path)["weights_sha256"]);
  WriteFile(workplace / "cut.safetensors", written.substr(0, written.size() - 1));
  workplace.CheckRefused("train run.toml --out c --init cut.safetensors",
                         "--init: got cut.safetensors, accepted: weights, .npz or .safetensors "
                         "(values of");
  workplace.CheckRefused("train run.toml --out c --export-weights w.pt",
                         "--export-weights: got w.pt, accepted");
}

TEST_CASE("weights that do not fit are refused by the tensor's name") {
  const Workplace workplace;
  REQUIRE(workplace.Call("train run.toml --init-only --export-weights w.npz").exit_code == 0);
  const std::vector<NamedTensor> tensors = batchless::ReadNpz(workplace / "w.npz", 1 << 20);
  const auto check_refused = [&](const std::vector<NamedTensor>& members, const std::string& part) {
    batchless::WriteNpz(workplace / "changed.npz", members,
                        batchless::training::Precision::kDouble);
    workplace.CheckRefused("train run.toml --out refused --init changed.npz", part);
    CHECK_FALSE(fs::exists(workplace / "refused"));
  };
  std::vector<NamedTensor> changed = tensors;
  changed.pop_back();
  check_refused(changed, "--init: changed.npz: classifier.1.bias: got nothing");
  changed = tensors;
  changed.push_back({"fc.weight", tensors[1].shape, tensors[1].values});
  check_refused(changed, "fc.weight");
  changed = tensors;
  std::swap(changed[0].shape[0], changed[0].shape[1]);
  check_refused(changed, "classifier.0.weight: got shape (3072, 16), accepted: shape (16, 3072)");
  changed = tensors;
  changed[2].values[3] = std::numeric_limits<double>::quiet_NaN();
  check_refused(changed, "classifier.1.weight");
  WriteFile(workplace / "text.npz", "no archive");
  workplace.CheckRefused("train run.toml --out refused --init text.npz", "--init: got text.npz");
  workplace.CheckRefused("train run.toml --init-only", "--export-weights: got nothing");
  workplace.CheckRefused("train run.toml --init-only --export-weights v.npz --out d", "--out");
}

TEST_CASE("a run that diverges says where, keeps its log and fails") {
  const Workplace workplace;
  const Outcome outcome =
      workplace.Call("train run.toml --out a --set optimizer.lr=1000 --export-weights w.npz");
  INFO(outcome.error);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.empty());
  CHECK(Contains(outcome.error, "diverged in stage classifier."));
  const Json summary = Json::parse(ReadFile(workplace / "a/summary.json"));
  const auto sample = summary["diverged"]["sample"].get<std::size_t>();
  CHECK(Contains(outcome.error, "at sample " + std::to_string(sample)));
  // Every sample up to the bad one.
  CHECK(CsvRows(ReadFile(workplace / "a/samples.csv")).size() == 1 + sample + 1);
  CHECK(summary["samples"] == sample / 8 * 8);
  CHECK(summary["weights_sha256"].is_null());
  CHECK_FALSE(fs::exists(workplace / "w.npz"));
  // It goes on from the checkpoint, to the same end.
  CHECK(workplace.Call("train run.toml --out a --set optimizer.lr=1000 --resume").error ==
        "goes on from sample 48 of 1000\n" + outcome.error);
}

TEST_CASE("a validation loss that is no number is not said to be 0") {
  const Workplace workplace;
  // Negative weights let nothing through; after one step of their decay alone they are 1e5 each.
  const std::string options =
      " --set network.hidden=[16,16,16,16,16,16,16,16] --set run.samples=8 --set optimizer.lr=1e6 "
      "--set optimizer.momentum=0 --set optimizer.weight_decay=1 ";
  REQUIRE(workplace.Call("train run.toml --init-only --export-weights w.npz" + options).exit_code ==
          0);
  std::vector<NamedTensor> tensors = batchless::ReadNpz(workplace / "w.npz", 1 << 20);
  for (NamedTensor& tensor : tensors) {
    if (tensor.name.ends_with("weight")) std::ranges::fill(tensor.values, -0.1);
  }
  batchless::WriteNpz(workplace / "negative.npz", tensors, batchless::training::Precision::kDouble);
  const Outcome outcome = workplace.Call("train run.toml --out a --init negative.npz" + options);
  INFO(outcome.error);
  REQUIRE(outcome.exit_code == 0);
  CHECK(Json::parse(ReadFile(workplace / "a/summary.json"))["validation_loss"].is_null());
  CHECK(Contains(outcome.out, "validation  loss nan"));
  const std::string metrics = ReadFile(workplace / "a/metrics.csv");
  CHECK(Contains(metrics, ",nan,"));
  CHECK_FALSE(Contains(metrics, "-nan"));
}

TEST_CASE("a phase that diverges counts its own mini-batches") {
  const Workplace workplace;
  WriteFile(workplace / "phases.toml",
            kConfiguration + std::string("\n[[phase]]\nuntil = 0.099\noptimizer.batch = 1\n"
                                         "optimizer.lr = 1e-4\n[[phase]]\noptimizer.batch = 64\n"
                                         "optimizer.lr = 1e6\n"));
  const Outcome outcome = workplace.Call("train phases.toml --out a");
  INFO(outcome.error);
  CHECK(outcome.exit_code == 1);
  const Json summary = Json::parse(ReadFile(workplace / "a/summary.json"));
  const auto sample = summary["diverged"]["sample"].get<int>();
  REQUIRE(sample >= 99);
  const int batches = (sample - 99) / 64;
  CHECK(summary["samples"] == 99 + 64 * batches);
  CHECK(summary["updates"] == 99 + batches);
}

TEST_CASE("what cannot be written fails in one line") {
  const Workplace workplace;
  workplace.CheckRefused("train run.toml --out /proc/a", "--out: got /proc/a");
  const Outcome outcome =
      RunningProgram(Words("train run.toml --out a"), workplace.path(), "", 10'000).Wait();
  CHECK(outcome.exit_code == 1);
  CHECK(Lines(outcome.error).size() == 1);
  CHECK(Contains(outcome.error, "a/checkpoint: File too large"));
  // With space again, it starts.
  workplace.Train("a", "--resume");
}

TEST_CASE("a run that does not fit the memory is refused with the numbers") {
  const Workplace workplace;
  const std::string line =
      "train run.toml --out a --set network.name=vgg16 --set network.hidden=[] --set "
      "schedule.kind=uniform-delay --set schedule.delay=10000";
  workplace.CheckRefused(line, "network.name: got vgg16, whose run takes ");
  workplace.CheckRefused(line, " of memory available");
}

TEST_CASE("the memory that a run says it takes is what it takes") {
  // Most of it the stashed versions of 88 stages.
  constexpr double kTolerance = 0.1;
  const Workplace workplace;
  // A process of its own: the peak is that of its whole life.
  const Outcome outcome = Launch(
      Words("train run.toml --json --out a "
            "--set network.name=resnet56 --set network.hidden=[] --set data.name=synthetic "
            "--set schedule.kind=pb --set schedule.weight_stashing=true --set optimizer.batch=1 "
            "--set optimizer.lr=0.0001 --set run.samples=4 --set data.limit_validation=2"),
      workplace.path());
  INFO(outcome.error);
  REQUIRE(outcome.exit_code == 0);
  const Json summary = Json::parse(outcome.out);
  const auto predicted = summary["predicted_peak_memory_bytes"].get<double>();
  CHECK(predicted > 2e8);
  CHECK(std::abs(summary["peak_memory_bytes"].get<double>() / predicted - 1) < kTolerance);
}

TEST_CASE("two runs do not share a folder") {
  const Workplace workplace;
  RunningProgram first(Words("train run.toml --out a --set run.epochs=100000"), workplace.path());
  WaitUntil([&] { return fs::exists(workplace / "a/manifest.json"); });
  workplace.CheckRefused("train run.toml --out a --resume --set run.epochs=100000",
                         "another run is at work");
  kill(first.process(), SIGTERM);
  CHECK(first.Wait().exit_code == 128 + SIGTERM);
}

TEST_CASE("a trace shows every pass of the first samples, once, and when") {
  const Workplace workplace;
  const std::string run =
      "train run.toml --set schedule.kind=pb --set optimizer.batch=1 --set run.samples=40 "
      "--set run.trace_samples=12 --set schedule.workers=2 ";
  REQUIRE(workplace.Call(run + "--out a --trace a.csv").exit_code == 0);
  const int stages = Json::parse(ReadFile(workplace / "a/summary.json"))["stages"];
  std::map<std::tuple<std::string, std::string, std::string>, int> passes;
  std::map<std::string, double> last;
  for (const std::vector<std::string>& row : CsvRows(ReadFile(workplace / "a.csv"))) {
    if (row[0] == "worker") continue;
    REQUIRE(row.size() == 6);
    const double start = std::stod(row[4]);
    const double end = std::stod(row[5]);
    CHECK(start <= end);
    // A worker does one thing at a time.
    CHECK(start >= last[row[0]]);
    last[row[0]] = end;
    if (!row[1].starts_with("wait")) ++passes[{row[1], row[2], row[3]}];
  }
  CHECK(last.size() == 2);
  CHECK(passes.size() == static_cast<std::size_t>(12 * 3 * stages));
  for (const auto& [pass, times] : passes) CHECK(times == 1);
  // For viewers: the same events, and a name for each worker. It changes no result.
  REQUIRE(workplace.Call(run + "--out b --trace b.json").exit_code == 0);
  const Json events = Json::parse(ReadFile(workplace / "b.json"))["traceEvents"];
  const auto count = [&](const char* key, const std::string& value) {
    return std::count_if(events.begin(), events.end(),
                         [&](const Json& event) { return event.value(key, "") == value; });
  };
  CHECK(count("ph", "M") == 2);
  CHECK(count("cat", "forward") == 12 * stages);
  CHECK(count("cat", "update") == 12 * stages);
  // As a viewer reads them, in nanoseconds, they are apart as well.
  std::map<int, std::int64_t> ends;
  for (const Json& event : events) {
    if (event["ph"] != "X") continue;
    const std::int64_t start = std::llround(1e3 * event["ts"].get<double>());
    CHECK(start >= ends[event["pid"]]);
    ends[event["pid"]] = start + std::llround(1e3 * event["dur"].get<double>());
  }
  CHECK(ends.size() == 2);
  CHECK(ResultOf(workplace, "a") == ResultOf(workplace, "b"));
  workplace.CheckRefused(run + "--out c --trace c.txt", "--trace: got c.txt");
  CHECK(!fs::exists(workplace / "c"));
  // A run in phases has those of the first one, however many follow.
  REQUIRE(workplace.Call("train phases.toml --out d --trace d.csv").exit_code == 0);
  CHECK(CsvRows(ReadFile(workplace / "d.csv")).size() > 1);
}

TEST_CASE("PipeMare's three techniques train alone and together") {
  const Workplace workplace;
  const std::string options =
      " --set optimizer.batch=1 --set optimizer.lr=0.001 --set run.samples=200 --out ";
  const auto weights = [&](const std::string& out, const std::string& optimizer, bool warms_up) {
    const std::string schedule =
        warms_up ? "\n[[phase]]\nuntil = 0.25\nschedule.kind = \"sequential\"\n[[phase]]\n"
                   "schedule.kind = \"pb\"\n"
                 : "\n[schedule]\nkind = \"pb\"\n";
    WriteFile(workplace / (out + ".toml"), kConfiguration + schedule);
    return workplace
        .Ask("train " + out + ".toml" + options + out + " " + optimizer)["weights_sha256"]
        .get<std::string>();
  };
  const std::string none = "--set optimizer.kind=pipemare --set optimizer.discrepancy_decay=1";
  const std::string second = "--set optimizer.kind=pipemare";
  const std::string annealing = " --set optimizer.annealing_samples=150";
  // Without the first two it is momentum, with a first phase or not.
  CHECK(weights("plain", none, false) == weights("sgdm", "", false));
  CHECK(weights("third", none, true) == weights("sgdm_third", "", true));
  std::set<std::string> all = {weights("none", none, false), weights("t3", none, true)};
  for (const bool warms_up : {false, true}) {
    const std::string end = warms_up ? "3" : "";
    all.insert(weights("t1" + end, none + annealing, warms_up));
    all.insert(weights("t2" + end, second, warms_up));
    all.insert(weights("t12" + end, second + annealing, warms_up));
  }
  CHECK(all.size() == 8);
}
