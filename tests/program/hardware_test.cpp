// The commands throughput, plan, layout, memory and calibrate: what they say, and what they refuse.
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "result.h"
#include "run_program.h"

using namespace batchless::test;
using Json = nlohmann::json;

namespace {

const std::string kMachines = std::filesystem::absolute("hwmodel/machines").string() + "/";

std::string On(const std::string& machine, const std::string& network,
               const std::string& schedule) {
  return "throughput --network " + network + " --hardware " + kMachines + machine +
         ".toml --schedule " + schedule;
}

}  // namespace

TEST_CASE("throughput has what scripts read") {
  const Json pb = Result(On("wse2", "resnet110", "pb"));
  CHECK(pb["stages"] == 169);
  CHECK(pb["utilisation"] == 1.0);
  CHECK(pb["batch"] == 1);
  CHECK(pb["samples_per_second"].get<double>() > 1e5);
  CHECK(pb["stage_seconds"].size() == 169);
  CHECK(pb["workers"].size() == 169);
  CHECK(pb["largest_delay"] == 2 * 168);
  CHECK(pb["memory"]["fits"] == true);
  CHECK(pb["traffic"]["fabric_bytes_per_sample"].get<double>() > 0);
  CHECK_FALSE(pb["bottleneck"].get<std::string>().empty());
  double slowest = 0;
  for (const Json& seconds : pb["stage_seconds"])
    slowest = std::max(slowest, seconds.get<double>());
  CHECK(pb["samples_per_second"].get<double>() <= 1 / slowest * (1 + 1e-12));

  const Json filled = Result(On("wse2", "resnet110", "fill-drain") + " --batch 128");
  CHECK(filled["utilisation"].get<double>() == Approx(128.0 / (128 + 2 * 169 - 2)));
  CHECK(filled["batch"] == 128);

  const Json run = Result(On("wse2", "resnet20", "pb") + " --samples 1000");
  CHECK(run["utilisation"].get<double>() == Approx(1000.0 / (1000 + 2 * 34 - 2)));
}

TEST_CASE("a name with a comma is one field of a table") {
  const Outcome table = Run(Words("throughput --network resnet20 --schedule pb --hardware " +
                                  kMachines + "cpu_core.toml --batch 1,2"));
  CHECK(table.out.find("resnet20,\"CPU core with AVX2, 3 GHz\",34,pb,") != std::string::npos);
}

TEST_CASE("a row of throughput says how many cores it is for") {
  const Json rows = Result(On("wse2", "resnet20", "pb") + " --cores 100,2000")["rows"];
  CHECK(rows[0]["cores"] == 100);
  CHECK(rows[1]["cores"] == 2000);
}

TEST_CASE("what the model refuses names the machine's file, or the option") {
  const TemporaryFolder folder;
  WriteFile(folder / "m.toml",
            "name = \"m\"\n"
            "[compute]\n"
            "cores = { value = 4, source = \"test\" }\n"
            "peak = { value = \"1 GFLOP/s\", source = \"test\" }\n"
            "number = { value = \"4 B\", source = \"test\" }\n"
            "[local]\n"
            "memory = { value = \"1 GB\", source = \"test\" }\n"
            "bandwidth = { value = \"1 GB/s\", source = \"test\" }\n");
  for (const std::string command : {"throughput --schedule pb", "layout"}) {
    CheckRefusal(command + " --network lenet5 --hardware m.toml",
                 "--hardware m.toml: fabric.bandwidth: got nothing", folder.path());
  }
  CheckRefusal(
      "throughput --network resnet998 --schedule gpipe --hardware " + kMachines + "wse2.toml",
      "--workers: got 1501, accepted: fewer with gpipe");
  CheckRefusal(
      On("wse2", "lenet5", "sequential") + " --batch lin:1:1001:1001 --cores lin:1:1001:1001",
      "--batch, --cores: got lists that multiply to 1002001 rows, accepted: at most "
      "1000000 rows");
}

