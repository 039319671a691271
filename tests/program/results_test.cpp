// Known answers through the command line.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/rule.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/training/optimizer.h"
#include "catch.h"
#include "npz.h"
#include "result.h"
#include "run_program.h"

using namespace batchless::test;
using Json = nlohmann::json;

TEST_CASE("simulate: a cell without a finite number is empty") {
  const TemporaryFolder folder;
  const auto rows = [&](const std::string& options) {
    const Outcome outcome =
        Run(Words("simulate --steps 5000 --out f.csv --delay 1 " + options), folder.path());
    INFO(outcome.error);
    REQUIRE(outcome.exit_code == 0);
    const std::string text = ReadFile(folder / "f.csv");
    CHECK(text.find("nan") == std::string::npos);
    CHECK(text.find("inf") == std::string::npos);
    return Lines(text);
  };
  // It grows beyond a double; after the last update there is no prediction.
  std::vector<std::string> lines = rows("--rule sgdm --momentum 0.9 --rate 5");
  REQUIRE(lines.size() == 5002);
  CHECK(lines[1] == "0,1,0,1");
  CHECK(lines.back() == "5000,,,");
  // And no velocity with the rule linear.
  lines = rows("--rule linear --numerator 1 --denominator 1,-1 --rate 0.25");
  CHECK(lines[1] == "0,1,,1");
  // The steps of a table have the same cells.
  const Outcome outcome = Run(Words("optimum --rule sgdm --delay 1,2 --condition 10 --momentum 1"));
  CHECK(outcome.out.find("nan") == std::string::npos);
  CHECK(outcome.out.find(",,1,") != std::string::npos);
}

TEST_CASE("SGDM by its coefficients is SGDM, wherever a rule is asked for") {
  const std::string named = "--rule sgdm --momentum 0.9 ";
  const std::string given = "--rule linear --numerator 1,0 --denominator 1,-1.9,0.9 ";
  struct Question {
    const char* command;
    const char* key;
  };
  for (const auto& [command, key] : {
           Question{"stability --delay 4 --rate 0.01 ", "spectral_radius"},
           Question{"margin --delay 4 --rate 0.01 ", "gain_margin"},
           Question{"simulate --delay 4 --rate 0.01 --steps 7 ", "final_weight"},
           Question{"optimum --delay 4 --condition 10 ", "half_life_updates"},
           Question{"boundary --delay 4 ", "critical_rate"},
           Question{"inconsistency --model discrepancy --delay 4 --discrepancies 1 ",
                    "critical_rate"},
           Question{"pipeline-stability --condition 10 --stages 4 --rate 0.01 ", "spectral_radius"},
       }) {
    CAPTURE(command);
    const double expected = Result(command + named)[key];
    const Json found = Result(command + given);
    CHECK(std::abs(double{found[key]} / expected - 1) < 1e-6);
    CHECK(found["momentum"].is_null());
  }
  CHECK(Result("roots --delay 4 --rates 0.01 " + given)["rows"][0]["roots"].size() == 5);
  CHECK(Result("stability --roots --delay 4 --rate 0.01 " + given)["roots"].size() == 5);
  const std::string frequency = "frequency --delay 4 --rate 0.01 --frequencies 0.5 ";
  const Json expected = Result(frequency + named)["rows"][0];
  const Json found = Result(frequency + given)["rows"][0];
  for (const char* key : {"magnitude", "phase_radians"}) {
    CHECK(std::abs(double{found[key]} - double{expected[key]}) < 1e-12);
  }
  const Json frontier = Result("frontier --delay 2 --condition 10 --half-lives 40 " + given);
  CHECK(frontier["rows"][0]["momentum"].is_null());
  CHECK(double{frontier["rows"][0]["loss"]} > 0);
}

