#include "commands_table.h"

#include <array>
#include <filesystem>
#include <utility>

#include "npz.h"

namespace batchless::test {
namespace {

using Values = std::vector<std::string>;

// What no number is written as.
const Values kNoNumber = {"abc", "1e",   "nan",   "inf", "-inf", "",
                          "0x1", "1,5x", "1e999", " 1",  "--"};

Values Plus(const Values& first, const Values& second) {
  Values all = first;
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

const Values kBadDelay = Plus(kNoNumber, {"-1", "1.5", "10000001", "1e8"});
const Values kBadMomentum = Plus(kNoNumber, {"-0.5", "1.0000001"});
const Values kBadRate = Plus(kNoNumber, {"0", "-1", "1e7", "1e-400"});
const Values kBadCoefficient = Plus(kNoNumber, {"-1", "1e9"});
const Values kBadSigned = Plus(kNoNumber, {"-1e9", "1e9"});
const Values kBadScale = Plus(kNoNumber, {"-1", "11"});
const Values kBadThreads = Plus(kNoNumber, {"-1", "0.5", "1025"});
const Values kBadList = {"1,",          ",1",          "lin:0:1",     "lin:0:1:0",
                         "lin:0:1:1.5", "log:1:0:3",   "log:1:nan:3", "cubic:0:1:3",
                         "lin:a:1:3",   "log:1:2:1e9", "lin:0:1:2:3"};
const Values kBadPath = {"",           "missing/f.csv", "f.txt",      "f",
                         "folder.csv", "/dev/full",     "/proc/f.csv"};

const Values kBadPage = {"", "missing/f.html", "f.txt", "f", "folder.csv", "/dev/full"};

// What a run leaves that was interrupted after its first rows.
std::string RunFolder() {
  static const TemporaryFolder kFolder;
  WriteFile(kFolder / "config.toml", "[rule]\nname = \"sc\"\n");
  WriteFile(kFolder / "metrics.csv",
            "samples,epoch,learning_rate,train_loss,train_accuracy,validation_loss,"
            "validation_accuracy\n16,0.5,0.1,2.5,0.25,,\n32,1,0.1,,,2.25,0.5\n");
  WriteFile(kFolder / "manifest.json", "{\"version\": \"1\"}\n");
  return kFolder.path().string();
}

// A gpt of one block, width 4, context 3 and 5 tokens, whose weights are all alike.
std::string GptWeights() {
  static const TemporaryFolder kFolder;
  std::string path = kFolder / "gpt.npz";
  std::vector<training::NamedTensor> weights;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    weights.push_back({name, shape, std::vector<double>(size, 0.5)});
  };
  add("wte.weight", {5, 4});
  add("wpe.weight", {3, 4});
  for (const std::string name : {"h.0.ln_1", "h.0.ln_2", "ln_f"}) {
    add(name + ".weight", {4});
    add(name + ".bias", {4});
  }
  const std::pair<std::string, std::array<std::int64_t, 2>> linear[] = {
      {"h.0.attn.c_attn", {12, 4}},
      {"h.0.attn.c_proj", {4, 4}},
      {"h.0.mlp.c_fc", {16, 4}},
      {"h.0.mlp.c_proj", {4, 16}}};
  for (const auto& [name, shape] : linear) {
    add(name + ".weight", {shape[0], shape[1]});
    add(name + ".bias", {shape[0]});
  }
  add("lm_head.weight", {5, 4});
  WriteNpz(path, weights, training::Precision::kSingle);
  return path;
}

const std::string kMachine = std::filesystem::absolute("hwmodel/machines/v100.toml").string();

Values List(const Values& bad) { return Plus(bad, kBadList); }

std::vector<OptionCase> WithRule(std::vector<OptionCase> options, bool lists) {
  const auto form = [&](const Values& bad) { return lists ? List(bad) : bad; };
  options.insert(options.begin(),
                 {{"--rule", "lwp-v+sc", {"sgd", "", "lwp", "SGDM", "sc;", "lwp-w+sc,nope"}, true},
                  {"--horizon", "3", form(kBadCoefficient)},
                  {"--horizon-scale", "2", form(kBadScale)},
                  {"--sc-delay", "3", form(kBadCoefficient)},
                  {"--sc-delay-scale", "2", form(kBadScale)},
                  {"--sc-a", "0.5", form(kBadSigned)},
                  {"--sc-b", "0.5", form(kBadSigned)},
                  // Coefficients of the rule linear, which this one refuses.
                  {"--numerator", "", List(Plus(kNoNumber, {"1", "1e9"}))},
                  {"--denominator", "", List(Plus(kNoNumber, {"1,-1", "1e9"}))}});
  return options;
}

// In place of --delay, which each call has.
std::vector<OptionCase> WithDelays(std::vector<OptionCase> options) {
  options.push_back({"--delays",
                     "",
                     {"", "uniform", "uniform:0", "uniform:3:1", "uniform:0:1001", "uniform:a:2",
                      "geometric:0", "geometric:2", "geometric:0.001", "missing.csv", "f.txt",
                      "markov:missing.csv", "trace:", "folder.csv"}});
  options.push_back({"--compensate", "", {"mean", "", "Own"}});
  options.push_back({"--largest-delay", "", {"8", "-1", "abc"}});
  return options;
}

std::vector<CommandCase> MakeCases() {
  const OptionCase delay = {"--delay", "4", kBadDelay, true};
  const OptionCase momentum = {"--momentum", "0.9", kBadMomentum, true};
  const OptionCase rate = {"--rate", "0.01", kBadRate, true};
  const OptionCase threads = {"--threads", "1", kBadThreads};
  const OptionCase csv = {"--out", "f.csv", Plus(kBadPath, {"f.npz"}), false};
  return {
      {"rules", {}, {}},
      {"optimizers", {}, {}},
      {"stability", WithRule(WithDelays({delay, momentum, rate}), false), {"--roots"}},
      {"sweep",
       WithRule({delay,
                 {"--momenta", "0,0.9", List(kBadMomentum)},
                 {"--rates", "log:0.001:1:3", List(kBadRate)},
                 {"--out", "f.npz", kBadPath, true},
                 threads,
                 {"--simd", "scalar", {"", "avx1", "AVX2"}}},
                false),
       {}},
      {"optimum",
       WithRule(
           WithDelays({{"--delay", "4", List(kBadDelay), true},
                       {"--condition", "10", List(Plus(kNoNumber, {"0.5", "-1", "1e13"})), true},
                       {"--momentum", "0.9", List(kBadMomentum)},
                       {"--over", "convex", {"", "convexe", "Convex", "1"}},
                       csv,
                       threads}),
           true),
       {}},
      {"limit",
       {{"--delay", "4", List(kBadDelay), true},
        {"--condition", "10", List(Plus(kNoNumber, {"0.5", "-1", "1e13"})), true},
        csv},
       {}},
      {"design",
       {{"--delay", "1", List(Plus(kNoNumber, {"-1", "129", "0.5"})), true},
        {"--condition", "10", List(Plus(kNoNumber, {"1", "-1", "1e7"})), true},
        {"--order", "2", List(Plus(kNoNumber, {"1", "9", "2.5"})), false, true},
        {"--noise", "0.5", List(Plus(kNoNumber, {"-1", "0.91", "1"}))},
        {"--momentum", "0.5", Plus(kNoNumber, {"-1", "1"})},
        {"--over", "convex", {"", "convexe", "Convex", "1"}},
        csv,
        threads},
       {}},
      {"boundary",
       WithRule(WithDelays({{"--delay", "4", List(kBadDelay), true},
                            {"--momentum", "0.9", List(kBadMomentum), true},
                            {"--trace", "", {"rate", ""}},
                            csv,
                            threads}),
                true),
       {}},
      {"margin",
       WithRule({{"--delay", "4", List(kBadDelay), true},
                 {"--momentum", "0.9", List(kBadMomentum), true},
                 {"--rate", "0.01", List(kBadRate), true},
                 csv,
                 threads},
                true),
       {}},
      {"worst-case",
       WithRule({{"--delay", "4", List(Plus(kBadDelay, {"257"})), true},
                 {"--momentum", "0.9", List(kBadMomentum), true},
                 {"--rate", "0.01", List(Plus(kBadRate, {"1e-51"})), true},
                 {"--condition", "10", List(Plus(kNoNumber, {"0.5", "-1", "1e7"})), true},
                 csv,
                 threads},
                true),
       {}},
      {"noise",
       WithRule(WithDelays({{"--delay", "4", Plus(kBadDelay, {"10001"}), true},
                            momentum,
                            rate,
                            {"--average", "30", Plus(kNoNumber, {"0.5", "-1", "1e10"})}}),
                false),
       {}},
      {"frontier",
       WithRule({{"--delay", "4", List(Plus(kBadDelay, {"401"})), true},
                 {"--condition", "10", Plus(kNoNumber, {"0.5", "-1", "1e13"}), true},
                 {"--half-lives", "400", List(Plus(kNoNumber, {"0", "-1", "1e10"})), true},
                 csv,
                 threads},
                true),
       {"--average"}},
      {"frequency",
       WithRule({delay,
                 momentum,
                 rate,
                 {"--frequencies", "0.1,1", List(Plus(kNoNumber, {"0", "-1", "3.2"})), true},
                 csv},
                false),
       {}},
      {"inconsistency",
       WithRule({{"--model", "discrepancy", {"", "Discrepancy", "none"}, true},
                 {"--discrepancies", "0,1", List(Plus(kNoNumber, {"-101", "101"})), true},
                 {"--delay", "4", Plus(kBadDelay, {"201"}), true},
                 {"--backward-delay", "1", Plus(kBadDelay, {"5", "201"})},
                 momentum,
                 {"--backward", "stashed", {"", "Current", "none"}},
                 csv,
                 threads},
                true),
       {}},
      {"continuous",
       {{"--rule", "lwp-v+sc", {"sgd", "", "lwp", "SGDM", "nesterov", "free", "linear"}, true},
        {"--horizon", "", {"3"}},
        {"--horizon-scale", "2", kBadScale},
        {"--sc-delay", "", {"3"}},
        {"--sc-delay-scale", "2", kBadScale},
        {"--sc-a", "", {"0.5"}},
        {"--sc-b", "", {"0.5"}},
        {"--damping", "1", Plus(kNoNumber, {"0", "-1", "1001"}), true},
        {"--delay-time", "0.3", Plus(kNoNumber, {"-1", "1001"}), true},
        {"--duration", "3", Plus(kNoNumber, {"0", "-1", "1e7"})},
        {"--steps-per-delay", "8", Plus(kNoNumber, {"0", "-1", "1.5", "100001"})},
        {"--initial-weight", "-2", Plus(kNoNumber, {"1e101"})},
        csv},
       {}},
      {"critical-delay",
       {{"--rule", "lwp-v+sc", {"sgd", "", "lwp", "SGDM", "nesterov", "free", "linear"}, true},
        {"--horizon", "", {"3"}},
        {"--horizon-scale", "2", List(kBadScale)},
        {"--sc-delay", "", {"3"}},
        {"--sc-delay-scale", "2", List(kBadScale)},
        {"--sc-a", "", {"0.5"}},
        {"--sc-b", "", {"0.5"}},
        {"--damping", "1", List(Plus(kNoNumber, {"0", "-1", "1001"})), true},
        {"--delays", "4", List(Plus(kNoNumber, {"0", "-1", "1.5", "100001"}))},
        threads,
        csv},
       {}},
      {"roots",
       WithRule({{"--delay", "4", Plus(kBadDelay, {"1001"}), true},
                 momentum,
                 {"--rates", "0.01,0.1", List(kBadRate), true},
                 csv,
                 threads},
                false),
       {}},
      {"simulate",
       WithRule({delay,
                 momentum,
                 rate,
                 {"--steps", "5", Plus(kNoNumber, {"0", "-1", "1.5", "5000001"}), true},
                 {"--initial-weight", "-2", Plus(kNoNumber, {"1e101"})},
                 csv},
                false),
       {"--impulse"}},
      {"advise",
       {{"--network", "lenet5", {"", "resnet19", "lenet"}, true},
        {"--condition", "100", Plus(kNoNumber, {"0.5", "1e20"}), true},
        {"--schedule", "1f1b", {"", "pipe", "PB"}},
        {"--rule", "sgdm,sc", {"", "sgd", "linear", "spectrain", "xpipe", "sgdm,"}},
        {"--momentum", "0.9", Plus(kNoNumber, {"-0.1", "1.1"})},
        csv},
       {}},
      {"pipeline-stability",
       WithRule(
           {{"--hessian", "", {"", "missing.npz", "folder.csv", "text.npz"}},
            {"--spectrum", "1,0.1", List(Plus(kNoNumber, {"1e13", "lin:1:2:5000"})), true},
            {"--condition", "", List(Plus(kNoNumber, {"0.5"}))},
            {"--coupling", "0.5", List(Plus(kNoNumber, {"-0.1", "1.1"}))},
            {"--seed", "7", Plus(kNoNumber, {"-1", "0.5", "4294967296"})},
            {"--stages", "2", Plus(kNoNumber, {"0", "-1", "1.5", "3", "3001"}), true},
            {"--widths", "1,1", Plus(kNoNumber, {"2", "2,1", "0,2", "1,1,1", "1,,1"})},
            {"--schedule", "fill-drain", {"", "pipe", "PB"}},
            {"--delays", "4,0", Plus(kNoNumber, {"1", "1,2,3", "-1,0", "1.5,0", "50000000,0"})},
            momentum,
            rate,
            {"--learning-rate", "0.01", Plus(kNoNumber, {"-1", "1e7"})},
            {"--out", "", {"f.csv"}}},
           false),
       {"--optimum"}},
      {"data",
       {{"--out", "d", {"", "text.npz/d", "text.npz", "/dev/full", "/proc/d"}, true},
        {"--mirror", "", {"", "f", "ftp://host/d", "-x"}},
        {"--seed", "7", Plus(kNoNumber, {"-1", "0.5", "4294967296"})},
        {"--train-size", "30", Plus(kNoNumber, {"-1", "0", "0.5", "1000001"})},
        {"--validation-size", "20", Plus(kNoNumber, {"-1", "0", "0.5", "1000001"})}},
       {},
       {"synth"}},
      {"schedule",
       {{"--kind", "pb", {"", "PB", "abc", "zb"}, true},
        {"--stages", "2", Plus(kNoNumber, {"0", "-1", "1.5", "10001"}), true},
        {"--microbatches", "4", Plus(kNoNumber, {"0", "-1", "1.5", "1e8"}), true},
        {"--microbatches-per-update", "1", Plus(kNoNumber, {"0", "-1", "1.5", "2"})},
        {"--chunks", "1", Plus(kNoNumber, {"0", "-1", "1.5", "2"})},
        {"--file", "", {"", "missing.csv", "folder.csv", "text.npz"}},
        {"--out", "f.csv", {"", "missing/f.csv", "f.npz", "f", "folder.csv", "/dev/full"}}},
       {"--weight-stashing", "--vertical-sync"}},
      {"throughput",
       {{"--network", "lenet5", {"", "resnet21", "LENET5", "gpt4"}, true},
        {"--hardware", kMachine, {"", "missing.toml", "folder.csv", "text.npz"}, true},
        {"--schedule", "pb", {"", "PB", "abc", "zb"}, true},
        {"--batch", "1", List(Plus(kNoNumber, {"0", "-1", "1.5", "1e7"}))},
        {"--microbatch", "1", Plus(kNoNumber, {"0", "-1", "1.5", "1e7"})},
        {"--cores", "9", List(Plus(kNoNumber, {"0", "-1", "1.5", "1e9"}))},
        csv,
        {"--workers", "2", Plus(kNoNumber, {"0", "-1", "1.5", "13", "10001"})},
        {"--samples", "5", Plus(kNoNumber, {"0", "-1", "1.5", "1e13"})}},
       {"--weight-stashing", "--vertical-sync", "--recompute"}},
      {"plan",
       {{"--model", "lenet5", {"", "resnet21", "LENET5", "gpt4"}, true},
        {"--hardware", kMachine, {"", "missing.toml", "folder.csv", "text.npz"}, true},
        {"--scheme", "2bw", {"", "2BW", "PB", "abc"}, true},
        {"--machines", "2", Plus(kNoNumber, {"0", "-1", "1.5", "4097"})},
        {"--batch", "8", Plus(kNoNumber, {"0", "-1", "1.5", "1e8"})},
        {"--max-microbatch", "4", Plus(kNoNumber, {"0", "-1", "1.5", "65537"})},
        {"--depth", "1", Plus(kNoNumber, {"0", "-1", "1.5", "5", "4097"})},
        {"--placement", "", List(Plus(kNoNumber, {"0", "-1", "1.5", "12", "2"}))},
        csv},
       {}},
      {"validate",
       {{"--fit",
         "gpt3-175B,megatron-1T",
         {"", "gpt3-175B", "gpt3-175B,", "gpt3-175b,megatron-1T"}},
        {"--hardware", kMachine, {"", "missing.toml", "folder.csv", "text.npz"}},
        csv},
       {}},
      {"layout",
       {{"--network", "lenet5", {"", "resnet21", "LENET5", "gpt4"}, true},
        {"--hardware", kMachine, {"", "missing.toml", "folder.csv", "text.npz"}, true},
        {"--schedule", "pb", {"", "PB", "gpipe", "abc"}},
        {"--workers", "2,4", List(Plus(kNoNumber, {"0", "-1", "1.5", "13", "2049"}))},
        {"--microbatch", "2", Plus(kNoNumber, {"0", "-1", "1.5", "1e6"})},
        {"--slack", "0.1", Plus(kNoNumber, {"-0.1", "1"})},
        csv},
       {"--weight-stashing"}},
      {"network",
       {{"--network",
         "lenet5",
         {"", "resnet21", "LENET5", "gpt2", "missing.toml", "missing.onnx"},
         true},
        {"--norm", "none", {"", "GROUP", "layer", "batch"}},
        {"--out", "f.onnx", {"", "missing/f.toml", "f.txt", "f", "folder.csv", "/dev/full"}},
        {"--weights", "", {"", "missing.npz", "missing.safetensors", "folder.csv", "text.npz"}}},
       {}},
      {"costs",
       {{"--network", "lenet5", {"", "resnet21", "LENET5", "gpt4"}, true},
        {"--norm", "none", {"", "GROUP", "layer", "batch"}},
        {"--bytes-per-number", "2", Plus(kNoNumber, {"0", "-1", "1.5", "9"})},
        csv},
       {}},
      {"memory",
       {{"--network", "lenet5", {"", "resnet21", "LENET5", "gpt4"}, true},
        {"--workers", "2,4", List(Plus(kNoNumber, {"0", "-1", "1.5", "13"})), true},
        {"--placement", "", List(Plus(kNoNumber, {"0", "-1", "1.5", "12", "6,2", "6"}))},
        {"--norm", "none", {"", "GROUP", "layer", "batch"}},
        {"--microbatch", "2", Plus(kNoNumber, {"0", "-1", "1.5", "1e6"})},
        {"--microbatches-per-update", "8", Plus(kNoNumber, {"0", "-1", "1.5", "3", "1e6"})},
        csv},
       {"--relu-in-place"}},
      {"stragglers",
       {{"--kind", "pb", {"", "PB", "abc", "zb"}, true},
        {"--stages", "2", Plus(kNoNumber, {"0", "-1", "1.5", "10001"}), true},
        {"--network", "", {"", "resnet21", "LENET5", "gpt4"}},
        {"--hardware", "", {"", "missing.toml"}},
        {"--workers", "", Plus(kNoNumber, {"0", "-1", "1.5"})},
        {"--microbatch", "", Plus(kNoNumber, {"0", "-1", "1.5"})},
        {"--microbatches", "4", Plus(kNoNumber, {"0", "-1", "1.5", "1e8"}), true},
        {"--jitter", "0,0.5", List(Plus(kNoNumber, {"-0.1", "1"}))},
        {"--queue", "0,1", List(Plus(kNoNumber, {"-1", "1.5", "1e7"}))},
        {"--cores", "1,2", List(Plus(kNoNumber, {"0", "-1", "1.5", "1e7"}))},
        {"--stall-probability", "0.1", Plus(kNoNumber, {"-0.1", "1.1"})},
        {"--stall-factor", "", Plus(kNoNumber, {"0.5", "-1", "1e7"})},
        {"--seed", "7", Plus(kNoNumber, {"-1", "0.5", "4294967296"})},
        threads,
        csv},
       {}},
      {"calibrate",
       {{"--network", "linear", {"", "resnet21", "gpt2", "LINEAR"}, true},
        {"--microbatch", "2", Plus(kNoNumber, {"0", "-1", "1.5", "4097"})},
        {"--rounds", "1", Plus(kNoNumber, {"0", "-1", "1.5", "100001"}), false, true},
        {"--out", "f.toml", {"", "missing/f.toml", "f.txt", "f", "folder.csv", "/dev/full"}}},
       {}},
      {"train",
       {{"--out", "d", {"", "/dev/full", "/proc/d", "text.npz", "text.npz/d"}, true},
        {"--set", "run.seed=2", {"", "abc", "-inf", "=1", "run.seed", "run.seed=-1", "a.b=1"}},
        {"--init", "", {"", "missing.npz", "missing.safetensors", "folder.csv", "text.npz"}},
        {"--export-weights", "w.npz", Plus(kBadPath, {"w.pt"})},
        {"--trace", "t.csv", {"", "missing/t.csv", "t.npz", "t", "folder.csv", "/dev/full"}}},
       {"--resume", "--init-only"},
       {std::filesystem::absolute("experiments/configs/resnet20_sgdm.toml").string()},
       Words("--set network.name=linear --set run.samples=32 --set data.limit_validation=32")},
      {"generate",
       {{"--weights", GptWeights(), {"", "missing.npz", "folder.csv", "text.npz"}, true},
        {"--run", "", {"", "missing", "folder.csv", "text.npz"}},
        {"--prompt", "3 1 4", {"", "5", "-1", "1 x", " "}, true},
        {"--heads", "2", Plus(kNoNumber, {"0", "-1", "3", "1.5"})},
        {"--tokens", "4", Plus(kNoNumber, {"0", "-1", "1.5", "1000001"})},
        {"--temperature", "0", Plus(kNoNumber, {"-1", "101"})},
        {"--seed", "7", Plus(kNoNumber, {"-1", "0.5", "4294967296"})}},
       {}},
      {"compare", {{"--out", "f.html", kBadPage}}, {}, {RunFolder(), RunFolder()}},
      {"report", {{"--out", "f.html", Plus(kBadPage, {"f.csv"})}}, {}, {RunFolder()}},
      {"version", {}, {}},
  };
}

}  // namespace

Arguments CommandCase::Call() const { return CallWith("", ""); }

Arguments CommandCase::CallWith(const std::string& option, const std::string& value) const {
  Arguments call = {name};
  if (option == "--mirror") {
    // The one option of `data` that does not go with what the others do.
    call.insert(call.end(), {"fetch", "mnist"});
  } else {
    call.insert(call.end(), words.begin(), words.end());
    call.insert(call.end(), fixed.begin(), fixed.end());
  }
  for (const OptionCase& item : options) {
    const bool chosen = item.name == option;
    // These exclude each other.
    if (!chosen && option == "--hessian" && item.name == "--spectrum") continue;
    if (!chosen && option == "--learning-rate" && item.name == "--rate") continue;
    if (!chosen && option == "--file") continue;
    if (!chosen && !item.required && !item.shortens) continue;
    call.push_back(item.name);
    call.push_back(chosen ? value : item.good);
  }
  return call;
}

Arguments CommandCase::CallWithout(const std::string& option) const {
  Arguments call = Call();
  for (std::size_t i = 0; i < call.size(); ++i) {
    if (call[i] != option) continue;
    call.erase(call.begin() + static_cast<std::ptrdiff_t>(i),
               call.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    break;
  }
  return call;
}

bool CommandCase::Writes() const {
  for (const OptionCase& option : options) {
    if (option.name == "--out") return true;
  }
  return false;
}

const std::vector<CommandCase>& CommandCases() {
  static const std::vector<CommandCase> cases = MakeCases();
  return cases;
}

}  // namespace batchless::test
