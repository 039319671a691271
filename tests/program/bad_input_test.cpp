#include <algorithm>
#include <filesystem>

#include "catch.h"
#include "commands_table.h"
#include "run_program.h"

using namespace batchless::test;

namespace {

// A folder with things that are in the way.
class Workplace {
 public:
  Workplace() {
    std::filesystem::create_directory(folder_ / "folder.csv");
    WriteFile(folder_ / "text.npz", "no archive");
  }

  const std::filesystem::path& path() const { return folder_.path(); }
  bool IsUntouched() const {
    return folder_.Files() == std::vector<std::string>{"folder.csv", "text.npz"};
  }

 private:
  TemporaryFolder folder_;
};

// Exit code 2 and one line that names `name` and what is accepted; nothing else anywhere.
void CheckRefused(const Arguments& arguments, const std::string& name) {
  std::string line;
  for (const std::string& word : arguments) line += " '" + word + "'";
  INFO("batchless" << line);
  const Workplace workplace;
  const Outcome outcome = Run(arguments, workplace.path());
  INFO("standard error: " << outcome.error);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(Lines(outcome.error).size() == 1);
  CHECK(outcome.error.starts_with("batchless: "));
  CHECK(outcome.error.ends_with("\n"));
  CHECK(outcome.error.find(name) != std::string::npos);
  CHECK(outcome.error.find(": got ") != std::string::npos);
  CHECK(outcome.error.find(", accepted: ") != std::string::npos);
  CHECK(workplace.IsUntouched());
}

}  // namespace

TEST_CASE("the table holds every command and every option of it") {
  std::vector<std::string> commands;
  for (const CommandCase& command : CommandCases()) {
    commands.push_back(command.name);
    std::vector<std::string> options = {"--json"};
    options.insert(options.end(), command.flags.begin(), command.flags.end());
    for (const OptionCase& option : command.options) options.push_back(option.name);
    std::vector<std::string> listed = OptionNames(command.name);
    std::sort(options.begin(), options.end());
    std::sort(listed.begin(), listed.end());
    INFO(command.name);
    CHECK(options == listed);
  }
  std::vector<std::string> listed = CommandNames();
  std::sort(commands.begin(), commands.end());
  std::sort(listed.begin(), listed.end());
  CHECK(commands == listed);
}

TEST_CASE("every option refuses bad values, and the line begins with its name and the value") {
  for (const CommandCase& command : CommandCases()) {
    for (const OptionCase& option : command.options) {
      for (const std::string& value : option.bad) {
        const bool is_named = value == "abc" || value == "-inf";
        CheckRefused(command.CallWith(option.name, value),
                     is_named ? "batchless: " + option.name + ": got " + value + "," : option.name);
      }
    }
  }
}

TEST_CASE("a process of its own says the same as a call in this one") {
  std::vector<Arguments> calls = {{"--help"}, {"--version"}, {}, {"--jsn"}, {"sta\nbility"}};
  for (const CommandCase& command : CommandCases()) {
    if (command.options.empty()) continue;
    const OptionCase& option = command.options.front();
    calls.push_back(command.CallWith(option.name, option.bad.back()));
  }
  for (const Arguments& arguments : calls) {
    const Workplace workplace;
    const Outcome called = Run(arguments, workplace.path());
    const Outcome launched = Launch(arguments, workplace.path());
    INFO((arguments.empty() ? "nothing" : arguments.front()) << ": " << launched.error);
    CHECK(called.exit_code == launched.exit_code);
    CHECK(called.out == launched.out);
    CHECK(called.error == launched.error);
    CHECK(workplace.IsUntouched());
  }
}

TEST_CASE("every required option is missed") {
  for (const CommandCase& command : CommandCases()) {
    for (const OptionCase& option : command.options) {
      if (!option.required) continue;
      // A Hessian may stand for the spectrum.
      const std::string name = option.name == "--spectrum" ? "--hessian" : option.name;
      CheckRefused(command.CallWithout(option.name), name);
    }
  }
}

TEST_CASE("an option without its value, given twice or misspelt") {
  for (const CommandCase& command : CommandCases()) {
    for (const OptionCase& option : command.options) {
      Arguments last = command.CallWithout(option.name);
      last.push_back(option.name);
      CheckRefused(last, option.name);

      Arguments first = command.CallWithout(option.name);
      const auto place = static_cast<std::ptrdiff_t>(1 + command.words.size());
      first.insert(first.begin() + place, option.name);
      if (first.size() > 2) CheckRefused(first, option.name);

      if (option.name != "--set") {  // which may be given any number of times
        Arguments twice = command.CallWith(option.name, option.good);
        twice.insert(twice.end(), {option.name, option.good});
        CheckRefused(twice, option.name);
      }

      Arguments misspelt = command.CallWithout(option.name);
      misspelt.insert(misspelt.end(), {"--xx" + option.name.substr(2), option.good});
      CheckRefused(misspelt, "did you mean " + option.name + "?");
    }
    for (const std::string& flag : command.flags) {
      Arguments valued = command.Call();
      valued.push_back(flag + "=maybe");
      CheckRefused(valued, flag);
    }
    Arguments stray = command.Call();
    stray.emplace_back("stray");
    CheckRefused(stray, "stray");
  }
}