TEST_CASE("frontier: rows without delay say which of two rules is the better, and their N") {
  const std::string line = "frontier --rule sc --delay 2 --condition 10 --half-lives 0.1,5,40";
  const Json rows = Result(line)["rows"];
  const std::vector<std::string> table = Lines(Run(Words(line)).out);
  REQUIRE(rows.size() == 12);
  REQUIRE(table.size() == rows.size() + 1);
  const auto ends = [&](std::size_t row) {
    const std::vector<std::string> cells = Split(table[row + 1], ',');
    return std::pair(cells[cells.size() - 2], cells.back());
  };
  for (const std::size_t i : {0, 1, 2}) {
    CHECK(ends(i) == std::pair<std::string, std::string>("sc", "1"));
  }
  for (std::size_t i = 3; i < rows.size(); ++i) {
    const Json& row = rows[i];
    INFO(row);
    const auto [rule, gradients] = ends(i);
    // Nothing is as fast as a tenth of a step.
    CHECK(row["rule"].is_null() == (i % 3 == 0));
    if (i % 3 == 0) {
      CHECK(rule.empty());
      CHECK((row["method"] == "mini-batch") == gradients.empty());
      continue;
    }
    CHECK(row["rule"] == rule);
    // What the row says gives its loss and half-life: those of the rule without delay in other units.
    const double n = row["gradients_per_update"];
    const double steps = row["method"] == "mini-batch" ? n + 2 : n;
    const Json alone =
        Result(fmt::format("frontier --rule {} --delay 0 --condition 10 --half-lives {}", rule,
                           row["half_life_updates"].get<double>() / steps))["rows"][0];
    CHECK(double{alone["loss"]} / n == Approx(row["loss"].get<double>()).epsilon(1e-12));
    CHECK(gradients == fmt::format("{}", n));
  }
  CHECK(ends(7).second == "3");
  CHECK(ends(10).second == "1");
  CHECK(ends(11).second == "16");
}

TEST_CASE("every rule and every optimizer is listed, those with their state") {
  const Json rules = Result("rules")["rules"];
  std::vector<std::string_view> names;
  for (const Json& rule : rules) names.push_back(rule["name"].get_ref<const std::string&>());
  CHECK(names == batchless::analysis::NamesOf(batchless::analysis::AllRules()));
  const Json optimizers = Result("optimizers")["optimizers"];
  names.clear();
  for (const Json& optimizer : optimizers) {
    names.push_back(optimizer["name"].get_ref<const std::string&>());
    CHECK_FALSE(optimizer["state"].empty());
  }
  CHECK(names == batchless::analysis::NamesOf(batchless::training::Optimizers()));
}

TEST_CASE("optimizers say whose state they go on with") {
  const Json optimizers = Result("optimizers")["optimizers"];
  const auto row = std::find_if(optimizers.begin(), optimizers.end(),
                                [](const Json& each) { return each["name"] == "adamw"; });
  std::vector<std::string> names;
  for (const Json& from : (*row)["goes_on_from"]) names.push_back(from["optimizer"]);
  CHECK(names ==
        std::vector<std::string>{"adam", "adamw", "nadam", "nadamw", "muon", "basis-rotation"});
  CHECK((*row)["goes_on_from"][4]["matrices"].empty());
  CHECK((*row)["goes_on_from"][4]["vectors"] == Json{"mean gradient", "mean square"});
  CHECK(Run(Words("optimizers"))
            .out.find("goes on from adam, adamw, nadam, nadamw, muon (vectors), "
                      "basis-rotation (vectors)") != std::string::npos);
}

