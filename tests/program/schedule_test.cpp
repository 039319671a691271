// The command `schedule`: its numbers, its files, and what it says about a user's own list.
#include <nlohmann/json.hpp>

#include "catch.h"
#include "result.h"
#include "run_program.h"

using namespace batchless::test;
using Json = nlohmann::json;

TEST_CASE("delays, utilisation and versions as in the formulas") {
  const Json pb = Result("schedule --kind pb --stages 4 --microbatches 20");
  CHECK(pb["delays"] == Json({6, 4, 2, 0}));
  CHECK(pb["backward_delays"] == Json({0, 0, 0, 0}));
  CHECK(pb["activations_in_flight"] == Json({7, 5, 3, 1}));
  CHECK(pb["weight_versions"] == Json({1, 1, 1, 1}));
  CHECK(pb["stashed_weight_versions"] == Json({7, 5, 3, 1}));
  CHECK(pb["steps"] == 26);
  CHECK(pb["utilisation"].get<double>() == Approx(20.0 / 26));
  CHECK(pb["bubble_ratio"].get<double>() == Approx(6.0 / 26));
  CHECK(pb["actions"].size() == pb["action_count"]);
  CHECK(pb["actions"][0] == Json({0, 0, "F", 0}));

  const Json stashed =
      Result("schedule --kind 1f1b --stages 4 --microbatches 20 --weight-stashing");
  CHECK(stashed["delays"] == Json({3, 2, 1, 0}));
  CHECK(stashed["backward_delays"] == Json({3, 2, 1, 0}));
  CHECK(stashed["weight_versions"] == Json({4, 3, 2, 1}));
  CHECK(stashed["weights"] == "stashed");

  const Json buffered =
      Result("schedule --kind 2bw --stages 4 --microbatches 32 --microbatches-per-update 8");
  CHECK(buffered["delays"] == Json({1, 1, 1, 1}));
  CHECK(buffered["weight_versions"] == Json({2, 2, 2, 2}));

  const Json gpipe = Result("schedule --kind gpipe --stages 4 --microbatches 8");
  CHECK(gpipe["bubble_ratio"].get<double>() == Approx(3.0 / 11));
  const Json interleaved =
      Result("schedule --kind interleaved --stages 8 --chunks 2 --microbatches 8");
  CHECK(interleaved["workers"] == 4);
  CHECK(interleaved["bubble_ratio"].get<double>() == Approx(3.0 / 19));
  const Json both_ends = Result("schedule --kind dualpipe --stages 8 --microbatches 16");
  CHECK(both_ends["workers"] == 8);
  CHECK(both_ends["delays"] == Json({0, 0, 0, 0, 0, 0, 0, 0}));
  CHECK(both_ends["bubble_ratio"].get<double>() == Approx(3.0 / 51));
  const Json everywhere = Result(
      "schedule --kind amdp-multi --stages 8 --microbatches 96 --microbatches-per-update 16");
  CHECK(everywhere["workers"] == 8);
  CHECK(everywhere["delays"] == Json({1, 1, 1, 1, 1, 1, 1, 0}));
  CHECK(everywhere["bubble_ratio"].get<double>() == Approx(1.0 / 97));
}