TEST_CASE("a batch is what each schedule makes of it") {
  CHECK(Result(On("v100", "resnet20", "sequential") + " --batch 128")["microbatch"] == 128);
  const Json gpipe = Result(On("v100", "resnet20", "gpipe") + " --batch 64 --microbatch 4");
  CHECK(gpipe["batch"] == 64);
  CHECK(gpipe["microbatch"] == 4);
  CHECK(RefusalOf(On("v100", "resnet20", "gpipe") + " --batch 65 --microbatch 4") ==
        "batchless: --batch: got 65, accepted: a multiple of the micro-batch, 4\n");
  CHECK(RefusalOf(On("v100", "resnet20", "pb") + " --batch 8 --microbatch 4") ==
        "batchless: --microbatch: got 4, accepted: the batch, 8, with pb\n");
  CHECK(RefusalOf(On("wse2", "resnet20", "2bw") + " --batch 16 --microbatch 2") ==
        "batchless: --batch: got 16, accepted: micro-batches of an update, at least the number of "
        "stages, 34: with fewer there is a third version of the weights\n");
  CheckRefusal(On("wse2", "resnet20", "gpipe") + " --batch 1000000", "--batch: got 1000000");
  CheckRefusal(On("cpu_core", "resnet20", "pb") + " --workers 2", "--workers: got 2");
  CheckRefusal(On("wse2", "resnet20", "gpipe") + " --batch 8 --samples 12",
               "--samples: got 12, accepted: a multiple of the 8");
}

TEST_CASE("a ResNet of any depth 6n + 2 is a network") {
  CHECK(Result(On("wse2", "resnet38", "pb"))["stages"] == 9 * 6 + 7);
  CHECK(Result("layout --network resnet14 --workers 3 --hardware " + kMachines +
               "wse2.toml")["workers"] == 3);
  CHECK(
      Result("plan --model resnet26 --scheme pb --hardware " + kMachines + "v100.toml")["partition"]
          .back()["end_layer"] == 9 * 4 + 7);
  CHECK(Result("memory --network resnet26 --workers 2")["network"] == "resnet26");
  CheckRefusal(On("wse2", "resnet39", "pb"), "--network: got resnet39, accepted: resnet20");
}

TEST_CASE("a simulation too large for memory is refused") {
  CHECK(RefusalOf("stragglers --kind pb --stages 10000 --microbatches 60000") ==
        "batchless: --microbatches: got 60000, accepted: at most 1666 with 10000 stages\n");
  // Before there is a row.
  CHECK(RefusalOf("stragglers --kind pb --stages 2 --microbatches 4 --jitter lin:0:0.9:1000 "
                  "--queue lin:1:1000000:1000000") ==
        "batchless: --jitter, --queue, --cores: got lists that multiply to 1000000000 rows, "
        "accepted: "
        "at most 1000000 rows\n");
}