TEST_CASE("unknown names come with the nearest known one") {
  CheckRefused({"stabilty"}, "did you mean stability?");
  CheckRefused({"trane", "config.toml"}, "did you mean train?");
  CheckRefused({"rule"}, "did you mean rules?");
  CheckRefused({}, "command");
  CheckRefused({"--jsn"}, "did you mean --json?");
  // But not whatever else there is.
  for (const std::string line : {"foo", "stability --lr 3", "schedule --kind zigzag"}) {
    const Outcome outcome = Run(Words(line));
    INFO(outcome.error);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.error.find("did you mean") == std::string::npos);
  }
  CheckRefused(Words("margin --rule lwpw --delay 1 --momentum 0 --rate 1"), "did you mean lwp-w?");
  CheckRefused(Words("sweep --rule sc --delay 1 --out f.npz --simd avx5"), "did you mean avx2?");
  CheckRefused(Words("--rule sc stability"), "--rule");
}

TEST_CASE("a file that cannot be read is named with the reason") {
  for (const std::string line :
       {"schedule --file none.csv", "schedule --file none.txt", "train none.toml --out d",
        "plan --model lenet5 --scheme pb --hardware none.toml",
        "pipeline-stability --stages 1 --rule sc --momentum 0 --rate 1 --hessian none.npz"}) {
    CheckRefused(Words(line), "(there is no such file)");
  }
  for (const std::string line : {"schedule --file folder.csv", "train folder.csv --out d",
                                 "plan --model lenet5 --scheme pb --hardware folder.csv"}) {
    CheckRefused(Words(line), "(this is a folder)");
  }
  CheckRefused(Words("schedule --file text.npz"), "a file whose name ends in .csv or .txt");
  const TemporaryFolder folder;
  WriteFile(folder / "empty.csv", "");
  CheckRefused(Words("schedule --file " + (folder / "empty.csv")), "(there is nothing in it)");
}

TEST_CASE("a key without --set is answered with it") {
  CheckRefused(Words("train run.toml --out d run.samples=50"),
               "arguments: got run.samples=50, accepted: --set run.samples=50");
  CheckRefused(Words("train run.toml --out d samples"), "accepted: options only: --help");
}

TEST_CASE("options that exclude each other") {
  const std::string pipeline =
      "pipeline-stability --spectrum 1,0.1 --stages 2 --rule sc --momentum 0.5 ";
  CheckRefused(Words(pipeline + "--rate 1 --learning-rate 1"), "--rate");
  CheckRefused(Words(pipeline), "or --learning-rate in its place");
  CheckRefused(Words(pipeline + "--rate 1 --delays 1,0 --schedule pb"), "--schedule");
  CheckRefused(Words(pipeline + "--rate 1 --hessian text.npz"), "--hessian");
  const std::string steep = "pipeline-stability --stages 1 --rule sc --momentum 0.5 --spectrum ";
  CheckRefused(Words(steep + "1e-8 --rate 0.1"),
               "--rate: got 0.1, accepted: at most 1e+06 times the largest eigenvalue");
  CheckRefused(Words(steep + "1e7 --learning-rate 0.5"), "--learning-rate: got 0.5, accepted");
  CheckRefused(Words("pipeline-stability --stages 1 --rule sc --spectrum 0 --optimum"),
               "--spectrum: got 0, accepted: a matrix that is not 0");
  const std::string stability = "stability --delay 4 --momentum 0.5 --rate 0.1 --rule ";
  CheckRefused(Words(stability + "sgdm --horizon 1"), "--horizon");
  CheckRefused(Words(stability + "sgdm --delays uniform:0:8"), "--delay: got");
  const std::string varying = " --rule lwp-w+sc --delays uniform:0:129 ";
  CheckRefused(Words("boundary --momentum 0.9 --compensate own" + varying), "--delays: got 129");
  CheckRefused(Words("boundary --momentum 0.9999999" + varying), "--momentum: got");
  CheckRefused(Words("noise --momentum 0.9 --rate 1e-10" + varying), "--rate: got");
  CheckRefused(Words("noise --momentum 0.9 --rate 0.01 --average 3" + varying), "--average: got");
  CheckRefused(Words("boundary --momentum 0.9 --largest-delay 9" + varying),
               "--largest-delay: got 9, accepted: nothing but with geometric:P");
  CheckRefused(Words("optimum --condition 2e6" + varying), "--condition: got");
  CheckRefused(Words("optimum --condition 10 --over convex" + varying),
               "--over: got convex, accepted: nothing together with --delays");
  CheckRefused(Words("design --delay 1 --condition 10 --noise 1"),
               "; from 1 on ever slower rules cost ever less, and none is the best");
  CheckRefused(Words(stability + "lwp-v --horizon 1 --horizon-scale 2"), "--horizon-scale");
  CheckRefused(Words(stability + "sc --sc-delay 1 --sc-delay-scale 2"), "--sc-delay-scale");
  CheckRefused(Words("stability --rule sc --delay 1001 --momentum 0 --rate 1 --roots"), "--roots");
  CheckRefused(Words("optimum --rule sgdm,nesterov --delay 1 --condition 2 --horizon 1"),
               "--horizon");
  CheckRefused(Words("simulate --rule sc --delay 1 --momentum 0 --rate 1 --steps 2 --impulse "
                     "--initial-weight 2"),
               "--initial-weight");
}

