// Help, JSON and files of every command, and what an interruption leaves.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "commands_table.h"
#include "npz.h"
#include "run_program.h"

using namespace batchless::test;
using Json = nlohmann::json;

namespace {

Arguments WithRounds(Arguments words, const std::string& rounds) {
  const auto place = std::find(words.begin(), words.end(), "--rounds");
  if (place == words.end()) {
    words.insert(words.end(), {"--rounds", rounds});
  } else {
    *(place + 1) = rounds;
  }
  return words;
}

}  // namespace

TEST_CASE("every help shows examples that run") {
  CHECK(Contains(Run({"--help"}).out, "Examples:"));
  for (const CommandCase& command : CommandCases()) {
    const Outcome help = Run({command.name, "--help"});
    INFO(help.out);
    CHECK(help.exit_code == 0);
    CHECK(help.error.empty());
    CHECK(Contains(help.out, "Usage: batchless " + command.name));
    std::size_t examples = 0;
    for (const std::string& line : Lines(help.out)) {
      if (!line.starts_with("  batchless ")) continue;
      ++examples;
      Arguments words = Words(line);
      words.erase(words.begin());
      // What reads a file or the network; both are tested with real files elsewhere.
      if (Contains(line, "--file") || Contains(line, "--hessian") || Contains(line, "data fetch"))
        continue;
      if (Contains(line, "data check") || Contains(line, " runs/")) continue;
      if (Contains(line, "experiments/configs")) continue;
      // Measured once: the times themselves are not looked at.
      if (command.name == "calibrate") words = WithRounds(words, "1");
      // Machines and networks lie in the repository; these examples write nothing.
      const bool reads_sources =
          Contains(line, "hwmodel/machines") || Contains(line, "experiments/networks");
      CHECK_FALSE((reads_sources && Contains(line, "--out")));
      const Outcome outcome = reads_sources ? Run(words, ".") : Run(words);
      INFO(line << '\n' << outcome.error);
      CHECK(outcome.exit_code == 0);
    }
    CHECK(examples >= 2);
  }
}

TEST_CASE("the examples of calibrate run as they are written", "[.long]") {
  for (const std::string& line : Lines(Run({"calibrate", "--help"}).out)) {
    if (!line.starts_with("  batchless ")) continue;
    Arguments words = Words(line);
    words.erase(words.begin());
    INFO(line);
    CHECK(Run(words).exit_code == 0);
  }
}

TEST_CASE("--json gives exactly one object") {
  for (const CommandCase& command : CommandCases()) {
    for (const bool before : {false, true}) {
      Arguments call = command.Call();
      call.insert(before ? call.begin() : call.end(), "--json");
      const Outcome outcome = Run(call);
      INFO(command.name << ": " << outcome.out << outcome.error);
      CHECK(outcome.exit_code == 0);
      CHECK(outcome.error.empty());
      CHECK(Lines(outcome.out).size() == 1);
      CHECK(Json::parse(outcome.out).is_object());
    }
  }
}

TEST_CASE("every option takes its good value") {
  for (const CommandCase& command : CommandCases()) {
    for (const OptionCase& option : command.options) {
      // These need a file or the network.
      if (option.name == "--hessian" || option.name == "--mirror") continue;
      if (option.name == "--file") continue;
      if (option.good.empty()) continue;  // goes with other options than the call's
      const Outcome outcome = Run(command.CallWith(option.name, option.good));
      INFO(command.name << ' ' << option.name << ": " << outcome.error);
      CHECK(outcome.exit_code == 0);
    }
    for (const std::string& flag : command.flags) {
      if (flag == "--init-only") continue;      // does not go with the others
      if (flag == "--relu-in-place") continue;  // goes with --placement
      if (flag == "--optimum") continue;        // finds what the call gives
      Arguments call = command.Call();
      call.push_back(flag);
      // Both need backwards that read their forwards' weights.
      if (flag == "--vertical-sync" || flag == "--recompute") call.push_back("--weight-stashing");
      INFO(command.name << ' ' << flag);
      CHECK(Run(call).exit_code == 0);
    }
  }
}