TEST_CASE("a network's run, simulated, takes as long as predicted where nothing varies") {
  const auto simulated = [](const std::string& arguments) {
    return Result("stragglers --network resnet20 --hardware " + kMachines + "wse2.toml " +
                  arguments)["rows"];
  };
  // Long enough for most of the prediction to be cycles that are not simulated.
  for (const std::string schedule : {"pb", "1f1b"}) {
    const double predicted =
        Result(On("wse2", "resnet20", schedule) + " --samples 1000")["samples_per_second"];
    const Json rows = simulated("--kind " + schedule + " --microbatches 1000 --jitter 0,0.5");
    CHECK(rows[0]["samples_per_second"].get<double>() == Approx(predicted).epsilon(1e-9));
    CHECK(rows[0]["slowdown"] == 1.0);
    CHECK(rows[1]["slowdown"].get<double>() > 1.01);
    CHECK(rows[1]["samples_per_second"].get<double>() < predicted);
  }
  const double groups = Result(On("wse2", "resnet20", "zb-h1") +
                               " --workers 4 --batch 64 --microbatch 2")["samples_per_second"];
  const Json rows = simulated("--kind zb-h1 --workers 4 --microbatches 32 --microbatch 2");
  CHECK(rows[0]["samples_per_second"].get<double>() == Approx(groups).epsilon(1e-9));
  CHECK(rows[0]["seconds"].get<double>() == Approx(64 / groups).epsilon(1e-9));

  CheckRefusal("stragglers --kind pb --network vgg16 --microbatches 100 --hardware " + kMachines +
                   "v100.toml",
               "v100.toml, accepted: a machine whose workers do not wait for one shared");
  CheckRefusal("stragglers --kind gpipe --network resnet20 --microbatches 1000000 --hardware " +
                   kMachines + "wse2.toml",
               "--microbatches: got 1000000, accepted: at most 122549 with 34 stages");
  CheckRefusal("stragglers --kind interleaved --stages 3 --microbatches 8",
               "--stages: got 3, accepted: an even number");
  CheckRefusal("stragglers --kind interleaved --stages 4 --microbatches 7",
               "--microbatches: got 7, accepted: a multiple of the number of workers, 2");
  CHECK(RefusalOf("stragglers --kind pb --stages 3 --microbatches 4 --workers 2") ==
        "batchless: --workers: got 2, accepted: nothing without --network\n");
  CHECK(RefusalOf("stragglers --kind pb --network resnet20 --microbatches 4") ==
        "batchless: --hardware: got nothing, accepted: a machine file, as in hwmodel/machines\n");
  CheckRefusal("stragglers --kind interleaved --network resnet20 --microbatches 4 --hardware " +
                   kMachines + "wse2.toml",
               "--kind: got interleaved");
  CheckRefusal("stragglers --kind pb --network resnet20 --workers 35 --microbatches 4 --hardware " +
                   kMachines + "wse2.toml",
               "--workers: got 35");
}

TEST_CASE("a machine file is named where it is wrong") {
  const TemporaryFolder folder;
  WriteFile(folder / "m.toml", "name = \"m\"\n[compute]\ncores = 4\n");
  CHECK(RefusalOf("throughput --network resnet20 --hardware m.toml --schedule pb", folder.path()) ==
        "batchless: --hardware m.toml:3: compute.cores: got 4, accepted: { value = ..., source = "
        "\"...\" }\n");
}

TEST_CASE("plan has what scripts read") {
  const Json plan = Result("plan --model gpt2-xl --hardware " + kMachines +
                           "v100.toml --scheme 2bw --machines 8 --batch 256");
  CHECK(plan["partition"].size() == plan["depth"]);
  CHECK(plan["width"].get<int>() * plan["depth"].get<int>() <= 8);
  CHECK(plan["partition"].back()["end_layer"] == 2 * 48 + 2);
  CHECK(plan["microbatch"].get<int>() * plan["microbatches_per_update"].get<int>() *
            plan["width"].get<int>() ==
        256);
  CHECK(plan["memory"]["fits"] == true);
  CHECK(plan["samples_per_second"].get<double>() > 0);
  CHECK(plan["recompute"].is_boolean());
  const Json dp = Result("plan --model vgg16-imagenet --hardware " + kMachines +
                         "v100.toml --scheme pipedream --machines 4");
  int machines = 0;
  for (const Json& stage : dp["partition"]) machines += stage["machines"].get<int>();
  CHECK(machines <= 4);
  CheckRefusal("plan --model gpt2 --hardware " + kMachines + "wse2.toml --scheme 2bw",
               "wse2.toml: network.bandwidth: got nothing, accepted: a positive one, between "
               "machines, or --machines 1");
  CheckRefusal("plan --model gpt2 --hardware " + kMachines +
                   "v100.toml --scheme pipedream --max-microbatch 8",
               "--max-microbatch: got 8");
}

