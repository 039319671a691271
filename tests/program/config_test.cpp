#include "config.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "batchless/hwmodel/schedule_file.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "catch.h"
#include "run_options.h"
#include "run_program.h"
#include "usage_error.h"

namespace batchless {
using test::Contains;
using test::Lines;
using test::TemporaryFolder;
using test::WriteFile;

namespace {

const DataShape kShape = {{3, 32, 32}, 10};

Configuration Load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const TemporaryFolder folder;
  WriteFile(folder / "run.toml", text);
  return LoadConfiguration(folder / "run.toml", overrides);
}

// The one line that the work is refused with; empty where it is not.
template <class Work>
std::string Refusal(Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    CHECK(Lines(error.what()).size() == 1);
    return error.what();
  }
  return "";
}

// The samples of a run, and what a configuration comes to with its defaults.
std::int64_t RunSamples(const Configuration& c, std::int64_t epoch_size) {
  std::vector<training::TrainerOptions> phases = TrainerOptionsOf(c, DataShapeOf(c));
  SetLengths(c, epoch_size, phases);
  return phases.back().first_sample + phases.back().samples;
}

std::vector<training::TrainerOptions> Resolve(Configuration& c, const DataShape& shape,
                                              std::int64_t epoch_size) {
  std::vector<training::TrainerOptions> phases = TrainerOptionsOf(c, shape);
  SetLengths(c, epoch_size, phases);
  FillIn(c, phases, epoch_size);
  return phases;
}

}  // namespace

TEST_CASE("an empty file is a configuration of defaults") {
  const Configuration configuration = Load("");
  CHECK_FALSE(FirstDifference(configuration, Configuration()));
  CHECK(RunSamples(configuration, 1000) == 1024);
}

TEST_CASE("values of every type are read") {
  const Configuration c = Load(R"(
    [network]
    name = "mlp"
    hidden = [7, 1e1]
    [data]
    augment = false
    limit_train = 1e3
    root = 'a "quoted" \path'
    [optimizer]
    lr = 1
    decay_points = [0.5, 1]
  )");
  CHECK(c.network.name == "mlp");
  CHECK(c.network.hidden == std::vector<std::int64_t>{7, 10});
  CHECK_FALSE(c.data.augment);
  CHECK(c.data.limit_train == 1000);
  CHECK(c.data.root == "a \"quoted\" \\path");
  CHECK(c.optimizer.lr == 1.0);
  CHECK(c.optimizer.decay_points == std::vector<double>{0.5, 1});
}

TEST_CASE("overrides are TOML values, or else texts; one of a key counts") {
  const Configuration c =
      Load("[run]\nseed = 3\n",
           {"network.name=vgg11", "network.norm=\"batch\"", "network.hidden=[1,2]",
            "data.root=/a b=c.d/e", "run.log_samples=true", "run.seed=5", "optimizer.lr=1e-3"});
  CHECK(c.run.seed == 5);
  CHECK(c.network.name == "vgg11");
  CHECK(c.network.norm == "batch");
  CHECK(c.network.hidden == std::vector<std::int64_t>{1, 2});
  CHECK(c.data.root == "/a b=c.d/e");
  CHECK(c.run.log_samples);
  CHECK(c.optimizer.lr == 1e-3);

  const auto refusal = [](const std::vector<std::string>& overrides) {
    return Refusal([&] { Load("[[phase]]\nuntil = 0.5\n[[phase]]\n", overrides); });
  };
  CHECK(refusal({"run.seed=4", "optimizer.lr=1", "run.seed=5"}) ==
        "--set: run.seed: got 4 and 5, accepted: one value, given once");
  CHECK(refusal({"phase.1.until=0.2", "phase.01.until=0.3"}) ==
        "--set: phase.1.until: got 0.2 and 0.3, accepted: one value, given once");
  CHECK(refusal({"optimizer.lr=1", "phase.1.optimizer.lr=2", "phase.2.optimizer.momentum=0"})
            .empty());

  CHECK(RunSamples(Load("[run]\nepochs = 3", {"run.samples=256"}), 1000) == 256);
  CHECK(RunSamples(Load("[run]\nsamples = 3", {"run.epochs=0.5"}), 1000) == 512);
}

TEST_CASE("bad input is refused in one line that names key, value, what is accepted and the line") {
  struct Case {
    std::string text;
    std::string line;  // behind the file's name
  };
  const std::vector<Case> cases = {
      {"\n[run]\nseed = \"x\"",
       ":3: run.seed: got \"x\", accepted: an integer from 0 to 4294967295"},
      {"[run]\nseed = -1", ":2: run.seed: got -1, accepted: an integer from 0 to"},
      {"[run]\nseed = 0.5", ":2: run.seed: got 0.5, accepted: an integer"},
      {"[run]\nseed = true", ":2: run.seed: got true, accepted: an integer"},
      {"[run]\nseed = [1]", ":2: run.seed: got [ 1 ], accepted: an integer"},
      {"[run]\nepochs = 0", ":2: run.epochs: got 0, accepted: a number from"},
      {"[run]\nepochs = nan", ":2: run.epochs: got nan, accepted: a number from"},
      {"[run]\nepochs = inf", ":2: run.epochs: got inf, accepted: a number from"},
      {"[run]\nlog_samples = 1", ":2: run.log_samples: got 1, accepted: true, false"},
      {"[run]\nsample = 1", ":2: run.sample: got an unknown key, accepted: epochs, samples,"},
      {"[run]\nsample = 1", "(did you mean samples?)"},
      {"[runs]\nsamples = 1", ":2: runs.samples: got an unknown section"},
      {"[runs]\nsamples = 1", "(did you mean run?)"},
      {"seed = 1", ":1: seed: got 1, accepted: keys in a section"},
      {"[network]\nname = \"resnet21\"", ":2: network.name: got resnet21, accepted: resnet20,"},
      {"[network]\nname = \"resnet21\"", "(did you mean resnet20?)"},
      {"[network]\nhidden = 3", ":2: network.hidden: got 3, accepted: a list [...], each item"},
      {"[network]\nhidden = [3, 0]", ":2: network.hidden: got [ 3, 0 ], accepted: a list"},
      {"[network.norm]\nname = 1", ":1: network.norm: got"},
      {"[optimizer]\ndecay_points = [0.5, 2]", "each item a number from 0 to 1"},
      {"[schedule]\nkind = \"gpip\"",
       ":2: schedule.kind: got gpip, accepted: sequential, fill-drain, gpipe, pipedream-flush, "},
      {"[data]\nroot = 3", ":2: data.root: got 3, accepted: a text"},
      {"[run]\nseed = 2\nepochs = \"x\"\nsamples = \"y\"", ":3: run.epochs"},
      {"[run]\nseed = 1\nseed = 2", ":3: got "},
      {"[run\n", ":1: got "},
      {"[run]\nseed = ", ":2: got "},
      {"\xff", "accepted: TOML"},
      {std::string(2 << 20, '\n'), "a TOML file that can be read (it has more than 1048576 bytes)"},
  };
  for (const Case& item : cases) {
    const std::string line = Refusal([&] { Load(item.text); });
    INFO(item.text.substr(0, 80) << "\n" << line);
    CHECK(Contains(line, item.line));
    CHECK(Contains(line, "run.toml"));
    CHECK(Contains(line, ", accepted: "));
  }
  for (const std::string text : {"run.seed", "seed=1", "=1", "", "runseed=1", "run.=1", ".=1",
                                 "run.seed=-1", "run.seed=", "run.seed=x", "run.seeds=1", "a.b=1",
                                 "run.seed=1\nepochs=2", "data.root=\xff"}) {
    const std::string line = Refusal([&] { Load("", {text}); });
    INFO(text << "\n" << line);
    CHECK(Contains(line, "--set: "));
    CHECK(Contains(line, ", accepted: "));
  }
  CHECK(Refusal([] { Load("", {"data.root=2024"}); }) ==
        "--set: data.root: got 2024, accepted: a text in quotes, --set 'data.root=\"2024\"'");
  CHECK(Contains(Refusal([] { Load("[data]\nroot = 2024"); }),
                 ":2: data.root: got 2024, accepted: a text in quotes, \"2024\""));
  const TemporaryFolder folder;
  const std::string missing = folder / "missing";
  CHECK(Refusal([&] { LoadConfiguration(missing, {}); }) ==
        "CONFIG: got " + missing +
            ", accepted: a TOML file that can be read (there is no such file)");
  const std::string path = folder.path().string();
  CHECK(Contains(Refusal([&] { LoadConfiguration(path, {}); }), "CONFIG: got " + path));
}

