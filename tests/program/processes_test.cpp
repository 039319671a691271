// Training in several processes, from the launcher's command line to the run's files.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "catch.h"
#include "run_program.h"

using namespace batchless::test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kConfiguration = R"(
[network]
name = "lenet5"
[data]
name = "cifar10"
root = "data"
[schedule]
kind = "pb"
[rule]
name = "lwp-v+sc"
[optimizer]
batch = 1
reference_lr = 0.02
reference_momentum = 0.9
reference_batch = 32
[run]
epochs = 2
checkpoint_every_samples = 60
log_every_samples = 25
log_samples = true
)";

class Workplace {
 public:
  Workplace() {
    // Containers and continuous integration are root's, and have few processors.
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    WriteFile(folder_ / "run.toml", kConfiguration);
    const Outcome data =
        Run(Words("data synth --out data --train-size 80 --validation-size 16"), folder_.path());
    REQUIRE(data.exit_code == 0);
  }

  std::string operator/(const std::string& name) const { return folder_ / name; }

  RunningProgram Start(int processes, const std::string& line) const {
    Arguments launcher;
    if (processes > 1) {
      launcher = {BATCHLESS_MPIEXEC, "--bind-to", "none",
                  "--oversubscribe", "-n",        std::to_string(processes)};
    }
    return {Words(line), folder_.path(), "", 0, launcher};
  }
  Outcome Call(int processes, const std::string& line) const {
    if (processes == 1) return Run(Words(line), folder_.path());
    return Start(processes, line).Wait();
  }

  // One process with each of the lines, the second in that folder of this one.
  Outcome CallBoth(const std::string& first, const std::string& second,
                   const std::string& where = ".") const {
    Arguments launcher{BATCHLESS_MPIEXEC, "--bind-to", "none", "--oversubscribe", "-n", "1"};
    Arguments words = Words(first);
    for (const std::string& word :
         {std::string(":"), std::string("-n"), std::string("1"), std::string("-wdir"),
          folder_ / where, std::string(BATCHLESS_PROGRAM)}) {
      words.push_back(word);
    }
    for (const std::string& word : Words(second)) words.push_back(word);
    return RunningProgram(words, folder_.path(), "", 0, launcher).Wait();
  }

  // The files that have to be the same.
  std::vector<std::string> ResultOf(const std::string& out) const {
    return {Json::parse(ReadFile(folder_ / (out + "/summary.json")))["weights_sha256"],
            ReadFile(folder_ / (out + "/metrics.csv")), ReadFile(folder_ / (out + "/samples.csv"))};
  }

 private:
  TemporaryFolder folder_;
};

// While it lives, Open MPI's launcher gives the others no second to end by themselves where one process has ended.
class EndedAtOnce {
 public:
  EndedAtOnce() { setenv(kName, "0", 1); }
  ~EndedAtOnce() { unsetenv(kName); }
  EndedAtOnce(const EndedAtOnce&) = delete;
  EndedAtOnce& operator=(const EndedAtOnce&) = delete;

 private:
  static constexpr const char* kName = "OMPI_MCA_odls_base_sigkill_timeout";
};

// Mini-batches of 12 in 4 parts, which 1, 2 or 4 replicas may share.
constexpr const char* kShared =
    " --set optimizer.batch=12 --set optimizer.reference_batch=12 --set schedule.gradient_parts=4 ";

// Whether a run, or what a killed launcher left of one, is at work in the folder.
bool IsInUse(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool is_locked = flock(descriptor, LOCK_EX | LOCK_NB) != 0;
  close(descriptor);
  return is_locked;
}

// Tells a launched run to stop, or kills its launcher, and returns whether the run was done before that.
// What a killed launcher leaves behind ends by itself and lets go of the folder.
bool WasDone(RunningProgram& program, int signal_number, const std::string& folder) {
  kill(program.process(), signal_number);
  // Open MPI's launcher can hang where it is told to stop while the processes start (seen once in some
  // hundred): a minute later it is killed, as a scheduler does.
  if (!program.EndsWithin(std::chrono::minutes(1))) {
    WARN("the launcher hangs");
    kill(program.process(), SIGKILL);
  }
  const bool was_done = program.Wait().exit_code == 0;
  const auto hung = std::chrono::steady_clock::now() + kHung;
  while (IsInUse(folder) && std::chrono::steady_clock::now() < hung) Sleep(20);
  REQUIRE_FALSE(IsInUse(folder));
  return was_done;
}