TEST_CASE("a table of several batches goes to standard output as it goes to a file") {
  const TemporaryFolder folder;
  const std::string line = On("wse2", "lenet5", "sequential") + " --batch 1,8";
  const Outcome printed = Run(Words(line));
  CHECK(printed.exit_code == 0);
  CHECK(Lines(printed.out).size() == 3);
  CHECK(printed.out.starts_with("network,hardware,stages,schedule,"));
  const Outcome written = Run(Words(line + " --out t.csv"), folder.path());
  CHECK(written.exit_code == 0);
  CHECK(written.out.empty());
  CHECK(ReadFile(folder / "t.csv") == printed.out);
  // An energy that nobody knows is none.
  for (const std::string machine : {"wse2", "cpu_core"}) {
    const Json object = Result(On(machine, "lenet5", "pb"));
    REQUIRE(Run(Words(On(machine, "lenet5", "pb") + " --out e.csv"), folder.path()).exit_code == 0);
    const std::vector<std::vector<std::string>> table = CsvRows(ReadFile(folder / "e.csv"));
    // From the end: a machine's name may have a comma.
    const auto from_end = table[0].end() - std::ranges::find(table[0], "joules_per_sample");
    CHECK((table[1].end() - from_end)->empty() == object["joules_per_sample"].is_null());
    CHECK(object["joules_per_sample"].is_null() == (machine == "cpu_core"));
  }
}

TEST_CASE("amdp takes as many micro-batches an update as one likes") {
  for (int batch = 1; batch <= 13; ++batch) {
    INFO(batch);
    const Json found =
        Result(On("wse2", "lenet5", "amdp") + " --workers 4 --batch " + std::to_string(batch));
    CHECK(found["batch"] == batch);
  }
}

TEST_CASE("a plan says how many of the machines it uses") {
  const std::string pb =
      "plan --model resnet56 --hardware " + kMachines + "v100.toml --scheme pb --batch 128 ";
  const std::string three = pb + "--machines 3 --placement 28";
  CHECK(Result(three)["machines"] == 3);
  CHECK(Result(three)["machines_used"] == 2);
  CHECK(Run(Words(three)).out.find(", of which it uses 2, pb") != std::string::npos);
  CHECK(Result(pb + "--machines 2")["machines_used"] == 2);
  CHECK(Run(Words(pb + "--machines 2")).out.find("of which") == std::string::npos);
  // Pipelines of three, side by side.
  CHECK(Result("plan --model gpt2 --hardware " + kMachines +
               "v100.toml --machines 7 --batch 64 --scheme 2bw --depth 3")["machines_used"] == 6);
}

TEST_CASE("plan cuts where it is told to, and as deep") {
  const std::string pb =
      "plan --model resnet56 --hardware " + kMachines + "v100.toml --scheme pb --batch 128 ";
  const Json one = Result(pb + "--machines 1");
  const Json two = Result(pb + "--machines 2 --placement 28");
  CHECK(two["partition"][0]["end_layer"] == 28);
  CHECK(two["depth"] == 2);
  const double speedup =
      two["samples_per_second"].get<double>() / one["samples_per_second"].get<double>();
  CHECK(speedup > 1);
  // An even cut is at least as good.
  CHECK(Result(pb + "--machines 2")["samples_per_second"].get<double>() >=
        two["samples_per_second"].get<double>());
  CHECK(RefusalOf(pb + "--machines 2 --placement 28,40") ==
        "batchless: --placement: got 28,40, accepted: fewer cuts than the 2 machines\n");
  CHECK(RefusalOf(pb + "--machines 3 --placement 40,28") ==
        "batchless: --placement: got 40,28, accepted: ascending numbers of layers\n");
  CheckRefusal(pb + "--machines 2 --placement 88", "--placement: got 88");
  const std::string gpt =
      "plan --model gpt2 --hardware " + kMachines + "v100.toml --machines 8 --batch 64 --scheme ";
  CHECK(Result(gpt + "2bw --depth 4")["depth"] == 4);
  CHECK(RefusalOf(gpt + "2bw --placement 4") ==
        "batchless: --placement: got 4, accepted: nothing with 2bw\n");
  CHECK(RefusalOf(gpt + "balanced --depth 4") ==
        "batchless: --depth: got 4, accepted: nothing with balanced\n");
}