TEST_CASE("keys of very many parts are refused, long lists and rows of dots are not") {
  std::string key = "a";
  for (int i = 0; i < 200'000; ++i) key += ".a";
  for (const std::string& text :
       {key + " = 1", "[" + key + "]", "[[" + key + "]]", "a = 1\nb = {c = 1, " + key + " = 2}"}) {
    CHECK(Contains(Refusal([&] { Load("[network]\n" + text); }),
                   "a key of too many parts outside a string, accepted: TOML"));
  }
  std::string points = "0.1";
  for (int i = 0; i < 50; ++i) points += ", 0.1";
  const Configuration c =
      Load("  # " + std::string(100, '.') + "\n[optimizer]\ndecay_points = [" + points + "]\n");
  CHECK(c.optimizer.decay_points.size() == 51);
  for (const std::string text : {"\xc3\xa4 = 1", "[run]\nseed = 1 \xc3\xa4", "[a\xd2\x96]"}) {
    CHECK(Contains(Refusal([&] { Load(text); }), "no ASCII outside a string, accepted: TOML"));
  }
  for (const std::string text : {"[# run]\nseed = 1", "[[ =run]]", "[\n]"}) {
    CHECK(Contains(Refusal([&] { Load(text); }), "begins with no letter outside a string"));
  }
  CHECK(Load("[optimizer]\ndecay_points = [\n  # one\n  0.5,\n]\n[ run ]\nseed = 2\n").run.seed ==
        2);
  CHECK(Load("# \xc3\xa4\n[data]\nroot = \"\xc3\xa4\\\"\" # \xc3\xa4\n").data.root == "\xc3\xa4\"");
  CHECK(Load("[data]\nroot = '''\n\xc3\xa4'''").data.root == "\xc3\xa4");
}

TEST_CASE("values that do not go together are refused by name") {
  struct Case {
    std::vector<std::string> overrides;
    std::string line;
  };
  const std::vector<Case> cases = {
      {{"network.name=lenet5", "network.norm=group"}, "network.norm: got group"},
      {{"network.norm=none", "network.groups=4"}, "network.groups: got 4"},
      {{"network.groups=5"}, "network.groups: got 5"},
      {{"network.hidden=[4]"}, "network.hidden: got 4"},
      {{"network.name=mlp", "network.hidden=[1048577]"}, "network.hidden: got 1048577"},
      {{"network.name=mlp", "network.hidden=[9007199254740992]"},
       "network.hidden: got 9007199254740992"},
      {{"network.groups=9007199254740992"}, "network.groups: got 9007199254740992"},
      {{"rule.name=spectrain", "schedule.kind=pb", "optimizer.batch=1", "rule.horizon=3"},
       "rule.horizon: got 3, accepted: nothing with rule spectrain"},
      {{"rule.name=sc", "rule.sc_a=1", "rule.sc_b=0", "rule.sc_delay=3"},
       "rule.sc_delay: got 3, accepted: nothing together with both coefficients"},
      {{"optimizer.reference_lr=0.1", "optimizer.reference_momentum=0.9",
        "optimizer.reference_batch=9007199254740992", "optimizer.batch=1"},
       "optimizer.reference_batch: got 9007199254740992"},
      {{"data.seed=1", "data.name=cifar10"}, "data.seed: got 1"},
      {{"network.name=gpt"},
       "data.name: got synthetic, accepted: text, markov or tokens with network.name = gpt"},
      {{"data.name=markov"}, "data.name: got markov, accepted: data with one label of a sample"},
      {{"network.name=lenet5", "data.name=markov"},
       "data.name: got markov, accepted: data with one label of a sample, as the loss of lenet5"},
      {{"network.name=vgg11", "data.name=mnist"},
       "data.name: got mnist, of 1x28x28, accepted: an image large enough for"},
      {{"network.name=gpt", "data.name=text"}, "data.file: got nothing, accepted: the path of a"},
      {{"network.name=gpt", "data.name=text", "data.file=missing"},
       "data.file: got missing, accepted: a text (there is no such file)"},
      {{"network.name=gpt", "data.name=tokens", "data.file=missing.npy"},
       "data.file: got missing.npy, accepted: a .npy list of tokens (there is no such file)"},
      {{"network.name=gpt", "data.name=tokens", "data.file=."},
       "data.file: got ., accepted: a .npy list of tokens (this is a folder)"},
      {{"data.file=a"}, "data.file: got a, accepted: nothing but with data.name = text or tokens"},
      {{"network.name=gpt", "data.name=markov", "network.vocabulary=63"},
       "network.vocabulary: got 63, accepted: at least the 64 symbols of markov"},
      {{"network.context=64"}, "network.context: got 64, accepted: nothing but with data.name"},
      {{"network.layers=2"}, "network.layers: got 2, accepted: nothing but with the network gpt"},
      {{"network.token_norm=rms"}, "network.token_norm: got rms, accepted: layer but with the"},
      {{"network.norm_first=false"}, "network.norm_first: got false, accepted: true but with the"},
      {{"network.tie_word_embeddings=true"},
       "network.tie_word_embeddings: got true, accepted: false but with the network gpt"},
      {{"network.activation=squared_relu"},
       "network.activation: got squared_relu, accepted: gelu but"},
      {{"network.activation=relu"},
       "--set: network.activation: got relu, accepted: gelu, squared_relu"},
      {{"data.image_size=64"}, "data.image_size: got 64"},
      {{"schedule.workers=2"}, "schedule.workers: got 2"},
      {{"schedule.workers=99", "schedule.kind=fill-drain"}, "schedule.workers: got 99"},
      {{"schedule.microbatch=3"}, "schedule.microbatch: got 3"},
      {{"schedule.microbatch=4", "network.norm=batch"}, "schedule.microbatch: got 4"},
      {{"schedule.kind=zhang"}, "schedule.kind: got zhang, accepted: zhang with"},
      {{"schedule.kind=2bw", "optimizer.batch=8"}, "optimizer.batch: got 8"},
      {{"schedule.kind=file"}, "schedule.file: got ''"},
      {{"schedule.kind=file", "schedule.file=missing.csv"}, "schedule.file: got missing.csv"},
      {{"schedule.file=a.csv"}, "schedule.file: got 'a.csv'"},
      {{"schedule.stages=4"},
       "schedule.stages: got 4, accepted: nothing with the schedules sequential"},
      {{"schedule.placement=[3,5]"}, "schedule.placement: got [3, 5], accepted: nothing with the"},
      {{"schedule.machine=m.toml"}, "schedule.machine: got m.toml, accepted: nothing with sequen"},
      {{"network.name=lenet5", "network.groups=3"},
       "network.groups: got 3, accepted: nothing but with group normalisation"},
      {{"schedule.kind=pb", "schedule.stages=35"}, "schedule.stages: got 35"},
      {{"schedule.kind=pb", "schedule.placement=[4,4]"}, "schedule.placement: got 4"},
      {{"schedule.kind=pb", "schedule.placement=[34]"}, "schedule.placement: got 34"},
      {{"schedule.kind=pb", "schedule.placement=[3]", "schedule.stages=2"},
       "schedule.stages: got 2"},
      {{"schedule.kind=2bw", "schedule.weight_stashing=true"}, "schedule.weight_stashing: got"},
      {{"schedule.kind=pb", "optimizer.batch=1", "schedule.vertical_sync=true"},
       "schedule.vertical_sync: got true, accepted: false but with schedule.weight_stashing"},
      {{"schedule.kind=paci", "schedule.weight_stashing=true", "schedule.vertical_sync=true"},
       "schedule.vertical_sync: got true"},
      // Integers between two doubles are numbers as others are.
      {{"run.watchdog_seconds=9223372036854775807"},
       "--set: run.watchdog_seconds: got 9223372036854775807, accepted: a number from 0 to 1e+06"},
      {{"optimizer.decay_points=[9007199254740993]"},
       "--set: optimizer.decay_points: got [ 9007199254740993 ], accepted: "},
      {{"schedule.kind=random-delay"}, "schedule.delays: got nothing, accepted: uniform:LO:HI, "},
      {{"schedule.kind=random-delay", "schedule.delays=uniform:8:0"},
       "schedule.delays: got uniform:8:0, with 0, accepted: an integer from 8 to 1000"},
      {{"schedule.kind=random-delay", "schedule.delays=uniform:0"},
       "schedule.delays: got uniform:0, accepted: uniform:LO:HI, geometric:P or F.csv"},
      {{"schedule.kind=random-delay", "schedule.delays=uniform:0:1001"},
       "schedule.delays: got 1001, accepted: "},
      {{"schedule.kind=random-delay", "schedule.delays=geometric:0"},
       "schedule.delays: got geometric:0, with 0"},
      {{"schedule.kind=random-delay", "schedule.delays=poisson:4"},
       "schedule.delays: got poisson:4, accepted: uniform:LO:HI, geometric:P or F.csv"},
      {{"schedule.kind=random-delay", "schedule.delays=missing.csv"},
       "schedule.delays: got missing.csv, accepted: a CSV file with the columns"},
      {{"schedule.kind=random-delay", "schedule.delays=markov:chain.csv"},
       "schedule.delays: got markov:chain.csv, accepted: uniform:LO:HI, geometric:P or F.csv"},
      {{"schedule.kind=random-delay", "schedule.delays=trace:trace.csv"},
       "schedule.delays: got trace:trace.csv, accepted: uniform:LO:HI, geometric:P or F.csv"},
      {{"schedule.delays=uniform:0:8"},
       "schedule.delays: got uniform:0:8, accepted: nothing but with schedule.kind = random-delay"},
      {{"schedule.compensate=both"}, "--set: schedule.compensate: got both, accepted: "},
      {{"schedule.kind=uniform-delay", "schedule.compensate=own"},
       "schedule.compensate: got own, accepted: nothing but with schedule.kind = random-delay"},
      {{"schedule.kind=random-delay", "schedule.delays=uniform:0:8", "schedule.delay=4"},
       "schedule.delay: got 4"},
      {{"schedule.kind=random-delay", "schedule.delays=uniform:0:8", "schedule.stages=4"},
       "schedule.stages: got 4"},
      {{"schedule.kind=random-delay", "schedule.delays=uniform:0:8", "rule.name=spectrain"},
       "rule.name: got spectrain"},
      {{"schedule.kind=random-delay", "schedule.delays=uniform:0:8", "optimizer.kind=pipemare"},
       "schedule.kind: got random delays, accepted: others with the optimizer pipemare"},
      {{"schedule.kind=random-delay", "schedule.delays=uniform:0:8", "schedule.compensate=own",
        "rule.name=sc", "optimizer.kind=adam"},
       "schedule.compensate: got own, accepted: mean with rule sc and optimizer adam"},
      {{"schedule.kind=random-delay", "schedule.delays=uniform:0:8", "schedule.compensate=own",
        "rule.name=lwp-w+sc", "schedule.weight_stashing=true", "schedule.workers=2"},
       ""},
      {{"rule.horizon=2"}, "rule.horizon: got 2"},
      {{"rule.name=lwp-v", "rule.sc_delay_scale=2"}, "rule.sc_delay_scale: got 2"},
      {{"rule.name=sc", "rule.sc_delay=2", "rule.sc_delay_scale=2"}, "rule.sc_delay_scale"},
      {{"optimizer.momentum=1"}, "optimizer.momentum: got 1"},
      {{"optimizer.beta1=0.8"},
       "optimizer.beta1: got 0.8, accepted: nothing with the optimizer sgdm"},
      {{"optimizer.kind=adam", "optimizer.momentum=0.8"}, "optimizer.momentum: got 0.8"},
      {{"optimizer.kind=adam", "optimizer.reference_lr=0.1"},
       "optimizer.reference_batch: got nothing, accepted: either lr, or reference_lr and"},
      {{"optimizer.kind=adam", "optimizer.reference_lr=0.1", "optimizer.reference_momentum=0.9",
        "optimizer.reference_batch=128"},
       "optimizer.reference_momentum: got 0.9, accepted: nothing with optimizer.kind = adam"},
      {{"optimizer.kind=adam", "optimizer.reference_lr=0.1", "optimizer.reference_batch=128",
        "optimizer.beta1=1"},
       "optimizer.beta1: got 1"},
      {{"optimizer.reference_lr=0.1", "optimizer.reference_momentum=0.9",
        "optimizer.reference_batch=128", "optimizer.reference_exponent=1"},
       "optimizer.reference_exponent: got 1, accepted: nothing but with reference_lr"},
      {{"optimizer.kind=nadamw", "optimizer.lr=0.1", "optimizer.reference_exponent=1"},
       "optimizer.reference_exponent: got 1"},
      {{"optimizer.kind=adamw", "optimizer.beta2=1"}, "optimizer.beta2: got 1"},
      {{"optimizer.kind=muon", "optimizer.reference_lr=0.02", "optimizer.reference_momentum=0.9",
        "optimizer.reference_batch=128"},
       "optimizer.reference_lr: got 0.02, accepted: nothing with optimizer.kind = muon, whose "
       "steps"},
      {{"optimizer.kind=pipemare", "schedule.kind=pb", "optimizer.batch=1",
        "schedule.weight_stashing=true"},
       "schedule.weight_stashing: got true, accepted: false with optimizer.kind = pipemare"},
      {{"schedule.kind=gpipe", "schedule.recompute_stages=[0]"},
       "schedule.recompute_stages: got 0, accepted: nothing without recompute"},
      {{"schedule.kind=gpipe", "schedule.recompute=true", "schedule.recompute_stages=[100]"},
       "schedule.recompute_stages: got 100, accepted: ascending numbers from 0 to "},
      {{"schedule.kind=pb", "optimizer.batch=1", "network.name=resnet20",
        "schedule.gradient_shrink=0.2"},
       "schedule.gradient_shrink: got 0.2, accepted: 1 where more than one value goes on to stage"},
      {{"schedule.kind=sequential", "schedule.gradient_shrink=0.2"},
       "schedule.gradient_shrink: got 0.2, accepted: 1 with a schedule that is no pipeline"},
      {{"schedule.kind=1f1b", "optimizer.batch=1", "network.name=resnet20",
        "schedule.placement=[10]", "schedule.gradient_shrink=0.2"},
       ""},
      {{"schedule.kind=sequential", "optimizer.batch=1", "rule.name=xpipe"},
       "rule.name: got xpipe, accepted: a pipeline with delays"},
      {{"schedule.kind=1f1b", "optimizer.batch=1", "rule.name=xpipe",
        "schedule.weight_stashing=true"},
       "rule.name: got xpipe, accepted: a pipeline with delays"},
      {{"optimizer.deepest_momentum=1"}, "optimizer.deepest_momentum: got 1"},
      {{"optimizer.max_gradient_norm=0"}, "--set: optimizer.max_gradient_norm: got 0, accepted: "},
      {{"schedule.kind=random-delay", "schedule.delays=uniform:0:8",
        "optimizer.deepest_momentum=0.99"},
       "optimizer.deepest_momentum: got 0.99, accepted: nothing with random delays"},
      {{"schedule.kind=zb-v", "schedule.stages=3", "optimizer.batch=8"},
       "schedule.stages: got 3, accepted: an even number"},
      {{"schedule.kind=dualpipe-v", "schedule.stages=6", "optimizer.batch=4",
        "schedule.microbatch=1"},
       "optimizer.batch: got 4, accepted: a number of micro-batches of an update, now 4, that is "
       "at least 6 with 6 stages"},
      {{"schedule.kind=interleaved", "schedule.stages=3", "optimizer.batch=8"},
       "schedule.stages: got 3, accepted: a multiple of 2 with interleaved"},
      {{"schedule.kind=interleaved", "schedule.stages=6", "optimizer.batch=8",
        "schedule.microbatch=1"},
       "optimizer.batch: got 8, accepted: a number of micro-batches of an update, now 8, that is "
       "a multiple of the number of workers, 3"},
      {{"optimizer.lr=0.1", "optimizer.reference_lr=0.1"}, "optimizer.lr: got 0.1"},
      {{"optimizer.momentum=0.5", "optimizer.reference_lr=0.1"}, "optimizer.momentum: got 0.5"},
      {{"optimizer.reference_lr=0.1"}, "optimizer.reference_momentum: got nothing"},
      {{"optimizer.reference_lr=0", "optimizer.reference_momentum=0",
        "optimizer.reference_batch=1"},
       "optimizer.reference_lr: got 0"},
      {{"optimizer.reference_lr=1e6", "optimizer.reference_momentum=0",
        "optimizer.reference_batch=1", "optimizer.batch=100"},
       "optimizer.reference_lr, scaled to the batch: got 1e+08"},
      {{"optimizer.decay_points=[0.5,0.2]"}, "optimizer.decay_points: got [0.5, 0.2]"},
      {{"optimizer.schedule=one-cycle", "optimizer.peak=0"}, "optimizer.peak: got 0"},
      {{"optimizer.start=0.5"},
       "optimizer.start: got 0.5, accepted: nothing but with optimizer.schedule = one-cycle"},
      {{"optimizer.schedule=cosine", "optimizer.start=0.5"}, "optimizer.start: got 0.5"},
      {{"optimizer.peak=0.5"}, "optimizer.peak: got 0.5, accepted: nothing but with"},
      {{"optimizer.final=0.5"},
       "optimizer.final: got 0.5, accepted: nothing but with optimizer.schedule = cosine, warmup-"},
      {{"optimizer.schedule=cosine", "optimizer.decay_points=[0.5,0.75]"},
       "optimizer.decay_points: got [0.5, 0.75], accepted: nothing but with optimizer.schedule = "
       "steps"},
      {{"optimizer.decay_factor=0.5"},
       "optimizer.decay_factor: got 0.5, accepted: nothing without"},
      {{"optimizer.warmup_samples=10113"},
       "optimizer.warmup_samples: got 10113, accepted: 0 to 10112, the samples of the run"},
      {{"optimizer.warmup_samples=10112"}, ""},
      {{"optimizer.decay_factor=0.5", "optimizer.decay_points=[0.5]"}, ""},
      {{"optimizer.schedule=cosine", "optimizer.final=0.1"}, ""},
      {{"optimizer.schedule=one-cycle", "optimizer.final=0.1", "optimizer.start=0.2"}, ""},
      {{"run.epochs=1e6", "data.name=synthetic"}, ""},
      {{"run.precision=double", "run.convolution=direct"}, "run.convolution: got direct"},
      {{"run.convolution=onednn"},
       "--set: run.convolution: got onednn, accepted: winograd, direct, reference"},
      {{"data.limit_train=10001"}, "data.limit_train: got 10001"},
  };
  for (const Case& item : cases) {
    const std::string line = Refusal([&] {
      Configuration configuration = Load("", item.overrides);
      const DataShape shape = DataShapeOf(configuration);
      Resolve(configuration, shape, 10'000);
      const auto& data = configuration.data;
      const bool reads =
          data.limit_train > 0 || !data.file.empty() || configuration.network.name == "gpt";
      if (reads) LoadRunData(configuration, shape);
    });
    INFO(item.overrides.front() << "\n" << line);
    CHECK(line.starts_with(item.line));
    CHECK((item.line.empty() ? line.empty() : Contains(line, ", accepted: ")));
  }
}

TEST_CASE("a key of another section is answered with its own") {
  const auto line = [](const std::string& text) { return Refusal([&] { Load("", {text}); }); };
  CHECK(Contains(line("run.workers=1"), "run.workers: got an unknown key, accepted: epochs, "));
  CHECK(line("run.workers=1").ends_with(" (did you mean schedule.workers?)"));
  CHECK(line("optimizer.name=adamw").ends_with(" (did you mean optimizer.kind?)"));
  CHECK(line("network.kind=mlp").ends_with(" (did you mean network.name?)"));
  CHECK(line("run.sample=1").ends_with(" (did you mean samples?)"));
  // Where two have it, neither is meant more than the other.
  CHECK_FALSE(Contains(line("network.seed=1"), "data.seed"));
}

TEST_CASE("a list that cannot be trained by is refused by its key") {
  const TemporaryFolder folder;
  const std::string path = folder / "list.csv";
  const auto refusal = [&](const hwmodel::Schedule& list, const std::string& batch = "1") {
    WriteFile(path, hwmodel::ToCsv(list));
    return Refusal([&] {
      Configuration c =
          Load("", {"network.name=lenet5", "schedule.kind=file", "schedule.file=" + path,
                    "optimizer.batch=" + batch, "schedule.microbatch=1"});
      Resolve(c, {{1, 28, 28}, 10}, 10'000);
    });
  };
  CHECK(refusal(hwmodel::PipelinedBackpropagation(12, 52)).empty());
  CHECK(refusal(hwmodel::PipelinedBackpropagation(12, 8)) ==
        "schedule.file: got " + path +
            ", with no two cycles in which every stage does everything, accepted: a schedule that "
            "repeats, and more micro-batches of it (52 are enough for every kind of batchless "
            "schedule)");
  CHECK(refusal(hwmodel::ZeroBubbleH1(12, 52, 13), "13").empty());
  // Updates after the first micro-batch of every two.
  hwmodel::Schedule early = hwmodel::PipelinedBackpropagation(12, 105);
  std::erase_if(early.actions, [](const hwmodel::TimedAction& timed) {
    return timed.action.kind == hwmodel::ActionKind::kUpdate && timed.action.microbatch % 2 == 1;
  });
  CHECK(Contains(refusal(early, "2"),
                 "schedule.file: got an update of stage 0 after another micro-batch"));
  CHECK(refusal(hwmodel::PipelinedBackpropagation(4, 52)) ==
        "schedule.file: got " + path +
            ", a list of 4 stages, accepted: a list of 12 stages, as many as lenet5 has");
}

TEST_CASE("data that are not there name the key, damaged ones the file") {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& name) {
    return Refusal([&] {
      const Configuration c =
          Load("", {"data.name=" + name, "data.root=" + folder.path().string()});
      LoadRunData(c, DataShapeOf(c));
    });
  };
  const std::string got = "data.root: got " + folder.path().string() + ", accepted: a folder with ";
  const std::string fetched = " --out " + folder.path().string() + ")";
  CHECK(refusal("cifar10") == got +
                                  "cifar-10-batches-bin/data_batch_1.bin in it (batchless data "
                                  "fetch cifar10" +
                                  fetched);
  CHECK(refusal("mnist") ==
        got + "mnist/train-images-idx3-ubyte in it (batchless data fetch mnist" + fetched);
  CHECK(refusal("imagefolder") == got + "train in it");
  // The set's own folder in place of the one that it lies in.
  const TemporaryFolder outer;
  std::filesystem::create_directory(outer / "mnist");
  WriteFile(outer / "mnist/train-images-idx3-ubyte", "");
  const std::string inner = (outer / "mnist");
  CHECK(Contains(Refusal([&] {
                   LoadRunData(Load("", {"data.name=mnist", "data.root=" + inner}), kShape);
                 }),
                 "in it; did you mean " + outer.path().string() + "?"));
  std::filesystem::create_directory(folder / "cifar-10-batches-bin");
  const std::string file = folder / "cifar-10-batches-bin/data_batch_1.bin";
  WriteFile(file, "short");
  CHECK(Contains(refusal("cifar10"), file + ": record 0: truncated"));
  WriteFile(file, std::string(3073, '\1'));
  CHECK(Contains(refusal("cifar10"), "test_batch.bin: there is no such file"));
}

TEST_CASE("a list of tokens that says how many there are is read once") {
  const TemporaryFolder folder;
  const std::string path = folder / "tokens.npy";
  // 40 bytes in NumPy's format, all of them below 7.
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (40,), }";
  header.append(117 - header.size(), ' ');
  std::string bytes = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n";
  for (int i = 0; i < 40; ++i) bytes.push_back(static_cast<char>(i % 7));
  WriteFile(path, bytes);
  const Configuration c =
      Load("", {"network.name=gpt", "network.context=2", "data.name=tokens", "data.file=" + path});
  const DataShape shape = DataShapeOf(c);
  CHECK(shape.classes == 7);
  std::filesystem::remove(path);
  const RunData data = LoadRunData(c, shape);
  CHECK(data.train->epoch_size() == 17);  // windows of 36 tokens
  CHECK(data.validation->dataset().classes() == 7);
}

TEST_CASE("a file says how long a run is in one way") {
  const Configuration c = Load("[run]\nepochs = 3\nsamples = 100");
  CHECK(Refusal([&] { RunSamples(c, 1000); }).starts_with("run.epochs: got 3, accepted: either"));
  // Overrides take the file's place, but not each other's.
  const std::string file = "[optimizer]\nbatch = 1\n[run]\nepochs = 3";
  CHECK(RunSamples(Load(file, {"run.samples=7"}), 1000) == 7);
  CHECK(Refusal([&] {
          RunSamples(Load(file, {"run.samples=7", "run.epochs=2"}), 1000);
        }).starts_with("run.epochs: got 2, accepted: either"));
  // 0.07 * 10000 is a little more than 700.
  CHECK(RunSamples(Load("", {"optimizer.batch=1", "run.epochs=0.07"}), 10'000) == 700);
  CHECK(RunSamples(Load("", {"optimizer.batch=1", "run.epochs=0.07001"}), 10'000) == 701);
}

TEST_CASE("a resolved configuration reads back as the same one") {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"network.name=mlp"},
      {"network.name=vgg13", "network.norm=batch"},
      {"network.name=lenet5", "data.name=mnist", "data.root=\"a\\\\b \\\"c\\\"\\u0001\""},
      {"optimizer.reference_lr=0.1", "optimizer.reference_momentum=0.9",
       "optimizer.reference_batch=128", "optimizer.batch=1"},
      {"optimizer.kind=adamw", "optimizer.reference_lr=0.001", "optimizer.reference_batch=128",
       "optimizer.batch=1"},
      {"optimizer.kind=nadam", "optimizer.reference_lr=0.001", "optimizer.reference_batch=128",
       "optimizer.reference_exponent=1", "optimizer.beta1=0.8"},
      {"optimizer.schedule=cosine", "optimizer.warmup_samples=100"},
      {"optimizer.schedule=warmup-cosine", "optimizer.warmup_samples=100", "optimizer.final=0.1"},
      {"optimizer.schedule=one-cycle", "optimizer.start=0.2", "optimizer.peak=0.1"},
      {"run.precision=double", "run.samples=100", "optimizer.weight_decay=0.1234567890123456789"},
      {"rule.name=lwp-w+sc", "rule.horizon_scale=2", "rule.sc_delay=3.5",
       "optimizer.decay_points=[0.1,0.25,1]"},
  };
  for (const std::vector<std::string>& overrides : variants) {
    Configuration configuration = Load("", overrides);
    Resolve(configuration, kShape, 5000);
    const std::string text = ConfigurationText(configuration);
    INFO(text);
    Configuration again = Load(text);
    CHECK_FALSE(FirstDifference(configuration, again));
    CHECK(ConfigurationText(again) == text);
    Resolve(again, kShape, 5000);
    CHECK(ConfigurationText(again) == text);
  }
}

TEST_CASE("what depends on other values is filled in") {
  Configuration vgg = Load("", {"network.name=vgg11", "run.precision=double"});
  Resolve(vgg, kShape, 5000);
  CHECK(vgg.network.norm == "group");
  CHECK(vgg.network.groups == 32);
  CHECK(vgg.schedule.microbatch == 1);
  CHECK(vgg.optimizer.lr == 0.1);
  CHECK(vgg.optimizer.momentum == 0.9);
  CHECK(vgg.run.epochs == 1.0);
  CHECK(vgg.run.convolution == "reference");
  CHECK(vgg.run.checkpoint_every_samples == 5000);
  CHECK(vgg.run.log_every_samples == 500);
  CHECK(vgg.run.validate_every_samples == 5000);
  CHECK(vgg.data.seed == 1);

  Configuration batch_norm = Load("", {"network.norm=batch", "optimizer.batch=32"});
  Resolve(batch_norm, kShape, 5000);
  CHECK(batch_norm.schedule.microbatch == 32);
  CHECK_FALSE(batch_norm.network.groups);

  Configuration mlp = Load("", {"network.name=mlp"});
  Resolve(mlp, kShape, 5000);
  CHECK(mlp.network.hidden == std::vector<std::int64_t>{256, 256});
  CHECK(mlp.network.norm == "none");
}

TEST_CASE("rate and betas of a reference batch reach the trainer") {
  Configuration c =
      Load("", {"optimizer.kind=adam", "optimizer.reference_lr=0.01", "optimizer.batch=2",
                "optimizer.reference_batch=128", "optimizer.beta2=0.99"});
  const training::TrainerOptions options = Resolve(c, kShape, 1000).front();
  CHECK(options.learning_rate.base == Approx(0.01 / 8).epsilon(1e-15));
  CHECK(options.optimizer.Value("beta1") == Approx(std::pow(0.9, 1.0 / 64)).epsilon(1e-15));
  CHECK(options.optimizer.Value("beta2") == Approx(std::pow(0.99, 1.0 / 64)).epsilon(1e-15));
  CHECK(options.optimizer.Value("epsilon") == 1e-8);
  // What was given is in the resolved file, and not what it was scaled to.
  CHECK(c.optimizer.hyperparameters["beta1"] == 0.9);
  CHECK(c.optimizer.hyperparameters["beta2"] == 0.99);
  CHECK(c.optimizer.reference_exponent == 0.5);
}

TEST_CASE("a momentum that scales to less than float holds is none") {
  const std::vector<std::string> scaled = {"optimizer.reference_lr=1e-3",
                                           "optimizer.reference_batch=1", "optimizer.batch=1024",
                                           "run.samples=1024"};
  const auto options = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = scaled;
    all.insert(all.end(), more);
    Configuration c = Load("", all);
    return Resolve(c, kShape, 1024).front();
  };
  // 0.9^1024 is 1.4e-47.
  const training::TrainerOptions sgdm = options({"optimizer.reference_momentum=0.9"});
  CHECK(sgdm.momentum == 0);
  CHECK(sgdm.learning_rate.base == Approx(1e-3 * 1024 / (1 - 0.9)).epsilon(1e-12));
  const training::TrainerOptions adam = options({"optimizer.kind=adam"});
  CHECK(adam.optimizer.Value("beta1") == 0);
  CHECK(adam.optimizer.Value("beta2") == Approx(std::pow(0.999, 1024)).epsilon(1e-12));
  CHECK(options({"optimizer.reference_momentum=0.9", "run.precision=double"}).momentum > 0);
}

TEST_CASE("rate, momentum and drops reach the trainer") {
  Configuration c = Load("", {"optimizer.reference_lr=0.1", "optimizer.reference_momentum=0.9",
                              "optimizer.reference_batch=128", "optimizer.batch=1", "run.epochs=10",
                              "optimizer.decay_points=[0.5,0.75]"});
  const training::TrainerOptions options = Resolve(c, kShape, 1000).front();
  CHECK(options.momentum == Approx(std::pow(0.9, 1.0 / 128)).epsilon(1e-15));
  CHECK(options.learning_rate.base ==
        Approx(0.1 * (1 - options.momentum) / 128 / (1 - 0.9)).epsilon(1e-12));
  CHECK(options.learning_rate.samples == 10'000);
  REQUIRE(options.learning_rate.drops.size() == 2);
  CHECK(options.learning_rate.drops[0].sample == 5000);
  CHECK(options.learning_rate.drops[1].sample == 7500);
  // 0.55 * 100 is a little more than 55.
  Configuration rounded =
      Load("", {"optimizer.batch=1", "run.samples=100", "optimizer.decay_points=[0.55]"});
  CHECK(Resolve(rounded, kShape, 1000).front().learning_rate.drops[0].sample == 55);
}

constexpr const char* kTwoPhases = R"(
[network]
name = "lenet5"
[optimizer]
batch = 4
lr = 0.1
[[phase]]
until = 0.3
schedule.kind = "pb"
schedule.microbatch = 4
rule.name = "sc"
[[phase]]
optimizer.kind = "adam"
optimizer.batch = 6
optimizer.lr = 0.001
)";

TEST_CASE("a number of classes that no network has is said of the data") {
  CHECK_THROWS_WITH(
      NetworkOf(Load("", {"data.name=imagefolder", "data.root=photos"}), {{3, 32, 32}, 1}),
      "data.root: got photos, of 1 classes, accepted: 2 to 1048576");
  CHECK_THROWS_WITH(NetworkOf(Load("", {"network.name=gpt", "data.name=tokens", "data.file=t.npy"}),
                              {{1, 8, 1}, 5'000'001, 8}),
                    "data.file: got t.npy, of 5000001 classes, accepted: 2 to 1048576");
}

TEST_CASE("phases have settings of their own and share the rest") {
  Configuration c = Load(kTwoPhases, {"run.samples=100", "data.name=mnist"});
  const std::vector<training::TrainerOptions> phases = Resolve(c, {{1, 28, 28}, 10}, 1000);
  REQUIRE(phases.size() == 2);
  CHECK(phases[0].rule.rule.name == "sc");
  CHECK(phases[0].schedule.stages == 12);
  CHECK(phases[0].samples == 32);  // 30 rounded up to its batch
  CHECK(phases[1].rule.rule.name == "sgdm");
  CHECK(phases[1].schedule.actions.empty());
  CHECK(phases[1].first_sample == 32);
  CHECK(phases[1].samples == 72);  // 68 rounded up
  CHECK(phases[1].past.count == 0);
  CHECK(phases[1].learning_rate.base == 0.001);
  CHECK(phases[1].learning_rate.samples == 104);
  // What is resolved reads back as the same.
  const std::string text = ConfigurationText(c);
  INFO(text);
  Configuration again = Load(text);
  CHECK_FALSE(FirstDifference(c, again));
  CHECK(ConfigurationText(again) == text);
  again.phases[1].settings.optimizer.lr = 0.01;
  const auto difference = FirstDifference(c, again);
  REQUIRE(difference);
  CHECK(difference->key == "phase.2.optimizer.lr");
  again = c;
  again.phases.pop_back();
  CHECK(FirstDifference(c, again)->key == "phase");
}

TEST_CASE("overrides of keys that phases have count or are refused with the place of the key") {
  const std::string file = R"([optimizer]
lr = 0.1
[[phase]]
until = 0.3
optimizer.lr = 0.2
schedule.kind = "pb"
[[phase]]
optimizer.lr = 0.3
)";
  Configuration c = Load(file, {"phase.2.optimizer.lr=0.5", "phase.1.until=0.75",
                                "phase.1.rule.name=sc", "schedule.kind=1f1b"});
  CHECK(c.phases[0].settings.optimizer.lr == 0.2);
  CHECK(c.phases[0].settings.rule.name == "sc");
  CHECK(c.phases[0].settings.schedule.kind == "pb");
  CHECK(c.phases[0].until == 0.75);
  CHECK(c.phases[1].settings.optimizer.lr == 0.5);
  CHECK(c.phases[1].settings.schedule.kind == "1f1b");
  CHECK(c.phases[1].until == 1);
  const auto refusal = [&](const std::vector<std::string>& overrides) {
    return Refusal([&] { Load(file, overrides); });
  };
  CHECK(Contains(refusal({"optimizer.lr=0.5"}),
                 "--set: optimizer.lr: got 0.5, accepted: nothing, as every phase sets it ("));
  CHECK(Contains(refusal({"optimizer.lr=0.5"}), "run.toml:5, "));
  CHECK(Contains(refusal({"optimizer.lr=0.5"}),
                 "run.toml:8), but --set phase.N.optimizer.lr=value does"));
  CHECK(Contains(refusal({"schedule.kind=pb", "phase.2.schedule.kind=paci"}),
                 "--set phase.2.schedule.kind)"));
  CHECK(refusal({"phase.3.optimizer.lr=1"}) == "--set: got phase.3, accepted: a phase from 1 to 2");
  CHECK(Refusal([&] { Load("", {"phase.1.optimizer.lr=1"}); }) ==
        "--set: got phase.1, accepted: a configuration with phases, [[phase]]");
  for (const char* text : {"phase.0.optimizer.lr=1", "phase.x.optimizer.lr=1",
                           "phase.1x.optimizer.lr=1", "phase.-1.optimizer.lr=1"}) {
    CHECK(refusal({text}) ==
          fmt::format("--set: got {}, accepted: phase.N.section.key=value, N from 1", text));
  }
  CHECK(Contains(refusal({"phase.1=1"}), "accepted: section.key=value or phase.N.section.key=val"));
  CHECK(Contains(refusal({"phase.1.lr=1"}), "accepted: section.key=value or phase.N.section.key="));
  CHECK(refusal({"phase.2.optimizer.lr=-1"}) ==
        "--set: phase.2.optimizer.lr: got -1, accepted: a number from 0 to 1e+06");
  CHECK(Contains(refusal({"phase.2.rule.nam=sc"}), "--set: phase.2.rule.nam: got an unknown key"));
  CHECK(
      Contains(refusal({"phase.2.run.seed=1"}), "--set: phase.run: got a value, accepted: until"));
  CHECK(Contains(refusal({"phase.1.until=1"}), "--set: phase.1.until: got 1, accepted: shares of"));
}

TEST_CASE("numbers that the precision does not hold are refused by name") {
  const auto refusal = [](std::vector<std::string> overrides, const char* precision = "float") {
    overrides.push_back(fmt::format("run.precision={}", precision));
    return Refusal([&] {
      Configuration c = Load("", overrides);
      Resolve(c, kShape, 1000);
    });
  };
  CHECK(refusal({"optimizer.kind=adam", "optimizer.epsilon=1e-46"}) ==
        "optimizer.epsilon: got 1e-46, accepted: a number that float holds, "
        "1.1754943508222875e-38 to 3.4028234663852886e+38 in size");
  CHECK(refusal({"optimizer.momentum=0.99999999"}) ==
        "optimizer.momentum: got 0.99999999, accepted: a number below 1 that float holds, at most "
        "0.9999999403953552");
  // Whatever takes a number as small.
  std::vector<std::vector<std::string>> all{
      {"optimizer.lr="},
      {"optimizer.momentum="},
      {"optimizer.weight_decay="},
      {"optimizer.decay_points=[0.5]", "optimizer.decay_factor="},
      {"optimizer.schedule=one-cycle", "optimizer.start="},
      {"optimizer.schedule=cosine", "optimizer.final="},
      {"rule.name=sc", "rule.sc_a=1", "rule.sc_b="},
      {"rule.name=sc", "rule.sc_delay="},
      {"rule.name=sc", "rule.sc_delay_scale="},
      {"rule.name=lwp-v", "rule.horizon="},
      {"rule.name=lwp-v", "rule.horizon_scale="}};
  for (const training::Optimizer& optimizer : training::Optimizers()) {
    for (const training::Hyperparameter& h : optimizer.hyperparameters) {
      all.push_back(
          {fmt::format("optimizer.kind={}", optimizer.name), fmt::format("optimizer.{}=", h.name)});
    }
  }
  for (std::vector<std::string> overrides : all) {
    const std::string key = overrides.back();
    INFO(overrides.front() << ", " << key);
    overrides.back() = key + "1e-46";
    CHECK(Contains(refusal(overrides), key.substr(0, key.size() - 1) + ": got 1e-46, accepted: a"));
    CHECK(refusal(overrides, "double").empty());
    overrides.back() = key + "1e-310";
    CHECK(
        Contains(refusal(overrides, "double"), ": got 1e-310, accepted: a number that double ho"));
  }
}

TEST_CASE("moments go on from phase to phase with their number of updates and their decay") {
  Configuration c = Load(R"(
[optimizer]
kind = "adam"
batch = 4
[[phase]]
until = 0.25
[[phase]]
until = 0.5
optimizer.kind = "adamw"
[[phase]]
until = 0.75
optimizer.kind = "muon"
optimizer.beta2 = 0.9
[[phase]]
optimizer.kind = "sgdm"
)",
                         {"run.samples=160"});
  const std::vector<training::TrainerOptions> phases = Resolve(c, kShape, 1000);
  CHECK(phases[1].past == training::PastUpdates{.count = 10, .alike = 10});
  CHECK(phases[1].past_of_vectors == phases[1].past);
  // The vectors of muon are adamw's.
  CHECK(phases[2].past == training::PastUpdates{});
  CHECK(phases[2].past_of_vectors == training::PastUpdates{.count = 20,
                                                           .alike = 0,
                                                           .beta1_product = std::pow(0.9, 20),
                                                           .beta2_product = std::pow(0.999, 20)});
  CHECK(phases[3].past_of_vectors == training::PastUpdates{});
}