TEST_CASE("a list that is too short for its steady state says so, and what that is") {
  // Too few micro-batches to fill the pipeline: the first gradients only, which are less late.
  const Json young = Result("schedule --kind pb --stages 4 --microbatches 4");
  CHECK(young["delays"] == Json({3, 3, 2, 0}));
  CHECK(young["shows_steady_state"] == false);
  CHECK(young["steady_delays"] == Json({6, 4, 2, 0}));
  const std::string text = Run(Words("schedule --kind pb --stages 4 --microbatches 4")).out;
  CHECK(text.find("too short for the steady state, whose delays are 6, 4, 2, 0\n") !=
        std::string::npos);

  // Enough for the delays and too few for all versions, which the steady state tells.
  const Json filled = Result("schedule --kind pb --stages 34 --microbatches 128");
  CHECK(filled["shows_steady_state"] == true);
  CHECK(filled["steady_delays"] == filled["delays"]);
  for (int stage = 0; stage < 34; ++stage) {
    CHECK(filled["delays"][static_cast<std::size_t>(stage)] == 2 * (33 - stage));
    CHECK(filled["stashed_weight_versions"][static_cast<std::size_t>(stage)] ==
          2 * (33 - stage) + 1);
  }
  CHECK(Run(Words("schedule --kind pb --stages 4 --microbatches 8")).out.find("note") ==
        std::string::npos);

  // A prime number of micro-batches is one update.
  const std::string prime = "schedule --kind 2bw --stages 4 --microbatches 31";
  CHECK(Result(prime)["steady_delays"] == Json({1, 1, 1, 1}));
  CHECK(Run(Words(prime))
            .out.find("one update only: nothing is late; too short for the steady "
                      "state, whose delays are 1, 1, 1, 1\n") != std::string::npos);
  // However long the one update is.
  for (const std::string kind : {"paci", "amdp", "2bw"}) {
    const Json long_one = Result("schedule --kind " + kind + " --stages 4 --microbatches 5003");
    CHECK(long_one["shows_steady_state"] == false);
    CHECK(long_one["steady_delays"] == (kind == "2bw" ? Json({1, 1, 1, 1}) : Json({1, 1, 1, 0})));
  }
  // One mini-batch of a schedule that drains is all that there is to see.
  for (const std::string kind : {"gpipe", "fill-drain", "zb-h1"}) {
    const Json drained = Result("schedule --kind " + kind + " --stages 4 --microbatches 31");
    CHECK(drained["shows_steady_state"] == true);
    CHECK(drained["steady_delays"] == Json({0, 0, 0, 0}));
  }
  // So many stages that nobody wants to wait for their steady state.
  const Json wide = Result("schedule --kind pb --stages 5000 --microbatches 2");
  CHECK(wide["shows_steady_state"] == false);
  CHECK(wide["steady_delays"].is_null());
  CHECK(Run(Words("schedule --kind pb --stages 5000 --microbatches 2"))
            .out.find("steady state, for which 20004 micro-batches are enough\n") !=
        std::string::npos);
}

TEST_CASE("the steady state of a file's list is found in it, or not") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& microbatches) {
    REQUIRE(Run(Words("schedule --kind 1f1b --stages 4 --out f.csv --microbatches " + microbatches),
                folder.path())
                .exit_code == 0);
    // As an editor leaves it.
    WriteFile(folder / "f.csv", ReadFile(folder / "f.csv") + "\n");
    return Result("schedule --file f.csv", folder.path());
  };
  CHECK(read("9")["steady_delays"] == Json({3, 2, 1, 0}));
  CHECK(read("9")["shows_steady_state"] == true);
  const Json young = read("2");
  CHECK(young["delays"] == Json({1, 1, 1, 0}));
  CHECK(young["shows_steady_state"] == false);
  CHECK(young["steady_delays"].is_null());
  CHECK(Run(Words("schedule --file f.csv"), folder.path()).out.find("too short for its steady") !=
        std::string::npos);
}

TEST_CASE("the steady state of a file whose forwards lag shows the lag") {
  const TemporaryFolder folder;
  const auto lagging = [&](const std::string& schedule, int lag) {
    REQUIRE(Run(Words("schedule --kind " + schedule + " --out f.txt"), folder.path()).exit_code ==
            0);
    std::string text = ReadFile(folder / "f.txt");
    text.replace(text.find("=newest"), 7, "=newest-" + std::to_string(lag));
    WriteFile(folder / "f.txt", text);
    return Result("schedule --file f.txt", folder.path());
  };
  const Json some = lagging("pb --stages 2 --microbatches 12", 30);
  CHECK(some["shows_steady_state"] == true);
  CHECK(some["steady_delays"] == Json({32, 30}));
  CHECK(some["weight_versions"] == Json({31, 31}));
  // A list that is long, but not as long as its forwards lag.
  CHECK(lagging("pb --stages 2 --microbatches 6000", 8000)["steady_delays"] == Json({8002, 8000}));
  // One that would take gigabytes to show.
  const Json vast =
      lagging("gpipe --stages 4 --microbatches 2000 --microbatches-per-update 1000", 10000);
  CHECK(vast["shows_steady_state"] == false);
}

TEST_CASE("actions are left out of the JSON where they go to a file or are too many") {
  const TemporaryFolder folder;
  const std::string small = "schedule --kind pb --stages 2 --microbatches 4 --out f.csv";
  CHECK_FALSE(Result(small, folder.path()).contains("actions"));
  CHECK_FALSE(Result("schedule --kind pb --stages 4 --microbatches 10000").contains("actions"));
}

