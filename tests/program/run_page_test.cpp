// Runs side by side and one run's page, of runs that the program made.
#include "run_page.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "chart.h"
#include "run_program.h"
#include "run_record.h"
#include "usage_error.h"

namespace batchless {
namespace {

using test::Run;
using test::TemporaryFolder;
using test::Words;

std::size_t CountOf(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

void Train(const std::string& out, const std::string& settings) {
  test::Arguments words = Words(
      "train experiments/configs/resnet20_sgdm.toml --set network.name=linear --set run.samples=64 "
      "--set data.limit_validation=32 --set run.log_every_samples=16 " +
      settings + " --out");
  words.push_back(out);
  const test::Outcome outcome = Run(words, ".");
  INFO(outcome.error);
  REQUIRE(outcome.exit_code == 0);
}

// Two runs that differ in their seeds and weight decays.
struct Runs {
  Runs() {
    Train(first, "--set run.seed=1");
    Train(second, "--set run.seed=2 --set optimizer.weight_decay=0");
  }
  TemporaryFolder folder;
  std::string first = folder / "one";
  std::string second = folder / "two";
};

}  // namespace

TEST_CASE("Ticks are round numbers within the range") {
  CHECK(Ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(Ticks(-1, 1, 4) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(Ticks(0.3, 7.2, 7) == std::vector<double>{1, 2, 3, 4, 5, 6, 7});
  for (const double high : {1e-9, 0.07, 3.0, 8e5}) {
    const std::vector<double> ticks = Ticks(0, high, 6);
    CHECK(ticks.size() >= 3);
    CHECK(ticks.size() <= 7);
    CHECK(ticks.back() <= high);
  }
  // Neighbours among the numbers, as losses of a run that hardly moves.
  CHECK(Ticks(2.403022220535651, std::nextafter(2.403022220535651, 3), 6).size() <= 7);
}

TEST_CASE("A chart draws each curve, and breaks it where it is not finite") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Curve> curves = {
      {"a < b", {0, 1, 2, 3}, {1, nan, 2, 3}}, {"one", {1}, {2}}, {"none", {}, {}}};
  const std::string chart = LineChart({"T", "x", "y"}, curves);
  CHECK(CountOf(chart, "a &lt; b") == 1);
  CHECK(CountOf(chart, "nan") == 0);
  // Points of three values and of one; a move before and after the gap, and one of the second curve.
  CHECK(CountOf(chart, "<circle") == 4);
  const std::size_t path = chart.find("<path d=\"M", chart.find("<circle"));
  CHECK(std::count(chart.begin() + static_cast<std::ptrdiff_t>(path),
                   chart.begin() + static_cast<std::ptrdiff_t>(chart.find('/', path)), 'M') == 2);
  CHECK(CountOf(LineChart({"T", "x", "y"}, {}), "Nothing was measured yet.") == 1);
}

TEST_CASE("Runs side by side show what they came to and what they differ in") {
  const Runs runs;
  const test::Outcome text = Run({"compare", runs.first, runs.second});
  INFO(text.out << text.error);
  CHECK(text.exit_code == 0);
  CHECK(CountOf(text.out, "finished") == 2);
  CHECK(CountOf(text.out, "run.seed ") == 1);
  CHECK(CountOf(text.out, "optimizer.momentum") == 0);

  const auto object =
      nlohmann::json::parse(Run({"compare", runs.first, runs.second, "--json"}).out);
  CHECK(object["differences"]["run.seed"] == nlohmann::json({"1", "2"}));
  CHECK(object["differences"].size() == 2);
  for (const auto& [index, path] : {std::pair(0, runs.first), std::pair(1, runs.second)}) {
    const auto summary = nlohmann::json::parse(test::ReadFile(path + "/summary.json"));
    const auto& run = object["runs"][index];
    CHECK(run["run"] == path);
    CHECK(run["weights_sha256"] == summary["weights_sha256"]);
    CHECK(run["validation_loss"] == summary["validation_loss"]);
  }

  // The rows are those of the runs' own files.
  REQUIRE(Run({"compare", runs.first, runs.second, "--out", runs.folder / "c.csv"}).exit_code == 0);
  const auto lines = test::Lines(test::ReadFile(runs.folder / "c.csv"));
  const auto own = test::Lines(test::ReadFile(runs.first + "/metrics.csv"));
  REQUIRE(lines.size() > own.size());
  for (std::size_t i = 1; i < own.size(); ++i) {
    const auto fields = test::Split(own[i], ',');
    const auto found = test::Split(lines[i], ',');
    CHECK(found[0] == "one");
    CHECK(found[1] == fields[0]);
    CHECK(found[3] == fields[2]);
  }

  REQUIRE(Run({"compare", runs.first, runs.second, "--out", runs.folder / "c.html"}).exit_code ==
          0);
  const std::string page = test::ReadFile(runs.folder / "c.html");
  CHECK(CountOf(page, "<svg") == 4);
  CHECK(CountOf(page, "http") == CountOf(page, "http://www.w3.org/2000/svg"));
}

TEST_CASE("A run's page has its curves, configuration and origin") {
  const Runs runs;
  REQUIRE(Run({"report", runs.first}).exit_code == 0);
  const std::string page = test::ReadFile(runs.first + "/report.html");
  const auto manifest = nlohmann::json::parse(test::ReadFile(runs.first + "/manifest.json"));
  CHECK(CountOf(page, manifest["commit"].get<std::string>()) == 1);
  CHECK(CountOf(page, "<svg") == 5);
  for (const auto& [key, value] : ReadRun("RUN", runs.first).configuration) {
    CHECK(CountOf(page, "<td>" + key + "</td>") == 1);
  }
}

TEST_CASE("A loss that is no number at a run's end is not the one before it") {
  RunRecord run;
  run.metrics["validation_loss"] = {2.3, std::numeric_limits<double>::quiet_NaN()};
  CHECK(run.Last("validation_loss") == 2.3);
  run.summary = {{"validation_loss", nullptr}};
  CHECK(std::isnan(run.Last("validation_loss")));
}

TEST_CASE("Names that are not UTF-8 are written with U+FFFD, in every kind of file") {
  const TemporaryFolder folder;
  test::WriteFile(
      folder / "c.toml",
      "[network]\nname = \"mlp\"\nhidden = [4]\n[data]\nname = \"synthetic\"\n"
      "limit_train = 8\nlimit_validation = 4\n[optimizer]\nlr = 0.01\n[run]\nsamples = 8\n");
  const std::string name = "caf\xe9, \"1\"";
  const std::string written = "caf\xEF\xBF\xBD, \"1\"";
  const std::string path = folder / name;
  const test::Outcome trained = Run({"train", folder / "c.toml", "--out", path});
  INFO(trained.error);
  CHECK(trained.exit_code == 0);
  const auto summary = nlohmann::json::parse(test::ReadFile(path + "/summary.json"));
  CHECK(summary["out"].get<std::string>().ends_with(written));
  CHECK(Run({"train", folder / "c.toml", "--out", path, "--resume"}).exit_code == 0);
  CHECK(ReadRun("RUN", path).state() == "finished");

  REQUIRE(Run({"compare", path, "--out", folder / "c.csv"}).exit_code == 0);
  CHECK(test::Lines(test::ReadFile(folder / "c.csv"))[1].starts_with(
      "\"caf\xEF\xBF\xBD, \"\"1\"\"\",128,"));
  for (const test::Arguments& words :
       {test::Arguments{"report", path}, test::Arguments{"compare", path}}) {
    REQUIRE(Run({words[0], words[1], "--out", folder / "f.html"}).exit_code == 0);
    const std::string page = test::ReadFile(folder / "f.html");
    CHECK(CountOf(page, "caf\xEF\xBF\xBD, &quot;1&quot;") > 0);
    CHECK(CountOf(page, "\xe9") == 0);
  }
}

TEST_CASE("Rows side by side have the excess over the entropy where a run has it") {
  const Runs runs;
  // As a run on a source of known entropy writes it.
  const auto lines = test::Lines(test::ReadFile(runs.second + "/metrics.csv"));
  std::string metrics = lines[0] + ",validation_excess_bits\n";
  for (std::size_t i = 1; i < lines.size(); ++i) metrics += lines[i] + ",0.5\n";
  std::filesystem::remove(runs.second + "/SHA256SUMS");
  test::WriteFile(runs.second + "/metrics.csv", metrics);
  REQUIRE(Run({"compare", runs.first, runs.second, "--out", runs.folder / "c.csv"}).exit_code == 0);
  const auto rows = test::Lines(test::ReadFile(runs.folder / "c.csv"));
  CHECK(rows.front() == "run," + lines[0] + ",validation_excess_bits");
  for (const std::string& row : {rows[1], rows.back()}) {
    const auto fields = test::Split(row, ',');
    REQUIRE(fields.size() == 9);
    CHECK(fields.back() == (fields[0] == "one" ? "" : "0.5"));
  }
}

TEST_CASE("A run that goes on is shown as far as it is") {
  const Runs runs;
  // What a run that has not ended lacks.
  std::filesystem::remove(runs.first + "/summary.json");
  std::filesystem::remove(runs.first + "/SHA256SUMS");
  const std::string metrics = test::ReadFile(runs.first + "/metrics.csv");
  // Its last line is half written.
  test::WriteFile(runs.first + "/metrics.csv", metrics + "80,0.0");
  const RunRecord run = ReadRun("RUN", runs.first);
  CHECK(run.state() == "not finished");
  CHECK(run.Last("samples") == 64);
  CHECK(std::isnan(run.Number("samples_per_second")));
  CHECK(Outcome(run)["weights_sha256"].is_null());
  test::WriteFile(runs.first + "/metrics.csv", metrics + "80,x,,,,,\n");
  CHECK_THROWS_AS(ReadRun("RUN", runs.first), UsageError);
  test::WriteFile(runs.first + "/metrics.csv", metrics + "80\n64,1,,,,,\n");
  CHECK_THROWS_AS(ReadRun("RUN", runs.first), UsageError);
  // No row can be told without its samples, nor where a column is there twice.
  for (const char* text : {"", "epoch\n1\n", "samples,epoch,samples\n1,1,1\n"}) {
    test::WriteFile(runs.first + "/metrics.csv", text);
    const test::Outcome outcome = Run({"compare", runs.first, "--out", runs.folder / "c.csv"});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.error ==
          "batchless: RUN: got " + runs.first +
              "/metrics.csv:1, accepted: columns, each once, samples among them\n");
  }
  std::filesystem::remove(runs.first + "/config.toml");
  CHECK_THROWS_AS(ReadRun("RUN", runs.first), UsageError);
}

TEST_CASE("Keys of phases are told apart by the phase") {
  const TemporaryFolder folder;
  test::WriteFile(folder / "metrics.csv", "samples\n1\n");
  test::WriteFile(folder / "manifest.json", "{}");
  test::WriteFile(folder / "config.toml",
                  "[run]\nseed = 1\n[[phase]]\nuntil = 0.5\n[phase.schedule]\nkind = \"pb\"\n"
                  "[[phase]]\n[phase.schedule]\nplacement = [4, 8]\n");
  using Settings = std::vector<std::pair<std::string, std::string>>;
  const Settings expected = {{"run.seed", "1"},
                             {"phase.1.until", "0.5"},
                             {"phase.1.schedule.kind", "pb"},
                             {"phase.2.schedule.placement", "[ 4, 8 ]"}};
  CHECK(ReadRun("RUN", folder.path().string()).configuration == expected);
}

}  // namespace batchless