TEST_CASE("rules and optimizers are found by the other names that they have") {
  const auto with = [](const char* command, const char* words) {
    std::vector<std::string> names;
    const Json rows = Result(command)[command];
    for (const Json& row : rows) {
      if (row["also"].get<std::string>().find(words) != std::string::npos)
        names.push_back(row["name"]);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(with("rules", "asynchronous Nesterov") == Names{"lwp-w"});
  CHECK(with("rules", "error feedback") == Names{"free"});
  CHECK(with("optimizers", "asynchronous Nesterov") == Names{"nadamw"});
  const std::string text = Run(Words("rules")).out;
  CHECK(text.find("also          asynchronous Nesterov") != std::string::npos);
  // Rows without other names have no line for them.
  CHECK(text.find("also          \n") == std::string::npos);
}

TEST_CASE("stability: SGD without momentum and delay has the root 1 - x") {
  for (const double rate : {0.01, 0.25, 1.5}) {
    const Json result =
        Result("stability --rule sgdm --delay 0 --momentum 0 --rate " + std::to_string(rate));
    const double radius = std::abs(1 - rate);
    CHECK(result["spectral_radius"].get<double>() == Approx(radius).epsilon(1e-12));
    CHECK(result["half_life_updates"].get<double>() ==
          Approx(-std::log(2.0) / std::log(radius)).epsilon(1e-11));
    CHECK(result["stable"] == true);
    CHECK(result["error_bound"].get<double>() <= 1e-13);
  }
}

TEST_CASE("stability: the largest root has the spectral radius, options change the rule") {
  const std::string point = "--delay 4 --momentum 0.9 --rate 0.01 --roots";
  for (const std::string rule : {"sgdm", "sc", "lwp-v", "lwp-w+sc"}) {
    const Json result = Result("stability --rule " + rule + " " + point);
    double largest = 0;
    for (const Json& root : result["roots"]) {
      largest = std::max(largest, std::hypot(root[0].get<double>(), root[1].get<double>()));
    }
    CHECK(result["spectral_radius"].get<double>() == Approx(largest).epsilon(1e-12));
  }
  const auto radius = [&](const std::string& rule) {
    return Result("stability --rule " + rule + " " + point)["spectral_radius"].get<double>();
  };
  CHECK(radius("lwp-v --horizon 0") == radius("sgdm"));
  CHECK(radius("sc --sc-delay 1") == radius("nesterov"));
  CHECK(radius("sc --sc-delay 8") == radius("sc --sc-delay-scale 2"));
  CHECK(radius("lwp-w --horizon 8") == radius("lwp-w --horizon-scale 2"));
  CHECK(radius("sc --sc-a 1 --sc-b 0") == Approx(radius("sgdm")).epsilon(1e-13));
}

TEST_CASE("optimum: momentum without delay has the classical half-life") {
  for (const double condition : {10.0, 1000.0}) {
    const double root = std::sqrt(condition);
    const double expected = -std::log(2.0) / std::log((root - 1) / (root + 1));
    const Json result =
        Result("optimum --rule sgdm --delay 0 --condition " + std::to_string(condition));
    CHECK(result["half_life_updates"].get<double>() == Approx(expected).epsilon(2e-3));
    CHECK(result["momentum"].get<double>() ==
          Approx(std::pow((root - 1) / (root + 1), 2)).epsilon(0.02));
  }
}

TEST_CASE("optimum: LWPw with SC at a delay of 4 meets the published value") {
  // 123 was read off a grid, which can only lie above the optimum.
  const double half_life =
      Result("optimum --rule lwp-w+sc --delay 4 --condition 1000")["half_life_updates"];
  CHECK(half_life <= 123);
  CHECK(half_life >= 105);
}

TEST_CASE("optimum: lists give every combination in order, without useless options") {
  const Json rows = Result(
      "optimum --rule sgdm,lwp-v --delay 1,2 --condition 10,100 --horizon-scale 1,2")["rows"];
  std::vector<std::string> order;
  for (const Json& row : rows) {
    order.push_back(row["rule"].get<std::string>() + " " + row["horizon"].dump() + " " +
                    row["delay"].dump() + " " + row["condition"].dump());
  }
  CHECK(order ==
        std::vector<std::string>{"sgdm 0.0 1 10.0", "sgdm 0.0 1 100.0", "sgdm 0.0 2 10.0",
                                 "sgdm 0.0 2 100.0", "lwp-v 1.0 1 10.0", "lwp-v 1.0 1 100.0",
                                 "lwp-v 2.0 2 10.0", "lwp-v 2.0 2 100.0", "lwp-v 2.0 1 10.0",
                                 "lwp-v 2.0 1 100.0", "lwp-v 4.0 2 10.0", "lwp-v 4.0 2 100.0"});
  CHECK(Result("optimum --rule sc --delay 1 --condition 10 --momentum 0.5")["momentum"] == 0.5);
}

TEST_CASE("worst-case: a file tells the coefficients of a list apart") {
  const TemporaryFolder folder;
  REQUIRE(Run(Words("worst-case --rule sc --sc-a 1,0.5 --sc-b 0.2 --delay 0 --momentum 0.5 "
                    "--rate 0.1 --condition 10 --out w.csv"),
              folder.path())
              .exit_code == 0);
  const std::string file = ReadFile(folder / "w.csv");
  CHECK(file.starts_with("rule,delay,horizon,sc_delay,sc_a,sc_b,momentum,"));
  CHECK(file.find("\nsc,0,0,,1,0.2,0.5,") != std::string::npos);
  CHECK(file.find("\nsc,0,0,,0.5,0.2,0.5,") != std::string::npos);
}

TEST_CASE("boundary: SGD is stable up to 2 sin(pi / (4D + 2))") {
  const Json rows = Result("boundary --rule sgdm --delay 0,1,2,4,100,10000 --momentum 0")["rows"];
  REQUIRE(rows.size() == 6);
  for (const Json& row : rows) {
    const double expected = 2 * std::sin(std::numbers::pi / (4 * row["delay"].get<double>() + 2));
    CHECK(row["critical_rate"].get<double>() == Approx(expected).epsilon(1e-12));
  }
  const Json single = Result("boundary --rule sgdm --delay 4 --momentum 0");
  CHECK(single["critical_rate"] == rows[3]["critical_rate"]);
}

TEST_CASE("boundary: the edge is traced between two momenta") {
  const std::string call = "boundary --rule sgdm --delay 1 --trace momentum --momentum ";
  const Json edge = Result(call + "0.5,0.9")["rows"];
  REQUIRE(edge.size() > 8);
  CHECK(edge.front()["momentum"] == 0.5);
  CHECK(edge.back()["momentum"] == 0.9);
  for (const Json& point : edge) {
    const double m = point["momentum"];
    CHECK(point["critical_rate"].get<double>() == Approx(1 - m).epsilon(1e-11));
    CHECK(std::cos(point["frequency"].get<double>()) == Approx((1 + m) / 2).epsilon(1e-9));
    CHECK(point["corner"] == false);
  }
  const TemporaryFolder folder;
  REQUIRE(Run(Words(call + "0,0.5,0.9 --out f.csv"), folder.path()).exit_code == 0);
  CHECK(ReadFile(folder / "f.csv").starts_with("momentum,critical_rate,frequency\n0,"));
  CheckRefusal(call + "0,1", "--momentum: got 1");
  CheckRefusal("boundary --rule sgdm,sc --delay 1 --trace momentum --momentum 0,0.9",
               "--trace: got momentum for 2 rules or delays");
}

TEST_CASE("delays that vary: known numbers, by the mean and by each gradient's own") {
  const std::string point = " --delays uniform:0:8 --momentum 0.9 --rate 0.02 --rule ";
  const Json mean = Result("stability" + point + "lwp-w+sc");
  CHECK(std::abs(mean["spectral_radius"].get<double>() - 0.9006571116) < 1e-10);
  CHECK(mean["mean_delay"] == 4);
  CHECK(mean["horizon"] == 4);
  CHECK(mean["stable"] == true);
  CHECK(mean["mean_spectral_radius"] < mean["spectral_radius"]);
  CHECK(mean["log_rate"] < std::log(mean["spectral_radius"].get<double>()));
  const Json own = Result("stability --compensate own" + point + "lwp-w+sc");
  CHECK(std::abs(own["spectral_radius"].get<double>() - 0.9385784321) < 1e-10);
  CHECK(own["horizon"].is_null());
  CHECK(std::abs(Result("noise" + point + "sc")["weight_variance"].get<double>() - 429.090) < 1e-3);
  // Rules, conditions and momenta multiply to rows.
  const Json rows =
      Result("optimum --rule sgdm,lwp-v+sc --delays uniform:0:8 --condition 100")["rows"];
  REQUIRE(rows.size() == 2);
  CHECK(std::abs(rows[0]["half_life_updates"].get<double>() - 165.9) < 0.1);
  CHECK(std::abs(rows[1]["half_life_updates"].get<double>() - 40.89) < 0.01);
  CHECK(Result("boundary --rule sgdm,sc --delays geometric:0.3 --momentum 0.9")["rows"].size() ==
        2);
  // The rule linear has no momentum to print.
  const Outcome linear =
      Run(Words("optimum --rule linear --numerator 0.1 --denominator 1,-1 --delays uniform:0:2 "
                "--condition 10"));
  CHECK(linear.exit_code == 0);
  CHECK(linear.out.find("nan") == std::string::npos);
  // One that grows by itself is stable at no rate.
  const Outcome none =
      Run(Words("optimum --rule linear --numerator 1 --denominator 1,-3,2 --delays uniform:0:2 "
                "--condition 10"));
  CHECK(none.exit_code == 0);
  CHECK(Contains(none.out, "\n  no rate is stable\n"));
  CHECK_FALSE(Contains(none.out, "nan"));
}

TEST_CASE("delays from files: a distribution, a chain and a trace") {
  const TemporaryFolder folder;
  const std::string rest = " --rule sc --momentum 0.9 --rate 0.02";
  const auto radius = [&](const std::string& delays) {
    return Result("stability --delays " + delays + rest, folder.path())["spectral_radius"]
        .get<double>();
  };
  WriteFile(folder / "p.csv", "delay,probability\n0,0.5\n3,0.25\n7,0.25\n");
  WriteFile(folder / "chain.csv", "0,3,7\r\n0.5,0.25,0.25\n0.5,0.25,0.25\n0.5,0.25,0.25\n");
  CHECK(radius("p.csv") == Approx(radius("markov:chain.csv")).epsilon(1e-9));
  WriteFile(folder / "trace.csv", "delay\n4\n4\n");
  CHECK(
      radius("trace:trace.csv") ==
      Approx(Result("stability --delay 4" + rest)["spectral_radius"].get<double>()).epsilon(1e-9));
  // Nothing of a trace is random, so that there is no error to round to.
  const std::string line = "stability --delays trace:trace.csv" + rest;
  const double log_rate = Result(line, folder.path())["log_rate"];
  CHECK(Run(Words(line), folder.path())
            .out.ends_with(fmt::format("  log rate of a run   {}\n", log_rate)));

  const auto refused = [&](const std::string& text, const std::string& part) {
    WriteFile(folder / "bad.csv", text);
    for (const std::string kind : {"", "markov:", "trace:"}) {
      const std::string error =
          RefusalOf("stability --delays " + kind + "bad.csv" + rest, folder.path());
      CHECK(error.starts_with("batchless: --delays: got "));
      INFO(error);
      if (kind.empty()) CHECK(Contains(error, part));
    }
  };
  refused("", "there is nothing in it");
  refused("delay;probability\n1;1\n", "delay,probability in the first line");
  refused("delay,probability\n1,0.5\nx,0.5\n", "bad.csv, line 3: x");
  refused("delay,probability\n1,0.5\n2\n", "bad.csv, line 3: 2");
  refused("delay,probability\n1,0.5,9\n", "bad.csv, line 2: 1,0.5,9, accepted: columns delay,prob");
  refused("delay,weight\n1,1\n", "bad.csv, line 1: delay,weight, accepted: delay,probability in");
  refused("delay,probability\n" + std::string(1000, 'x') + ",1\n", "xxx..., accepted: an integer");
  refused("delay,probability\n1,0.5\n2,0.4\n", "probabilities that sum to 1");
}

TEST_CASE("rows of one rule with several options say which they are of") {
  struct Table {
    const char* line;
    const char* option;
    const char* columns;  // at the end
  };
  for (const auto& [line, option, columns] : {
           Table{"margin --rule sc --delay 4 --momentum 0.9 --rate 0.005 --sc-delay 1,2",
                 "sc_delay", "horizon,sc_delay,sc_a,sc_b"},
           Table{"frontier --rule sc --delay 1 --condition 10 --half-lives 40 --sc-delay 1,2",
                 "sc_delay", "horizon,sc_delay,sc_a,sc_b,rule,gradients_per_update"},
           Table{"inconsistency --model discrepancy --rule sc --delay 4 --momentum 0.9 "
                 "--discrepancies 1 --sc-delay 1,2",
                 "sc_delay", "horizon,horizon_scale,sc_delay,sc_delay_scale,sc_a,sc_b"},
           Table{"pipeline-stability --rule sc --condition 10 --stages 1 --widths 2 --optimum "
                 "--sc-delay 1,2",
                 "sc_delay", "horizon,horizon_scale,sc_delay,sc_delay_scale,sc_a,sc_b"},
           Table{"critical-delay --rule sc --damping 1 --sc-delay-scale 1,2", "sc_delay_scale",
                 "horizon_scale,sc_delay_scale"},
       }) {
    INFO(line);
    const Json rows = Result(line)["rows"];
    REQUIRE(rows.size() >= 2);
    CHECK(rows[0][option] == 1);
    CHECK(rows[1][option] == 2);
    const std::vector<std::string> table = Lines(Run(Words(line)).out);
    CHECK(table[0].ends_with("," + std::string(columns)));
    const std::vector<std::string> names = Split(table[0], ',');
    const auto place = std::find(names.begin(), names.end(), option) - names.begin();
    CHECK(Split(table[1], ',').at(place) == "1");
    CHECK(Split(table[2], ',').at(place) == "2");
  }
}

TEST_CASE("inconsistency: linear has no momentum, whatever the rules beside it have") {
  const std::string line =
      "inconsistency --model discrepancy --rule linear,sgdm --numerator 1 --denominator 1,-1 "
      "--delay 4 --momentum 0.9 --discrepancies 1";
  const std::vector<std::string> table = Lines(Run(Words(line)).out);
  REQUIRE(table.size() == 3);
  CHECK(table[1].starts_with("discrepancy,linear,current,4,0,,1,"));
  CHECK(table[2].starts_with("discrepancy,sgdm,current,4,0,0.9,1,"));
  CHECK(Result(line)["rows"][0]["momentum"].is_null());
}

TEST_CASE("frequency: rows are complex numbers in JSON as in the table") {
  const std::string line =
      "frequency --rule sgdm --delay 4 --momentum 0.9 --rate 0.01 --frequencies 0.1,1";
  const Json rows = Result(line)["rows"];
  REQUIRE(rows.size() == 2);
  const std::vector<std::string> table = Lines(Run(Words(line)).out);
  CHECK(table[0] == "frequency_radians,magnitude,phase_radians,real,imag");
  for (std::size_t i = 0; i < 2; ++i) {
    const double real = rows[i]["real"], imag = rows[i]["imag"], magnitude = rows[i]["magnitude"];
    CHECK(std::hypot(real, imag) == Approx(magnitude).epsilon(1e-12));
    CHECK(table[i + 1].ends_with(fmt::format(",{},{}", real, imag)));
  }
}

TEST_CASE("delays that are all the same are that delay, to the last digit") {
  struct Question {
    const char* line;
    std::vector<const char*> keys;
  };
  for (const auto& [line, keys] : std::vector<Question>{
           {"stability --momentum 0.9 --rate 0.01 ", {"spectral_radius", "half_life_updates"}},
           {"boundary --momentum 0.9 ", {"critical_rate"}},
           {"noise --momentum 0.9 --rate 0.01 ", {"weight_variance"}},
           {"optimum --condition 50 ", {"half_life_updates", "momentum", "rate"}}}) {
    INFO(line);
    const std::string common = std::string(line) + "--rule lwp-w+sc ";
    const Json constant = Result(common + "--delay 4");
    for (const char* compensate : {"mean", "own"}) {
      const Json same = Result(common + "--delays uniform:4:4 --compensate " + compensate);
      for (const char* key : keys) CHECK(same[key] == constant[key]);
    }
  }
}

TEST_CASE("margin: the gain margin leads to the boundary") {
  const double critical = Result("boundary --rule sc --delay 4 --momentum 0.9")["critical_rate"];
  const Json margin = Result("margin --rule sc --delay 4 --momentum 0.9 --rate 0.005");
  CHECK(margin["gain_margin"].get<double>() * 0.005 == Approx(critical).epsilon(1e-10));
  CHECK(margin["stable"] == true);
  CHECK(margin["largest_stable_delay"].get<int>() >= 4);
}

TEST_CASE("margin: a table has what a row of JSON has") {
  const std::string line = "margin --rule sgdm --delay 2 --momentum 0.9 --rate 0.01,1";
  const Json rows = Result(line)["rows"];
  const std::vector<std::string> table = Lines(Run(Words(line)).out);
  REQUIRE(table.size() == 3);
  const std::vector<std::string> names = Split(table[0], ',');
  for (const auto& [key, value] : rows[0].items()) {
    INFO(key);
    CHECK(std::count(names.begin(), names.end(), key) == 1);
  }
  const auto cell = [&](std::size_t row, const char* name) {
    const auto place = std::find(names.begin(), names.end(), name) - names.begin();
    return Split(table[row], ',').at(static_cast<std::size_t>(place));
  };
  CHECK(cell(1, "stable") == "1");
  CHECK(cell(1, "largest_stable_delay") == "11");
  CHECK(cell(2, "stable") == "0");
  CHECK(cell(2, "largest_stable_delay") == "0");
  CHECK(cell(2, "gain_crossover_radians").empty());
}

TEST_CASE("simulate: the recurrence by hand") {
  const Json plain = Result("simulate --rule sgdm --delay 0 --momentum 0 --rate 0.25 --steps 6");
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(plain["weight"][i].get<double>() == std::pow(0.75, static_cast<double>(i)));
  }
  const Json late = Result(
      "simulate --rule sgdm --delay 2 --momentum 0.5 --rate 0.25 --steps 6 --initial-weight -2");
  std::vector<double> weights = {-2};
  double velocity = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    velocity = 0.5 * velocity + weights[i >= 2 ? i - 2 : 0];
    weights.push_back(weights.back() - 0.25 * velocity);
  }
  CHECK(late["weight"].get<std::vector<double>>() == weights);
  CHECK(late["predicted_weight"].back().is_null());
}