// Longer each time: a busy machine may take all of the first ones to start the processes.
int MostMilliseconds(int attempt) { return static_cast<int>(200 * std::pow(1.25, attempt)); }

}  // namespace

TEST_CASE("processes leave the files of one process") {
  const Workplace workplace;
  REQUIRE(workplace.Call(1, "train run.toml --out one --export-weights one.npz").exit_code == 0);
  for (const auto& [processes, workers] : {std::pair{2, 1}, {3, 2}}) {
    const std::string out = std::to_string(processes);
    const Outcome outcome = workplace.Call(
        processes, "train run.toml --json --set schedule.workers=" + std::to_string(workers) +
                       " --out " + out + " --export-weights " + out + ".npz");
    INFO(outcome.error);
    REQUIRE(outcome.exit_code == 0);
    CHECK(workplace.ResultOf(out) == workplace.ResultOf("one"));
    CHECK(ReadFile(workplace / (out + ".npz")) == ReadFile(workplace / "one.npz"));
    // One of them speaks.
    const Json summary = Json::parse(outcome.out);
    CHECK(summary["processes"] == processes);
    CHECK(summary["workers"].size() == static_cast<std::size_t>(processes * workers));
    CHECK(Json::parse(ReadFile(workplace / (out + "/manifest.json")))["processes"] == processes);
  }
  // The first one measures how the stages are shared, all do as it says.
  const Outcome measured =
      workplace.Call(2, "train run.toml --set run.epochs=13 --out measured --json");
  INFO(measured.error);
  REQUIRE(measured.exit_code == 0);
  REQUIRE(workplace.Call(1, "train run.toml --set run.epochs=13 --out unshared").exit_code == 0);
  CHECK(workplace.ResultOf("measured") == workplace.ResultOf("unshared"));
  // Weights go in everywhere.
  const Outcome outcome = workplace.Call(2, "train run.toml --init one.npz --out again --json");
  REQUIRE(outcome.exit_code == 0);
  REQUIRE(workplace.Call(1, "train run.toml --init one.npz --out alone").exit_code == 0);
  CHECK(workplace.ResultOf("again") == workplace.ResultOf("alone"));
}

TEST_CASE("replicas leave the files of one pipeline") {
  const Workplace workplace;
  for (const std::string schedule : {"fill-drain", "2bw --set schedule.stages=3"}) {
    const std::string name = schedule.substr(0, 3);
    const std::string run = "train run.toml --json" + std::string(kShared) +
                            "--set rule.name=sc --set schedule.kind=" + schedule + " --out " + name;
    const Outcome alone = workplace.Call(1, run + "one --export-weights " + name + "one.npz");
    INFO(alone.error);
    REQUIRE(alone.exit_code == 0);
    for (const auto& [processes, replicas] : {std::pair{2, 2}, {4, 2}, {4, 4}}) {
      const std::string out = std::to_string(processes) + std::to_string(replicas);
      const Outcome outcome = workplace.Call(
          processes, run + out + " --set schedule.replicas=" + std::to_string(replicas) +
                         " --export-weights " + name + out + ".npz");
      INFO(schedule << ", " << out << ": " << outcome.error);
      REQUIRE(outcome.exit_code == 0);
      CHECK(workplace.ResultOf(name + out) == workplace.ResultOf(name + "one"));
      CHECK(ReadFile(workplace / (name + out + ".npz")) ==
            ReadFile(workplace / (name + "one.npz")));
      const Json summary = Json::parse(outcome.out);
      CHECK(summary["processes"] == processes);
      CHECK(summary["replicas"] == replicas);
      CHECK(summary["workers"].size() == static_cast<std::size_t>(processes));
    }
  }
}