TEST_CASE("what the program writes it reads as the same schedule") {
  const TemporaryFolder folder;
  // Whole and split backwards, one and several workers a stage.
  for (const std::string kind : {"pb", "2bw", "zb-v", "amdp-multi"}) {
    for (const std::string ending : {"csv", "txt"}) {
      CAPTURE(kind, ending);
      Json first =
          Result("schedule --kind " + kind + " --stages 4 --microbatches 8 --out a." + ending,
                 folder.path());
      Json second = Result("schedule --file a." + ending + " --out b." + ending, folder.path());
      CHECK(ReadFile(folder / ("a." + ending)) == ReadFile(folder / ("b." + ending)));
      CHECK(second["kind"].is_null());
      for (Json* object : {&first, &second}) {
        object->erase("kind");
        object->erase("out");
        // A file with one update does not say what comes after it.
        object->erase("shows_steady_state");
        object->erase("steady_delays");
      }
      CHECK(first == second);
    }
  }
}

TEST_CASE("the CSV has the four columns, one row an action") {
  const TemporaryFolder folder;
  CHECK(Run(Words("schedule --kind pb --stages 2 --microbatches 1 --out f.csv"), folder.path())
            .exit_code == 0);
  CHECK(ReadFile(folder / "f.csv") ==
        "step,stage,kind,microbatch\n0,0,F,0\n1,1,F,0\n1,1,B,0\n1,1,U,0\n2,0,B,0\n2,0,U,0\n");
}

TEST_CASE("the trace is JSON and the picture is SVG") {
  const TemporaryFolder folder;
  const std::string line = "schedule --kind zb-h1 --stages 3 --microbatches 6 --out ";
  CHECK(Run(Words(line + "f.json"), folder.path()).exit_code == 0);
  const Json events = Json::parse(ReadFile(folder / "f.json"))["traceEvents"];
  std::size_t actions = 0;
  for (const Json& event : events) {
    if (event["ph"] != "M") ++actions;
  }
  CHECK(actions == 3 * 6 * 3 + 3);
  CHECK(Run(Words(line + "f.svg"), folder.path()).exit_code == 0);
  const std::string svg = ReadFile(folder / "f.svg");
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
}

TEST_CASE("a list that is no schedule is refused with the line, the place and the rule") {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& name, const std::string& content,
                         const std::string& error) {
    WriteFile(folder / name, content);
    CHECK(RefusalOf("schedule --file " + name + " --out f.svg", folder.path()) ==
          "batchless: --file " + name + error + "\n");
    CHECK(folder.Files() == std::vector<std::string>{name});
    std::filesystem::remove(folder / name);
  };
  const std::string header = "step,stage,kind,microbatch\n";
  check("a.csv", header + "0,0,F,0\n1,1,F,0\n1,1,B,0\n1,1,U,0\n1,0,B,0\n1,0,U,0\n",
        " line 6: got 0B0 at step 1, accepted: 1B0 in an earlier step");
  // Sorted by stage: the place in the file, of rules that are looked at step by step.
  check("a.csv", header + "0,0,F,0\n1,0,B,0\n1,0,U,0\n1,1,F,0\n1,1,B,0\n1,1,U,0\n",
        " line 3: got 0B0 at step 1, accepted: 1B0 in an earlier step");
  check("a.csv", header + "0,0,F,0\n1,0,B,zero\n",
        " line 3: microbatch: got zero, accepted: an integer from 0 to 2305843009213693951");
  check("a.csv", header, " stages: got 0, accepted: an integer >= 1");
  check("a.txt", "stages=1 microbatches=1 slots_per_step=1 weights=newest\n0: 0F0 0B0 0U0\n",
        ": got 0B0 at step 0, accepted: at most 1 computation of worker 0 in a step");
}

TEST_CASE("options that do not go together are refused by name") {
  const std::string sizes = " --stages 4 --microbatches 8";
  CheckRefusal("schedule --kind pb --chunks 2" + sizes, "--chunks: got 2");
  CheckRefusal("schedule --kind 2bw --microbatches-per-update 2" + sizes,
               "--microbatches-per-update: got 2");
  CheckRefusal("schedule --kind 2bw --weight-stashing" + sizes, "--weight-stashing: got");
  CheckRefusal("schedule --file f.csv" + sizes, "--stages: got 4");
  CheckRefusal("schedule --file f.csv --weight-stashing", "--weight-stashing: got");
}