TEST_CASE("random delays are no list of actions") {
  CheckRefused(Words("schedule --kind random-delay --stages 4 --microbatches 8"),
               "--kind: got random-delay");
  CheckRefused(Words("stragglers --kind random-delay --stages 4 --microbatches 8 --jitter 0"),
               "--kind: got random-delay");
  CheckRefused(Words("throughput --network lenet5 --hardware none.toml --schedule random-delay"),
               "--schedule: got random-delay");
}

TEST_CASE("a coefficient may be negative") {
  CHECK(
      Run(Words("stability --rule free --sc-a -0.5 --sc-b 2.5 --delay 1 --momentum 0.4 --rate 0.1"))
          .exit_code == 0);
}

TEST_CASE("brackets without end are no file of anything") {
  const TemporaryFolder folder;
  const std::string brackets = std::string(300'000, '[') + std::string(300'000, ']');
  WriteFile(folder / "design.json", "{\"rows\": [{\"delay\": " + brackets + "}]}");
  WriteFile(folder / "run.toml",
            "[network]\nname = \"linear\"\n[optimizer]\nkind = \"linear\"\nfile = \"" +
                (folder / "design.json") + "\"\n");
  CheckRefused(Words("train " + (folder / "run.toml") + " --out d"), "optimizer.file");
  std::filesystem::create_directory(folder / "run");
  WriteFile(folder / "run/config.toml", "");
  WriteFile(folder / "run/metrics.csv", "samples\n1\n");
  WriteFile(folder / "run/manifest.json", "{}");
  WriteFile(folder / "run/summary.json", brackets);
  CheckRefused(Words("report " + (folder / "run") + " --out r.html"), "summary.json");
}

TEST_CASE("what does not fit into memory is refused with its size") {
  const Outcome outcome = Run(Words(
      "sweep --rule sgdm --delay 4 --momenta log1m:-5:0:1e6 --rates log:1e-6:4:1e6 --out f.npz"));
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.error.find("which take 24 TB") != std::string::npos);
  CheckRefused(Words("optimum --rule sc --delay lin:0:1e7:1e4 --condition lin:1:2:1e4"),
               "--condition");
}

TEST_CASE("control characters do not break the line") {
  CheckRefused({"stability", "--rule", "s\nc"}, "--rule");
  CheckRefused({"sta\nbility"}, "command");
  CheckRefused({"sweep", "--rule", "sc", "--delay", "1", "--out", "no\nfolder/f.npz"}, "--out");
}

TEST_CASE("files and folders that nobody may write") {
  const TemporaryFolder folder;
  WriteFile(folder / "kept.csv", "kept");
  std::filesystem::permissions(folder / "kept.csv", std::filesystem::perms::owner_read);
  std::filesystem::create_directory(folder / "closed");
  const auto readable = std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec;
  std::filesystem::permissions(folder / "closed", readable);
  for (const std::string name : {"kept.csv", "closed/f.csv"}) {
    const Outcome outcome =
        Run(Words("boundary --rule sc --delay 1 --momentum 0 --out " + (folder / name)));
    INFO(name << ": " << outcome.error);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.error.find("read-only") != std::string::npos);
  }
  CHECK(ReadFile(folder / "kept.csv") == "kept");
  CHECK(folder.Files() == std::vector<std::string>{"closed", "kept.csv"});
}