TEST_CASE("simulate: compensation restores the impulse response after the delay") {
  const std::string options = "--momentum 0.5 --rate 1 --steps 12 --impulse --rule ";
  const Json prompt = Result("simulate --delay 0 " + options + "sgdm");
  const Json late = Result("simulate --delay 3 " + options + "sc");
  for (std::size_t i = 4; i <= 12; ++i) {
    CHECK(late["weight"][i].get<double>() ==
          Approx(prompt["weight"][i].get<double>()).epsilon(1e-14));
  }
}

TEST_CASE("roots: one row for each root") {
  const Json rows =
      Result("roots --rule lwp-w+sc --delay 3 --momentum 0.9 --rates log:0.01:1:5")["rows"];
  REQUIRE(rows.size() == 5);
  for (const Json& row : rows) CHECK(row["roots"].size() == 6);
}

TEST_CASE("pipeline-stability: the delays are those of the schedule") {
  const std::string line =
      "pipeline-stability --spectrum 1,0.5,0.2,0.1 --rule sgdm --momentum 0.5 --rate 0.1 ";
  CHECK(Result(line + "--stages 4")["delays"] == Json({6, 4, 2, 0}));
  CHECK(Result(line + "--stages 4 --schedule fill-drain")["delays"] == Json({0, 0, 0, 0}));
  CHECK(Result(line + "--stages 3")["widths"] == Json({2, 1, 1}));
  // Any kind, with a number of stages that all of them take.
  for (const batchless::hwmodel::ScheduleKind& kind : batchless::hwmodel::ScheduleKinds()) {
    INFO(kind.name);
    const Json delays = Result(line + "--stages 4 --schedule " + std::string(kind.name))["delays"];
    CHECK(delays.size() == 4);
    if (kind.flushes) CHECK(delays == Json({0, 0, 0, 0}));
  }
}