TEST_CASE("plan says how it numbers machines in servers") {
  const std::string gpt =
      "plan --model gpt2-xl --machines 16 --batch 64 --depth 2 --hardware " + kMachines;
  const Json slow = Result(gpt + "v100_servers.toml --scheme gpipe");
  CHECK(slow["neighbours"] == "copies");
  const Json fast = Result(gpt + "v100.toml --scheme gpipe");
  CHECK(fast["neighbours"] == "stages");
  CHECK(slow["samples_per_second"] < fast["samples_per_second"]);
  CHECK(Result(gpt + "v100.toml --scheme model-parallel")["samples_per_second"] <
        fast["samples_per_second"]);
}

TEST_CASE("validate has what scripts read") {
  const Json all = Result("validate --hardware " + kMachines + "v100.toml");
  REQUIRE(all["rows"].size() == 8 + 28 + 8);
  std::map<std::string, int> fitted;
  double mean = 0;
  for (const Json& row : all["rows"]) {
    const double error = row["error"].get<double>();
    CHECK(error == Approx(row["predicted"].get<double>() / row["measured"].get<double>() - 1));
    if (row["fitted"].get<bool>()) ++fitted[row["name"].get<std::string>()];
    if (row["quantity"] == "step seconds" && row["fitted"] == false) mean += std::abs(error) / 4;
  }
  CHECK(fitted == std::map<std::string, int>{{"megatron-22B", 2}, {"turing-530B", 2}});
  CHECK(all["mean_time_error"].get<double>() == Approx(mean));
  CHECK(mean < 0.06);
  CHECK(all["worst_time_error"].get<double>() < 0.12);
  // Nothing is left to be held against where all are fitted.
  const std::string every = "validate --fit megatron-22B,gpt3-175B,turing-530B,megatron-1T";
  CHECK(Result(every)["mean_time_error"].is_null());
  CHECK(Result(every)["worst_time_error"].is_null());
  CHECK(Contains(Run(Words(every)).out, "seconds that were not fitted: none\n"));
  // The planner's speedup.
  const std::string pb =
      "plan --model resnet56 --hardware " + kMachines + "v100.toml --scheme pb --batch 128 ";
  const auto rate = [](const Json& plan) { return plan["samples_per_second"].get<double>(); };
  CHECK(
      all["rows"][36]["predicted"].get<double>() ==
      Approx(rate(Result(pb + "--machines 2 --placement 28")) / rate(Result(pb + "--machines 1"))));
  CHECK(all["rows"][36]["measured"].get<double>() == Approx(6745.0 / 4090));
  CHECK(RefusalOf("validate --fit gpt3-175B") ==
        "batchless: --fit: got gpt3-175B, accepted: two or more of megatron-22B, gpt3-175B, "
        "turing-530B, "
        "megatron-1T\n");
}

TEST_CASE("layout has what scripts read") {
  const TemporaryFolder folder;
  const Json layout = Result("layout --network resnet20 --hardware " + kMachines +
                                 "wse2.toml --workers 4,34 --slack 0.5 --out l.csv",
                             folder.path());
  CHECK(layout["layouts"].size() == 2);
  CHECK(layout["partition"].size() == layout["workers"]);
  CHECK(layout["partition"].back()["end_stage"] == 34);
  CHECK(layout["largest_delay"].get<int>() == 2 * (layout["workers"].get<int>() - 1));
  CHECK(layout["memory"]["fits"] == true);
  // What the throughput model says of the same pipeline.
  const Json all = Result(On("wse2", "resnet20", "pb") + " --workers 34");
  CHECK(layout["layouts"][1]["samples_per_second"].get<double>() ==
        Approx(all["samples_per_second"].get<double>()).epsilon(1e-9));
  CHECK(Lines(ReadFile(folder / "l.csv")).size() == 3);
  // No layout is slower than the even one, whatever memory there is.
  for (const std::string machine : {"wse2", "ipu_gc2"}) {
    for (const std::string workers : {"5", "12"}) {
      const Json found = Result("layout --network resnet20 --hardware " + kMachines + machine +
                                ".toml --workers " + workers);
      CHECK(found["layouts"][0]["samples_per_second"].get<double>() >=
            Result(On(machine, "resnet20", "pb") + " --workers " + workers)["samples_per_second"]
                    .get<double>() *
                (1 - 1e-12));
    }
  }
  CHECK(RefusalOf("layout --network resnet20 --hardware " + kMachines + "wse2.toml --workers 35") ==
        "batchless: --workers: got 35, accepted: 1 to 34, the stages and cores there are\n");
}