TEST_CASE("phases that cannot be are refused") {
  const auto refusal = [](const std::string& text, const char* samples = "run.samples=1000") {
    return Refusal([&] {
      Configuration c = Load(text, {samples});
      Resolve(c, kShape, 1000);
    });
  };
  CHECK(Contains(refusal("[[phase]]\n[[phase]]"), "phase.1.until: got nothing, accepted: shares"));
  CHECK(Contains(refusal("[[phase]]\nuntil = 0.5"), "phase.1.until: got 0.5, accepted: shares"));
  CHECK(Contains(refusal("[[phase]]\nuntil = 1\n[[phase]]"), "phase.1.until: got 1, accepted:"));
  CHECK(Contains(refusal("[[phase]]\nuntil = 0.5\n[[phase]]\nuntil = 0.25\n[[phase]]"),
                 "phase.2.until: got 0.25"));
  CHECK(Contains(refusal("[[phase]]\nnetwork.name = \"vgg11\""),
                 "phase.network: got a value, accepted: until and keys of schedule, rule, optimi"));
  CHECK(Contains(refusal("[[phase]]\nrule.nam = \"sc\""), "rule.nam: got an unknown key"));
  CHECK(Contains(refusal("phase = 3"), "phase: got 3, accepted: "));
  CHECK(Contains(refusal("until = 3"), "until: got 3, accepted: keys in a section"));
  // A mini-batch is longer than the second phase.
  CHECK(Contains(
      refusal("[[phase]]\nuntil = 0.5\n[[phase]]\nuntil = 0.6\n[[phase]]", "run.samples=200"),
      "phase.2.until: got 0.6, accepted: more than 0.64"));
  // The first phase's mini-batches are the whole run.
  CHECK(Contains(refusal("[[phase]]\nuntil = 0.7\n[[phase]]", "run.samples=200"),
                 "phase.1.until: got 0.7, accepted: a share whose mini-batches leave samples"));
  // What one of the phases alone cannot have.
  const std::string second = "[[phase]]\nuntil = 0.5\n[[phase]]\n";
  CHECK(Contains(refusal(second + "schedule.kind = \"2bw\"\noptimizer.batch = 1"),
                 "optimizer.batch: got 1, accepted: at least "));
  CHECK(refusal(second + "schedule.kind = \"2bw\"\noptimizer.batch = 1").ends_with(" (phase 2)"));
  CHECK(refusal(second + "optimizer.schedule = \"cosine\"\noptimizer.decay_points = [0.5]")
            .ends_with(" (phase 2)"));
  CHECK_FALSE(Contains(refusal("schedule.kind = \"2bw\"\noptimizer.batch = 1"), "phase"));
}

TEST_CASE("the help lists every key") {
  const std::string help = ConfigurationHelp();
  Configuration configuration;
  for (const ConfigurationKey& key : KeysOf(configuration)) {
    CHECK(Contains(help, fmt::format("[{}]", key.section)));
    CHECK(Contains(help, fmt::format("  {} = ", key.name)));
    CHECK_FALSE(key.help.empty());
  }
}

TEST_CASE("the example configurations are in order") {
  for (const std::string name :
       {"resnet20_sgdm", "resnet20_pb", "lenet5_mnist", "lenet5_hybrid", "resnet20_pipemare",
        "resnet20_cifar10_12epochs", "resnet20_cifar10_24epochs", "vgg11_cifar10"}) {
    INFO(name);
    Configuration c = LoadConfiguration(fmt::format("experiments/configs/{}.toml", name), {});
    CHECK(Refusal([&] { Resolve(c, DataShapeOf(c), 50'000); }).empty());
  }
}

}  // namespace batchless