TEST_CASE("pipeline-stability: the delays of a file are those of its steady state") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& sizes) {
    Result("schedule --kind pb --out f.txt " + sizes, folder.path());
  };
  const std::string line =
      "pipeline-stability --spectrum 1,1,1,1,1,1,1,1 --rule sgdm --momentum 0.5 --rate 0.01 "
      "--schedule f.txt ";
  write("--stages 8 --microbatches 16");
  CHECK(Result(line + "--stages 8", folder.path())["delays"] == Json({14, 12, 10, 8, 6, 4, 2, 0}));
  write("--stages 2 --microbatches 12");
  std::string text = ReadFile(folder / "f.txt");
  text.replace(text.find("=newest"), 7, "=newest-30");
  WriteFile(folder / "f.txt", text);
  CHECK(Result(line + "--stages 2", folder.path())["delays"] == Json({32, 30}));

  // Too short for any.
  write("--stages 8 --microbatches 4");
  for (const std::string& command :
       {line + "--stages 8",
        std::string("advise --network lenet5 --condition 100 --schedule f.txt")}) {
    CheckRefusal(command, "--schedule: got f.txt", folder.path());
  }
}

TEST_CASE("pipeline-stability: equal delays are the uniform delay on every eigenvalue") {
  const Json pipeline = Result(
      "pipeline-stability --spectrum 2,0.5,0.1 --stages 3 --delays 3,3,3 --rule lwp-w+sc "
      "--momentum 0.7 --rate 0.2 --seed 5");
  double worst = 0;
  for (const std::string rate : {"0.2", "0.05", "0.01"}) {
    worst = std::max(worst, Result("stability --rule lwp-w+sc --delay 3 --momentum 0.7 --rate " +
                                   rate)["spectral_radius"]
                                .get<double>());
  }
  CHECK(pipeline["spectral_radius"].get<double>() == Approx(worst).epsilon(1e-9));
  CHECK(pipeline["learning_rate"].get<double>() == Approx(0.1).epsilon(1e-12));
}