TEST_CASE("costs lists every stage and their sum") {
  const TemporaryFolder folder;
  const std::string line = "costs --network resnet20";
  const Json costs = Result(line + " --out c.csv", folder.path());
  REQUIRE(costs["stages"].size() == 34);
  // By hand: 16 kernels of 3 x 3 x 3 at 32 x 32 places, and an image of 3 x 32 x 32 numbers.
  const Json& first = costs["stages"][0];
  CHECK(first["name"] == "conv1");
  CHECK(first["parameters"] == 16 * 27);
  CHECK(first["forward_flops"] == 2 * 16 * 27 * 1024);
  CHECK(first["input_gradient_flops"] == 0);
  CHECK(first["weight_gradient_flops"] == first["forward_flops"]);
  CHECK(first["boundary_bytes"] == 4 * 16 * 1024);
  CHECK(costs["input_bytes"] == 4 * 3 * 1024);
  CHECK(costs["total"]["parameters"] == 272'282);
  CHECK(costs["total"]["weight_bytes"] == 4 * 272'282);
  const Json halves = Result(line + " --bytes-per-number 2");
  CHECK(halves["total"]["weight_bytes"] == 2 * 272'282);
  CHECK(halves["total"]["forward_flops"] == costs["total"]["forward_flops"]);
  const std::vector<std::string> rows = Lines(ReadFile(folder / "c.csv"));
  REQUIRE(rows.size() == 35);
  CHECK(rows[0].starts_with("stage,name,parameters,forward_flops,"));
  CHECK(rows[1].starts_with("0,conv1,432,884736,0,884736,"));
  CHECK(Run(Words(line)).out == ReadFile(folder / "c.csv"));
  // What throughput predicts from is the same.
  const Json throughput =
      Result("throughput --network resnet20 --hardware " + kMachines + "wse2.toml --schedule pb");
  double flops = 0;
  for (const char* name :
       {"forward_flops", "input_gradient_flops", "weight_gradient_flops", "update_flops"}) {
    flops += costs["total"][name].get<double>();
  }
  CHECK(throughput["flops_per_sample"] == flops);
  CHECK(Result("costs --network vgg16 --norm none")["total"]["parameters"] == 15'245'130);
}

TEST_CASE("memory says what pipelining adds") {
  // Counted by hand: of 115 722 results of AlexNet's layers, 76 800 come before the cut; each has a
  // gradient.
  const double weights = 4.0 * 23'272'266;
  const double activations = 2 * 4.0 * 128 * 115'722;
  const double waiting = 2 * 4.0 * 128 * 76'800;
  const TemporaryFolder folder;
  const std::string line = "memory --network alexnet --placement 8 --microbatch 128";
  const Json memory = Result(line + " --out m.csv", folder.path());
  CHECK(memory["placement"] == Json({8}));
  CHECK(memory["weight_bytes"] == weights);
  CHECK(memory["activation_bytes"] == activations);
  // Without the gradients, and without what no backward reads.
  CHECK(memory["kept_activation_bytes"].get<double>() < activations / 2);
  const Json& pipedream = memory["rows"][0];
  const Json& stale = memory["rows"][1];
  CHECK(pipedream["scheme"] == "pipedream");
  CHECK(stale["scheme"] == "stale");
  CHECK(stale["further_weight_bytes"] == 0);
  CHECK(pipedream["further_weight_bytes"] == 4 * weights);
  for (const Json& row : memory["rows"]) {
    CHECK(row["further_activation_bytes"] == waiting);
    const double further = row["further_weight_bytes"].get<double>() + waiting;
    CHECK(row["increase_percent"].get<double>() ==
          Approx(100 * further / (activations + weights)).epsilon(1e-12));
  }
  const std::vector<std::string> rows = Lines(ReadFile(folder / "m.csv"));
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] ==
        "scheme,weight_bytes,activation_bytes,kept_activation_bytes,further_weight_bytes,"
        "further_activation_bytes,increase_percent");
  CHECK(rows[1].starts_with("pipedream,"));
  CHECK(rows[2].starts_with("stale,"));
  CHECK(Run(Words(line)).out == ReadFile(folder / "m.csv"));

  CHECK(Result("memory --network alexnet --placement 8 --relu-in-place")["activation_bytes"] <
        Result("memory --network alexnet --placement 8")["activation_bytes"]);
  CHECK(Result("memory --network vgg16 --workers 1 --norm none")["rows"][0]["weight_bytes"] ==
        4 * 15'245'130);
}

TEST_CASE("memory refuses what does not go together") {
  CHECK(RefusalOf("memory --network lenet5 --placement 8,6") ==
        "batchless: --placement: got 8,6, accepted: ascending numbers of layers\n");
  CHECK(RefusalOf("memory --network lenet5 --placement 6 --workers 2") ==
        "batchless: --workers: got 2, accepted: nothing with --placement\n");
  CHECK(RefusalOf("memory --network lenet5 --placement 6 --microbatches-per-update 2") ==
        "batchless: --microbatches-per-update: got 2, accepted: nothing with --placement\n");
  CHECK(RefusalOf("memory --network lenet5 --workers 2 --relu-in-place") ==
        "batchless: --placement: got nothing, accepted: a list of stages with --relu-in-place\n");
  CHECK(RefusalOf("memory --network lenet5 --placement 6 --norm group") ==
        "batchless: --norm: got group, accepted: none for lenet5\n");
  CHECK(RefusalOf("memory --network gpt2 --workers 2 --norm none") ==
        "batchless: --norm: got none, accepted: nothing with gpt2\n");
  CHECK(RefusalOf("memory --network gpt2 --placement 6") ==
        "batchless: --network: got gpt2, accepted: one whose layers are known with --placement\n");
}

TEST_CASE("calibrate writes a machine that throughput reads") {
  const TemporaryFolder folder;
  const Json measured = Result("calibrate --network lenet5 --rounds 3 --out m.toml", folder.path());
  CHECK(measured["forward_seconds"].size() == 12);
  double seconds = 0;
  for (const char* pass : {"forward_seconds", "backward_seconds", "update_seconds"}) {
    for (const Json& value : measured[pass]) seconds += value.get<double>();
  }
  CHECK(measured["seconds_per_microbatch"].get<double>() == Approx(seconds));
  const Json predicted =
      Result("throughput --network lenet5 --hardware m.toml --schedule sequential", folder.path());
  CHECK(predicted["samples_per_second"].get<double>() == Approx(1 / seconds));
  // One core sends nothing to another.
  CHECK(predicted["traffic"]["fabric_bytes_per_sample"] == 0);
  CHECK(folder.Files() == std::vector<std::string>{"m.toml"});
  // A network with no more than the name of the measured one has other times.
  std::string other = Result("network lenet5")["text"];
  const std::string width = "features = 120";
  REQUIRE(Contains(other, width));
  other.replace(other.find(width), width.size(), "features = 1200");
  WriteFile(folder / "other.toml", other);
  const std::string line = "throughput --network other.toml --hardware m.toml --schedule pb";
  CHECK(Contains(RefusalOf(line, folder.path()), "m.toml: measured.lenet5: got times of "));
}
