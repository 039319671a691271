// What reaches the disk in which order, and what is left where the system refuses a call.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "catch.h"
#include "durable_file.h"
#include "refusal.h"
#include "run_program.h"

using namespace batchless::test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kNetwork = R"(
name = "tiny"
input = [3, 32, 32]
classes = 10
stage = [
  { name = "conv", layers = [{ kind = "convolution", channels = 4, kernel = 3, stride = 4 }] },
  { name = "pool", layers = ["average_pool"] },
  { name = "fc", layers = [{ kind = "linear", features = 10 }] },
  { name = "loss", layers = ["loss"] },
]
)";
constexpr const char* kConfiguration = R"(
[network]
file = "net.toml"
[data]
name = "cifar10"
root = "data"
[schedule]
kind = "pb"
[optimizer]
batch = 1
lr = 0.01
[run]
epochs = 1
checkpoint_every_samples = 10
log_every_samples = 5
log_samples = true
)";
constexpr const char* kTrain = "train run.toml --resume --out run";
constexpr const char* kSweep =
    "sweep --rule sc --delay 2 --momenta 0.5,0.9 --rates 0.1,0.2 --out map.";

class Workplace {
 public:
  Workplace() {
    WriteFile(folder_ / "net.toml", kNetwork);
    WriteFile(folder_ / "run.toml", kConfiguration);
    REQUIRE(Call("data synth --out data --train-size 20 --validation-size 5").exit_code == 0);
  }

  std::string operator/(const std::string& name) const { return folder_ / name; }

  // With the faults' library preloaded and the variables set.
  Outcome Call(const std::string& line, const Arguments& variables = {}) const {
    Arguments launcher = {"/usr/bin/env"};
    if (!variables.empty()) launcher.push_back("LD_PRELOAD=" BATCHLESS_FAULTS);
    launcher.insert(launcher.end(), variables.begin(), variables.end());
    return RunningProgram(Words(line), folder_.path(), "", 0, launcher).Wait();
  }
  Outcome CallWithFault(const std::string& line, const std::string& fault) const {
    return Call(line, {"BATCHLESS_FAULT=" + fault});
  }

  std::string WeightsDigest() const {
    return Json::parse(ReadFile(folder_ / "run/summary.json"))["weights_sha256"];
  }

  // The calls for files that the command makes, and how many of each kind there are.
  std::vector<std::string> Calls(const std::string& line) const {
    const Outcome outcome = Call(line, {"BATCHLESS_FAULT_LOG=" + (folder_ / "calls")});
    INFO(outcome.error);
    REQUIRE(outcome.exit_code == 0);
    std::vector<std::string> calls = Lines(ReadFile(folder_ / "calls"));
    fs::remove(folder_ / "calls");
    return calls;
  }

 private:
  TemporaryFolder folder_;
};

// The file's name in a line "CALL PATH".
std::string NameIn(const std::string& call) {
  return fs::path(call.substr(call.find(' ') + 1)).filename().string();
}

// One line on standard error, which is the last one.
void CheckRefused(const Outcome& outcome) {
  CHECK((outcome.exit_code == 1 || outcome.exit_code == 2));
  int said = 0;
  for (const std::string& line : Lines(outcome.error))
    said += line.starts_with("batchless: ") ? 1 : 0;
  CHECK(said == 1);
}

}  // namespace

TEST_CASE(
    "a file's content is on the disk before its name, and its name before the program goes on") {
  const Workplace workplace;
  const std::vector<std::string> lines = {kTrain, kSweep + std::string("npz"),
                                          kSweep + std::string("csv")};
  for (const std::string& line : lines) {
    const std::vector<std::string> calls = workplace.Calls(line);
    int renamed = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!calls[i].starts_with("from ")) continue;
      ++renamed;
      const std::string partial = NameIn(calls[i]);
      INFO(line << ": " << calls[i]);
      // The last call for the file under its temporary name is the one that brings it to the disk.
      std::size_t last = i;
      while (last-- > 0) {
        const bool is_content =
            calls[last].starts_with("write ") || calls[last].starts_with("fsync ");
        if (is_content && NameIn(calls[last]) == partial) break;
      }
      REQUIRE(last < i);
      CHECK(calls[last].starts_with("fsync "));
      // Then the name: the folder is opened and brought to the disk at once.
      REQUIRE(i + 3 < calls.size());
      CHECK(calls[i + 1].starts_with("rename "));
      CHECK(calls[i + 2].starts_with("open "));
      CHECK(calls[i + 3].starts_with("fsync "));
      CHECK(NameIn(calls[i + 3]) != partial);
    }
    CHECK(renamed >= 1);
  }
}

TEST_CASE("logs are on the disk before the checkpoint that counts their bytes") {
  const Workplace workplace;
  const std::vector<std::string> calls = workplace.Calls(kTrain);
  bool metrics = false;
  bool samples = false;
  int checkpoints = 0;
  for (const std::string& call : calls) {
    const std::string name = NameIn(call);
    if (name == "metrics.csv") metrics = call.starts_with("fsync ");
    if (name == "samples.csv") samples = call.starts_with("fsync ");
    if (!call.starts_with("rename ") || name != "checkpoint") continue;
    ++checkpoints;
    CHECK((metrics && samples));
  }
  CHECK(checkpoints == 3);
}