TEST_CASE("pipeline-stability: a Hessian from a file") {
  const TemporaryFolder folder;
  using Arrays = std::vector<batchless::training::NamedTensor>;
  constexpr auto kDouble = batchless::training::Precision::kDouble;
  batchless::WriteNpz(folder / "H.npz",
                      Arrays{{"other", {1}, {1}}, {"hessian", {2, 2}, {2, 1, 1, 2}}}, kDouble);
  batchless::WriteNpz(folder / "crooked.npz", Arrays{{"hessian", {2, 2}, {2, 1, 0, 2}}}, kDouble);
  const std::string line =
      "pipeline-stability --stages 2 --rule sc --momentum 0.5 --learning-rate 0.1 --hessian ";
  const Json result = Result(line + "H.npz", folder.path());
  CHECK(result["largest_eigenvalue"].get<double>() == Approx(3).epsilon(1e-12));
  CHECK(result["rate"].get<double>() == Approx(0.3).epsilon(1e-12));
  CheckRefusal(line + "crooked.npz", "symmetric", folder.path());
}

TEST_CASE("pipeline-stability: without a stable rate there is no best one") {
  const std::string line = "pipeline-stability --spectrum=-1,1 --stages 2 --rule sgdm --optimum";
  const Json row = Result(line)["rows"][0];
  for (const char* key : {"half_life_updates", "momentum", "learning_rate"}) {
    INFO(key);
    CHECK(row[key].is_null());
  }
  CHECK(Contains(Run(Words(line)).out, "\nsgdm,2,2,1,0,,,,1,,2,,"));
}