TEST_CASE("what JSON has no number for is null") {
  const Outcome unstable =
      Run(Words("stability --rule sgdm --delay 4 --momentum 0.9 --rate 1 --json"));
  const Json object = Json::parse(unstable.out);
  CHECK(object["half_life_updates"].is_null());
  CHECK(object["stable"] == false);
  const Outcome margin = Run(Words("margin --rule sgdm --delay 4 --momentum 0.9 --rate 1 --json"));
  const Json margins = Json::parse(margin.out);
  CHECK(margins["stable"] == false);
  CHECK(margins["gain_margin"].get<double>() < 1);
  for (const char* key :
       {"phase_margin_radians", "delay_margin_updates", "gain_crossover_radians"}) {
    CHECK(margins[key].is_null());
  }
  // Too fast for this delay, but not for a shorter one; and for every delay.
  CHECK(margins["largest_stable_delay"] == 0);
  CHECK(Json::parse(Run(Words("margin --rule sgdm --delay 4 --momentum 0.9 --rate 5 --json"))
                        .out)["largest_stable_delay"]
            .is_null());
}

TEST_CASE("what there is not is not printed as a number") {
  const std::string margin = Run(Words("margin --rule sgdm --delay 4 --momentum 0.9 --rate 5")).out;
  CHECK(Contains(margin, "phase margin          none\n"));
  CHECK(Contains(margin, "delay margin          none\n"));
  CHECK_FALSE(Contains(margin, "crossover"));
  const Outcome optimum = Run(Words("optimum --rule sgdm --delay 1 --condition 10 --momentum 1"));
  CHECK(optimum.exit_code == 0);
  CHECK(Contains(optimum.out, "no rate is stable at this momentum"));
  CHECK_FALSE(Contains(optimum.out, "nan"));
}

TEST_CASE("every help that speaks of a LIST says what one is") {
  for (const CommandCase& command : CommandCases()) {
    const std::string help = Run({command.name, "--help"}).out;
    INFO(command.name);
    CHECK(Contains(help, " LIST ") ==
          Contains(help, "\nLIST: numbers separated by commas, or N of"));
  }
}

TEST_CASE("the version as text and as JSON") {
  const Outcome text = Run({"--version"});
  CHECK(text.exit_code == 0);
  CHECK(text.out.starts_with("batchless "));
  CHECK(Run({"version"}).out == text.out);
  const Outcome json = Run({"--version", "--json"});
  CHECK(Run({"version", "--json"}).out == json.out);
  const Json object = Json::parse(json.out);
  for (const char* key : {"version", "commit", "compiler", "flags"}) {
    CHECK_FALSE(object[key].get<std::string>().empty());
    CHECK(Contains(text.out, object[key].get<std::string>()));
  }
}

TEST_CASE("a file is what standard output would have been, and replaces what was there") {
  for (const std::string line : {"optimum --rule sgdm,sc --delay 0,2 --condition 10,100",
                                 "boundary --rule sgdm,sc --delay 0,2 --momentum 0,0.9",
                                 "simulate --rule sc --delay 2 --momentum 0.9 --rate 0.1 --steps 9",
                                 "roots --rule sc --delay 2 --momentum 0.9 --rates 0.1,0.2"}) {
    INFO(line);
    const TemporaryFolder folder;
    WriteFile(folder / "f.csv", "old");
    const Outcome printed = Run(Words(line));
    const Outcome written = Run(Words(line + " --out f.csv"), folder.path());
    CHECK(printed.exit_code == 0);
    CHECK(written.exit_code == 0);
    CHECK(written.out.empty());
    CHECK_FALSE(printed.out.empty());
    CHECK(ReadFile(folder / "f.csv") == printed.out);
    CHECK(folder.Files() == std::vector<std::string>{"f.csv"});
    const auto rows = CsvRows(printed.out);
    REQUIRE(rows.size() > 1);
    for (const auto& row : rows) CHECK(row.size() == rows.front().size());
  }
}

TEST_CASE("a symbolic link stays one") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("target.csv", folder / "link.csv");
  const Outcome outcome =
      Run(Words("boundary --rule sc --delay 1 --momentum 0 --out link.csv"), folder.path());
  CHECK(outcome.exit_code == 0);
  CHECK(std::filesystem::is_symlink(folder / "link.csv"));
  CHECK(folder.Files() == std::vector<std::string>{"link.csv", "target.csv"});
}