TEST_CASE("replicas that are told to stop go on as more or fewer of them to the same bits") {
  const Workplace workplace;
  const std::string run = "train run.toml --resume --set schedule.kind=fill-drain" +
                          std::string(kShared) + "--set run.epochs=60 --out ";
  REQUIRE(workplace.Call(1, run + "whole").exit_code == 0);
  int stopped = 0;
  bool is_done = false;
  for (int attempt = 0; !is_done; ++attempt) {
    const int replicas = 1 << attempt % 3;
    RunningProgram program = workplace.Start(
        replicas, run + "stopped --set schedule.replicas=" + std::to_string(replicas));
    Sleep(MostMilliseconds(attempt));
    is_done = WasDone(program, SIGTERM, workplace / "stopped");
    if (!is_done) ++stopped;
  }
  CHECK(stopped > 0);
  REQUIRE(is_done);
  CHECK(workplace.ResultOf("stopped") == workplace.ResultOf("whole"));
}

TEST_CASE("processes that are killed or told to stop go on as other ones to the same bits") {
  const Workplace workplace;
  const std::string run = "train run.toml --set run.epochs=40 --resume --out ";
  REQUIRE(workplace.Call(1, run + "whole").exit_code == 0);
  std::mt19937 random(1);
  int stopped = 0;
  bool is_done = false;
  for (int attempt = 0; !is_done; ++attempt) {
    const int processes = 1 + attempt % 3;
    RunningProgram program = workplace.Start(processes, run + "stopped");
    Sleep(std::uniform_int_distribution<int>(1, MostMilliseconds(attempt))(random));
    is_done = WasDone(program, attempt % 2 == 0 ? SIGTERM : SIGKILL, workplace / "stopped");
    if (!is_done) ++stopped;
  }
  CHECK(stopped > 0);
  REQUIRE(is_done);
  CHECK(workplace.ResultOf("stopped") == workplace.ResultOf("whole"));
}

TEST_CASE("a process that fails alone ends all of them, and says which it was and why") {
  const Workplace workplace;
  // A folder is where the first one, which alone writes, wants to begin the checkpoint.
  fs::create_directories(workplace / "a/checkpoint.partial");
  const Outcome outcome = workplace.Call(2, "train run.toml --out a");
  INFO(outcome.error);
  CHECK(outcome.exit_code != 0);
  CHECK(Contains(outcome.error, "batchless: process 0 of 2: a/checkpoint.partial: Is a directory"));
  // With that out of the way, they start.
  fs::remove(workplace / "a/checkpoint.partial");
  CHECK(workplace.Call(2, "train run.toml --out a --resume").exit_code == 0);
}

TEST_CASE("what one process is refused for ends all of them, and is said once") {
  const Workplace workplace;
  struct Refusal {
    std::string line;
    std::string part;
  };
  const std::vector<Refusal> refusals = {
      {"train missing.toml --out x", "CONFIG: got missing.toml"},
      {"train run.toml --set schedule.workers=7 --out x",
       "schedule.workers: got 7 in each of 2 processes, accepted: 1 to 6, a thread for at least"},
      {"train run.toml --set schedule.kind=sequential --out x", "in one process"},
      {"train run.toml --init-only --export-weights w.npz", "--init-only: got it in several"},
      {"train run.toml --set data.root=nowhere --out x", "nowhere"},
      {"train run.toml --set schedule.replicas=2 --out x",
       "schedule.replicas: got 2, accepted: 1 where an update is one micro-batch"},
      {"train run.toml --set schedule.kind=fill-drain --set schedule.replicas=2 --out x "
       "--set optimizer.batch=12 --set optimizer.reference_batch=12 --set "
       "schedule.gradient_parts=3",
       "schedule.replicas: got 2, accepted: a divisor of gradient_parts, 3"},
      {"train run.toml --set schedule.kind=fill-drain --set schedule.replicas=4 --out x" +
           std::string(kShared),
       "schedule.replicas: got 4 in 2 processes, accepted: a divisor of the number of processes"},
      {"train run.toml --set schedule.kind=2bw --set schedule.replicas=2 --out x" +
           std::string(kShared),
       "optimizer.batch: got 12, accepted: at least 24 micro-batches with 2bw"},
      {"train run.toml --init missing.npz --out x", "--init: got missing.npz"},
      {"train run.toml --out x --export-weights nowhere/w.npz", "--export-weights"},
  };
  const EndedAtOnce at_once;
  for (const Refusal& refusal : refusals) {
    const Outcome outcome = workplace.Call(2, refusal.line);
    INFO(refusal.line << ": " << outcome.error);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    int said = 0;
    for (const std::string& line : Lines(outcome.error)) {
      if (line.starts_with("batchless: ")) ++said;
    }
    CHECK(said == 1);
    CHECK(Contains(outcome.error, refusal.part));
    CHECK(!fs::exists(workplace / "x"));
  }
}