TEST_CASE("pipeline-stability: the best rates of several pipelines are rows") {
  const Json rows = Result(
      "pipeline-stability --condition 50 --rule sgdm,sc --stages 1,2 --widths 2 --coupling 0,1 "
      "--optimum")["rows"];
  REQUIRE(rows.size() == 8);
  for (const Json& row : rows) {
    CHECK(row["weights"] == 2 * row["stages"].get<int>());
    // One stage has no delay but its own, two at most that of the first.
    const double own = row["half_life_updates"], largest = row["largest_half_life_updates"];
    if (row["stages"] == 1) CHECK(own == Approx(largest).epsilon(1e-3));
    CHECK(own < 1.01 * largest);
  }
}

TEST_CASE("advise: a rule that is named twice is looked at once") {
  const Json advice = Result("advise --network lenet5 --condition 100 --rule sc,sgdm,sc");
  REQUIRE(advice["rules"].size() == 2);
  CHECK(advice["rules"][0]["rule"] == "sc");
  CHECK(advice["rules"][1]["rule"] == "sgdm");
  CHECK(advice["rows"].size() == 2 * advice["stages"].get<std::size_t>());
}

TEST_CASE("advise: largest stable rates by stage are those of SGD at its delay") {
  const Json advice = Result("advise --network lenet5 --condition 100 --rule sgdm,sc --momentum 0");
  REQUIRE(advice["rows"].size() == 2 * advice["stages"].get<std::size_t>());
  for (const Json& row : advice["rows"]) {
    // Without momentum both rules are plain SGD, stable below 2 sin(pi / (4 D + 2)).
    if (row["rule"] == "sc") continue;
    const double delay = row["delay"];
    CHECK(row["largest_stable_rate"].get<double>() ==
          Approx(2 * std::sin(std::acos(-1.0) / (4 * delay + 2))).epsilon(1e-12));
  }
  const Json optimum = Result("optimum --rule sc --momentum 0 --condition 100 --delay " +
                              std::to_string(advice["largest_delay"].get<int>()));
  CHECK(advice["rules"][1]["half_life_updates"] == optimum["half_life_updates"]);
  // 11 to 0; what a half of an update costs nobody says.
  CHECK(
      Result("advise --network lenet5 --condition 100 --schedule 1f1b --rule sgdm")["mean_delay"] ==
      5.5);
}