TEST_CASE("a call that the system refuses ends a run with a line, and the same command goes on") {
  const Workplace workplace;
  // No checkpoints and rows but the first and the last: each further one is written by the same calls.
  const std::string train =
      std::string(kTrain) + " --set run.checkpoint_every_samples=20 --set run.log_every_samples=20";
  const std::vector<std::string> calls = workplace.Calls(train);
  const std::string digest = workplace.WeightsDigest();
  const std::string metrics = ReadFile(workplace / "run/metrics.csv");
  const auto count = [&](const std::string& kind) {
    const std::string start = "count " + kind + " ";
    for (const std::string& call : calls) {
      if (call.starts_with(start)) return std::stoi(call.substr(start.size()));
    }
    return 0;
  };
  for (const std::string kind : {"fsync", "rename", "write"}) {
    REQUIRE(count(kind) > 3);
    for (int n = 1; n <= count(kind); ++n) {
      fs::remove_all(workplace / "run");
      const Outcome outcome = workplace.CallWithFault(train, kind + ":" + std::to_string(n));
      INFO(kind << " " << n << ": " << outcome.error);
      CheckRefused(outcome);
      for (const auto& entry : fs::directory_iterator(workplace / "run")) {
        CHECK(entry.path().extension() != ".partial");
      }
      REQUIRE(workplace.Call(train).exit_code == 0);
      CHECK(workplace.WeightsDigest() == digest);
      CHECK(ReadFile(workplace / "run/metrics.csv") == metrics);
    }
  }
}

TEST_CASE("a configuration that cannot be opened is refused, and not taken as an empty one") {
  const Workplace workplace;
  const Outcome outcome = workplace.CallWithFault(kTrain, "open:1");
  CHECK(outcome.exit_code == 2);
  CHECK(Lines(outcome.error).back() ==
        "batchless: CONFIG: got run.toml, accepted: a TOML file that can be read (Input/output "
        "error)");
  CHECK(!fs::exists(workplace / "run"));
}

TEST_CASE("a folder that cannot be locked is refused with the system's reason") {
  const Workplace workplace;
  const Outcome outcome = workplace.CallWithFault(kTrain, "lock:1:37");
  CHECK(outcome.exit_code == 2);
  CHECK(Lines(outcome.error).back() ==
        "batchless: --out: got run, accepted: a folder for the run's files (No locks available)");
}

TEST_CASE("a full disk leaves no result and what was there before") {
  const Workplace workplace;
  for (const std::string extension : {"csv", "npz"}) {
    const std::string file = workplace / ("map." + extension);
    WriteFile(file, "kept");
    const Outcome outcome = workplace.CallWithFault(kSweep + extension, "write:1+:28");
    INFO(outcome.error);
    CheckRefused(outcome);
    CHECK(outcome.error.find("No space left on device") != std::string::npos);
    CHECK(ReadFile(file) == "kept");
  }
}

TEST_CASE("what a full disk did not take is written once when it does") {
  const TemporaryFolder folder;
  const std::string path = folder / "rows.csv";
  batchless::AppendedFile file(path, {});
  const std::string before(1000, 'a');
  const std::string after(1000, 'b');
  file.Append(before);
  file.Flush();
  file.Append(after);
  // A part fits.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual = {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &usual) == 0);
  const rlimit small = {.rlim_cur = 1500, .rlim_max = usual.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string failure = MessageOf<std::runtime_error>([&] { file.Flush(); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &usual) == 0);
  CHECK_FALSE(failure.empty());
  CHECK(ReadFile(path) == before + after.substr(0, 500));
  file.Sync();
  CHECK(ReadFile(path) == before + after);
}

TEST_CASE("a run goes on with the logs of its checkpoint alone") {
  const Workplace workplace;
  // Later checkpoints than the first two never get their name.
  CheckRefused(workplace.CallWithFault(kTrain, "rename:5+"));
  for (const std::string name : {"metrics.csv", "samples.csv", "checkpoint"}) {
    const std::string path = workplace / ("run/" + name);
    const std::string content = ReadFile(path);
    for (const std::size_t place : {std::size_t{0}, content.size() / 2}) {
      std::string changed = content;
      changed[place] ^= 1;
      WriteFile(path, changed);
      const Outcome outcome = workplace.Call(kTrain);
      INFO(name << " at " << place << ": " << outcome.error);
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.error.find("run/" + name) != std::string::npos);
      CHECK(ReadFile(path) == changed);
    }
    if (name != "checkpoint") {
      fs::remove(path);
      const Outcome outcome = workplace.Call(kTrain);
      INFO(outcome.error);
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.error.find("run/" + name + ", accepted: the file that the checkpoint goes") !=
            std::string::npos);
      CHECK_FALSE(fs::exists(path));
    }
    WriteFile(path, content);
  }
  CHECK(workplace.Call(kTrain).exit_code == 0);
}

TEST_CASE("files of a run that have changed since its end are refused by name") {
  const Workplace workplace;
  REQUIRE(workplace.Call(kTrain).exit_code == 0);
  REQUIRE(workplace.Call("report run").exit_code == 0);
  const std::string sums = ReadFile(workplace / "run/SHA256SUMS");
  CHECK(Lines(sums).size() == 5);
  for (const std::string& line : Lines(sums)) {
    const std::string name = line.substr(66);
    const std::string path = workplace / ("run/" + name);
    const std::string content = ReadFile(path);
    std::string changed = content;
    changed[content.size() / 2] ^= 1;
    WriteFile(path, changed);
    const Outcome outcome = workplace.Call("report run");
    INFO(name << ": " << outcome.error);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.error.find("run/" + name) != std::string::npos);
    WriteFile(path, content);
  }
  // Runs of earlier versions have none; one that was lost is made again.
  fs::remove(workplace / "run/SHA256SUMS");
  CHECK(workplace.Call("report run").exit_code == 0);
  CHECK(workplace.Call(kTrain).exit_code == 0);
  CHECK(ReadFile(workplace / "run/SHA256SUMS") == sums);
}