TEST_CASE("a process with other settings is refused at once, by the key and both values") {
  const Workplace place;
  REQUIRE(place.Call(1, "train run.toml --init-only --export-weights a.npz").exit_code == 0);
  REQUIRE(place.Call(1, "train run.toml --set run.seed=2 --init-only --export-weights b.npz")
              .exit_code == 0);
  REQUIRE(place.Call(1, "data synth --out others --train-size 80 --validation-size 16 --seed 9")
              .exit_code == 0);
  struct Difference {
    std::string first;
    std::string second;
    std::string said;
  };
  const std::vector<Difference> differences{
      {"", "--set run.seed=9", "run.seed: got 9, accepted: 1, as the first process has it"},
      {"--set optimizer.reference_lr=0.1", "",
       "optimizer.reference_lr: got 0.02, accepted: 0.1, as"},
      {"", "--set run.log_every_samples=20", "run.log_every_samples: got 20, accepted: 25, as"},
      {"", "--set run.validate_every_samples=20",
       "run.validate_every_samples: got 20, accepted: 80"},
      {"", "--set run.checkpoint_every_samples=20",
       "run.checkpoint_every_samples: got 20, accepted"},
      {"", "--set data.limit_train=40", "data.limit_train: got 40, accepted: 0, as"},
      {"", "--set data.root=others", "data.root: got content with SHA-256 "},
      {"--init a.npz", "--init b.npz", "--init: got a file with SHA-256 "},
      {"", "--export-weights w.npz", "--export-weights: got a file, accepted: nothing, as"},
      {"--trace t.csv", "", "--trace: got nothing, accepted: a file, as the first"}};
  const EndedAtOnce at_once;
  for (const Difference& difference : differences) {
    const Outcome outcome = place.CallBoth("train run.toml --out x " + difference.first,
                                           "train run.toml --out x " + difference.second);
    INFO(difference.first << difference.second << ": " << outcome.error);
    CHECK(outcome.exit_code == 2);
    CHECK(Contains(outcome.error, "batchless: process 1 of 2: " + difference.said));
    CHECK(!fs::exists(place / "x"));
  }
}

TEST_CASE("a process whose file of delays has another content is refused by that file's key") {
  const Workplace place;
  fs::create_directory(place / "other");
  WriteFile(place / "delays.csv", "delay,probability\n0,0.5\n1,0.5\n");
  WriteFile(place / "other/delays.csv", "delay,probability\n0,0.4\n1,0.6\n");
  const std::string options =
      " --set schedule.kind=random-delay --set schedule.delays=delays.csv --out x";
  const EndedAtOnce at_once;
  const Outcome outcome = place.CallBoth(
      "train run.toml" + options, "train ../run.toml --set data.root=../data" + options, "other");
  INFO(outcome.error);
  CHECK(outcome.exit_code == 2);
  CHECK(Contains(outcome.error,
                 "batchless: process 1 of 2: schedule.delays: got content with SHA-256 "));
  CHECK(!fs::exists(place / "x"));
}

TEST_CASE("processes may find the same data by other paths") {
  const Workplace place;
  fs::rename(place / "data", place / "moved");
  fs::create_directory_symlink("moved", place / "data");
  const Outcome outcome =
      place.CallBoth("train run.toml --out x", "train run.toml --set data.root=moved --out x");
  INFO(outcome.error);
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("a divergence is said once") {
  const Workplace workplace;
  const Outcome outcome = workplace.Call(
      2, "train run.toml --set optimizer.reference_lr=1e6 --set run.watchdog_seconds=600 --out x");
  INFO(outcome.error);
  CHECK(outcome.exit_code == 1);
  CHECK(Contains(outcome.error, "training diverged in stage"));
  CHECK(outcome.error.find("training diverged") == outcome.error.rfind("training diverged"));
}