TEST_CASE("limit: what no linear rule can beat, and how near a rule comes in optimum") {
  // (D + 1) ln 2 / ln((sqrt K + 1) / (sqrt K - 1)).
  const double limit = 5 * std::log(2) / std::log((std::sqrt(1000) + 1) / (std::sqrt(1000) - 1));
  const Json result = Result("limit --delay 4 --condition 1000");
  CHECK(result["half_life_updates"].get<double>() == Approx(limit).epsilon(1e-12));
  CHECK(result["spectral_radius"].get<double>() ==
        Approx(std::exp(-std::log(2) / limit)).epsilon(1e-14));
  const Json optimum = Result("optimum --rule sgdm --delay 1 --condition 10");
  CHECK(optimum["times_limit"].get<double>() ==
        Approx(optimum["half_life_updates"].get<double>() /
               optimum["limit_half_life_updates"].get<double>()));
}

TEST_CASE("design: with a momentum it drifts as SGDM does, and is the same rule otherwise") {
  const Json plain = Result("design --delay 2 --condition 50 --order 3");
  const Json scaled = Result("design --delay 2 --condition 50 --order 3 --momentum 0.75");
  double sum = 0;
  double slope = 0;
  const std::size_t order = scaled["denominator"].size() - 1;
  for (std::size_t k = 0; k < order; ++k) {
    sum += scaled["numerator"][k].get<double>();
    slope += static_cast<double>(order - k) * scaled["denominator"][k].get<double>();
    CHECK(scaled["numerator"][k].get<double>() * scaled["learning_rate"].get<double>() ==
          Approx(plain["numerator"][k].get<double>()));
  }
  CHECK(sum / slope == Approx(4).epsilon(1e-9));
  CHECK(scaled["denominator"] == plain["denominator"]);
  CHECK(scaled["half_life_updates"] == plain["half_life_updates"]);
  CHECK(plain["learning_rate"] == 1);
}

TEST_CASE(
    "design: its rule, handed to other commands, has the margins and half-life that it says") {
  const Json design = Result("design --delay 2 --condition 50 --order 2");
  const auto list = [&](const char* name) {
    std::string text;
    for (const double value : design[name])
      text += fmt::format("{}{}", text.empty() ? "" : ",", value);
    return text;
  };
  const std::string rule = " --rule linear --delay 2 --numerator " + list("numerator") +
                           " --denominator " + list("denominator");
  const Json margins = Result("margin --rate 1" + rule);
  for (const char* name : {"gain_margin", "phase_margin_radians", "delay_margin_updates"}) {
    CHECK(design[name] == margins[name]);
  }
  const Json optimum = Result("optimum --condition 50" + rule);
  // The design is for a largest curvature of 1; the search for the rate resolves a thousandth.
  CHECK(optimum["half_life_updates"].get<double>() ==
        Approx(design["half_life_updates"].get<double>()).epsilon(2e-3));
  CHECK(optimum["rate"].get<double>() == Approx(1).epsilon(2e-2));
}