TEST_CASE("the sweep's two files hold the same numbers") {
  const TemporaryFolder folder;
  const std::string line =
      "sweep --rule lwp-w+sc --delay 4 --momenta 0,log1m:-3:-1:4 --rates log:1e-4:2:7 --json "
      "--out ";
  REQUIRE(Run(Words(line + "f.npz"), folder.path()).exit_code == 0);
  REQUIRE(Run(Words(line + "f.csv"), folder.path()).exit_code == 0);
  const auto read = [&](const char* name) {
    return batchless::ReadNpz(folder / "f.npz", name, 1000);
  };
  const batchless::training::NamedTensor momentum = read("momentum");
  const batchless::training::NamedTensor rate = read("rate");
  const std::vector<batchless::training::NamedTensor> grids = {
      read("spectral_radius"), read("error_bound"), read("log_spectral_radius")};
  CHECK(momentum.shape == std::vector<std::int64_t>{5});
  CHECK(rate.shape == std::vector<std::int64_t>{7});
  CHECK(momentum.values[0] == 0);
  CHECK(momentum.values[1] == 1 - 1e-3);
  CHECK(momentum.values[4] == 1 - 1e-1);
  CHECK(rate.values.front() == 1e-4);
  CHECK(rate.values.back() == 2);

  const auto rows = CsvRows(ReadFile(folder / "f.csv"));
  REQUIRE(rows.size() == 1 + 5 * 7);
  CHECK(rows[0] == Split("momentum,rate,spectral_radius,error_bound,log_spectral_radius", ','));
  for (std::size_t i = 0; i < 5 * 7; ++i) {
    CHECK(std::stod(rows[i + 1][0]) == momentum.values[i / 7]);
    CHECK(std::stod(rows[i + 1][1]) == rate.values[i % 7]);
    for (std::size_t k = 0; k < grids.size(); ++k) {
      CHECK(grids[k].shape == std::vector<std::int64_t>{5, 7});
      CHECK(std::stod(rows[i + 1][2 + k]) == grids[k].values[i]);
    }
  }
}

TEST_CASE("threads change no byte") {
  const TemporaryFolder folder;
  for (const std::string threads : {"1", "3"}) {
    const std::string end = " --threads " + threads + " --out " + threads;
    CHECK(Run(Words("sweep --rule sc --delay 4" + end + ".npz"), folder.path()).exit_code == 0);
    CHECK(Run(Words("optimum --rule sgdm,sc --delay 0,1,2,3 --condition 10,1000" + end + ".csv"),
              folder.path())
              .exit_code == 0);
  }
  CHECK(ReadFile(folder / "1.npz") == ReadFile(folder / "3.npz"));
  CHECK(ReadFile(folder / "1.csv") == ReadFile(folder / "3.csv"));
}

TEST_CASE("standard output that cannot be written fails in one line") {
  for (const CommandCase& command : CommandCases()) {
    const TemporaryFolder folder;
    const Outcome outcome = RunningProgram(command.Call(), folder.path(), "/dev/full").Wait();
    INFO(command.name << ": " << outcome.error);
    CHECK(outcome.exit_code == 1);
    CHECK(Lines(outcome.error).size() == 1);
    CHECK(Contains(outcome.error, "standard output"));
  }
}

TEST_CASE("a file that cannot be finished fails in one line and leaves the old one") {
  for (const std::string name : {"f.csv", "f.npz"}) {
    const TemporaryFolder folder;
    WriteFile(folder / name, "old");
    const Outcome outcome =
        RunningProgram(Words("sweep --rule sc --delay 4 --out " + name), folder.path(), "", 100'000)
            .Wait();
    CHECK(outcome.exit_code == 1);
    CHECK(outcome.out.empty());
    CHECK(outcome.error.starts_with("batchless: " + name + ": "));
    CHECK(Contains(outcome.error, "File too large"));
    CHECK(Lines(outcome.error).size() == 1);
    CHECK(folder.Files() == std::vector<std::string>{name});
    CHECK(ReadFile(folder / name) == "old");
  }
}

TEST_CASE("an interruption leaves one line, no partial file and the old file") {
  for (const int signal_number : {SIGINT, SIGTERM}) {
    const TemporaryFolder folder;
    WriteFile(folder / "f.csv", "old");
    // An hour of work.
    RunningProgram program(Words("optimum --rule sgdm,lwp-w+sc --delay lin:900:1000:101 "
                                 "--condition log:10:1e6:30 --out f.csv"),
                           folder.path());
    const auto deadline = std::chrono::steady_clock::now() + kHung;
    while (folder.Files().size() < 2 && std::chrono::steady_clock::now() < deadline) {
      Sleep(10);
    }
    REQUIRE(folder.Files().size() == 2);
    CHECK(kill(program.process(), signal_number) == 0);
    const Outcome outcome = program.Wait();
    CHECK(outcome.exit_code == 128 + signal_number);
    CHECK(outcome.out.empty());
    CHECK(outcome.error == "batchless: interrupted\n");
    CHECK(folder.Files() == std::vector<std::string>{"f.csv"});
    CHECK(ReadFile(folder / "f.csv") == "old");
  }
}
