#include "batchless/hwmodel/scheme_memory.h"

#include "batchless/analysis/argument.h"
#include "batchless/analysis/cancellation.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "catch.h"

namespace batchless::hwmodel {
namespace {

constexpr int kStages = 12;
constexpr std::int64_t kParameterBytes = 1000;
constexpr std::int64_t kActivationBytes = 70;
constexpr std::int64_t kBoundaryBytes = 30;

// Equal stages, whose input is as large as every boundary.
Workload Equal() {
  Workload workload;
  workload.name = "equal";
  workload.input_bytes = kBoundaryBytes;
  for (int s = 0; s < kStages; ++s) {
    workload.stage_names.push_back(std::to_string(s));
    StageCost cost;
    cost.parameter_bytes = kParameterBytes;
    cost.activation_bytes = kActivationBytes;
    cost.boundary_bytes = kBoundaryBytes;
    workload.stages.push_back(cost);
  }
  return workload;
}

std::vector<int> Ends(int workers) {
  std::vector<int> group_ends;
  for (int g = 1; g <= workers; ++g) group_ends.push_back(kStages / workers * g);
  return group_ends;
}

TEST_CASE("The first worker's memory is that of the papers' formulas", "[scheme_memory]") {
  const Workload workload = Equal();
  for (const int d : {1, 2, 3, 4, 6, 12}) {
    for (const std::int64_t b : {1, 8}) {
      const std::int64_t m = 2 * d;
      const double w = kStages * kParameterBytes;
      const double a = static_cast<double>(kStages * kActivationBytes * b);
      const double in = static_cast<double>(kBoundaryBytes * b);
      const auto first = [&](std::string_view name) {
        return PredictSchemeMemory(FindMemoryScheme(name), workload, Ends(d), {b, m}).front();
      };
      CAPTURE(d, b);
      // Narayanan et al., arXiv 2006.09503 (recalled).
      CHECK(first("2bw-recompute").total() == Approx(2 * w / d + a / d + d * in));
      CHECK(first("2bw").total() == Approx(2 * w / d + d * (a / d) + d * in));
      CHECK(first("gpipe-recompute").total() ==
            Approx(w / d + a / d + static_cast<double>(m) * in));
      CHECK(first("gpipe").total() == Approx(w / d + static_cast<double>(m) * a / d));
      CHECK(first("pb").total() == Approx(w / d + (2 * d - 1) * a / d));
      CHECK(first("pipedream").total() == Approx(d * w / d + d * a / d));
      CHECK(first("reversible").total() == Approx(w / d + a / d));
      CHECK(first("pipemare").total() == Approx(2 * w / d + (2 * d - 1) * a / d));
    }
  }
}

TEST_CASE("The last worker of an asynchronous pipeline keeps one of each", "[scheme_memory]") {
  const Workload workload = Equal();
  for (const std::string_view name : {"pb", "stale", "pipedream", "reversible"}) {
    const SchemeMemory last =
        PredictSchemeMemory(FindMemoryScheme(name), workload, Ends(4), {1, 0}).back();
    CHECK(last.weight_bytes == 3 * kParameterBytes);
    CHECK(last.activation_bytes == 3 * kActivationBytes);
  }
}

TEST_CASE("Updates of few micro-batches fill the pipeline all the same", "[scheme_memory]") {
  // n = d - g with paci, however few there are in an update.
  const Workload workload = Equal();
  for (const std::int64_t m : {1, 2, 5, 12, 30}) {
    CAPTURE(m);
    const std::vector<SchemeMemory> memory =
        PredictSchemeMemory(FindMemoryScheme("paci"), workload, Ends(12), {1, m});
    CHECK(memory[0].activation_bytes == 12 * kActivationBytes);
    CHECK(memory[6].activation_bytes == 6 * kActivationBytes);
  }
}

TEST_CASE("Updates of many micro-batches keep what their list says, and ask for no list as long",
          "[scheme_memory]") {
  const Workload workload = Equal();
  for (const std::string_view name : {"2bw", "gpipe", "gpipe-recompute"}) {
    const MemoryScheme& scheme = FindMemoryScheme(name);
    for (const int d : {1, 3, 12}) {
      for (const std::int64_t m : {16 * d, 16 * d + 1, 17 * d + 2}) {
        CAPTURE(name, d, m);
        const std::vector<StageSummary> stages =
            Summarize(MakeSchedule(scheme.schedule, {.stages = d,
                                                     .microbatches = EnoughMicrobatches(d, m),
                                                     .microbatches_per_update = m}))
                .stages;
        const std::vector<SchemeMemory> memory =
            PredictSchemeMemory(scheme, workload, Ends(d), {1, m});
        for (int g = 0; g < d; ++g) {
          const WorkerSizes sizes =
              MeasureWorker(workload, kStages / d * g, kStages / d * (g + 1), 1);
          const StageSummary& stage = stages[static_cast<std::size_t>(g)];
          const SchemeMemory expected =
              KeptBytes(scheme, sizes, static_cast<double>(stage.weight_versions),
                        static_cast<double>(stage.activations_in_flight));
          CHECK(memory[static_cast<std::size_t>(g)].weight_bytes == expected.weight_bytes);
          CHECK(memory[static_cast<std::size_t>(g)].activation_bytes == expected.activation_bytes);
        }
      }
    }
    const auto asked = [&](std::int64_t m) {
      std::int64_t times = 0;
      const analysis::CancellationCheck check([&] { ++times; });
      static_cast<void>(PredictSchemeMemory(scheme, workload, Ends(4), {1, m}));
      return times;
    };
    CHECK(asked(8192) == asked(4096));
  }
}

TEST_CASE("What only crosses a worker is none of its inputs", "[scheme_memory]") {
  // A value of the first stage that the last one reads, as large as ten boundaries.
  constexpr std::int64_t kSkipBytes = 10 * kBoundaryBytes;
  Workload workload = Equal();
  for (int s = 0; s + 1 < kStages; ++s) {
    workload.stages[s].boundary_bytes += kSkipBytes;
    if (s + 2 < kStages) workload.stages[s].passing = {{kSkipBytes, kStages - 1}};
  }
  for (const std::string_view name : {"2bw-recompute", "2bw", "gpipe-recompute"}) {
    CAPTURE(name);
    const auto of = [&](const Workload& measured) {
      return PredictSchemeMemory(FindMemoryScheme(name), measured, Ends(4), {1, 4});
    };
    const std::vector<SchemeMemory> crossed = of(workload);
    const std::vector<SchemeMemory> plain = of(Equal());
    for (std::size_t g = 0; g < 3; ++g) {
      CHECK(crossed[g].activation_bytes == plain[g].activation_bytes);
    }
    const double in_flight = name == "gpipe-recompute" ? 4 : 1;
    CHECK(crossed[3].activation_bytes == plain[3].activation_bytes + in_flight * kSkipBytes);
  }
}

TEST_CASE("Groups that are none are refused", "[scheme_memory]") {
  const Workload workload = Equal();
  const MemoryScheme& pb = FindMemoryScheme("pb");
  for (const std::vector<int>& group_ends :
       {std::vector<int>{}, {4}, {12, 12}, {6, 4, 12}, {13}, {0, 12}}) {
    CHECK_THROWS_AS(PredictSchemeMemory(pb, workload, group_ends, {}), analysis::InvalidArgument);
  }
  CHECK_THROWS_WITH(FindMemoryScheme("3bw"), Catch::Matchers::Contains("did you mean 2bw?"));
  CHECK_THROWS_AS(PredictSchemeMemory(pb, workload, Ends(2), {0, 0}), analysis::InvalidArgument);
}

}  // namespace
}  // namespace batchless::hwmodel
