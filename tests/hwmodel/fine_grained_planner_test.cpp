#include "batchless/hwmodel/fine_grained_planner.h"

#include <algorithm>
#include <random>
#include <string>

#include "batchless/hwmodel/partition.h"
#include "catch.h"
#include "refusal.h"

namespace batchless::hwmodel {
namespace {

// So fast in everything but FLOPs that these alone count.
Machine Fine(double cores, double core_memory) {
  return {.name = "fine",
          .cores = cores,
          .peak_flops_per_second = 1e9 * cores,
          .local_memory_bytes = core_memory * cores,
          .local_bytes_per_second = 1e18 * cores,
          .fabric_bytes_per_second = 1e18 * cores};
}

Workload Random(std::mt19937& random, int stages) {
  Workload workload;
  workload.name = "random";
  workload.input_bytes = 8;
  for (int s = 0; s < stages; ++s) {
    StageCost cost;
    cost.parameters = random() % 50;
    cost.parameter_bytes = 4 * cost.parameters;
    cost.forward_flops = 1'000 + random() % 1'000'000;
    cost.input_gradient_flops = cost.forward_flops;
    cost.weight_gradient_flops = cost.forward_flops;
    cost.activation_bytes = random() % 100;
    cost.boundary_bytes = random() % 20;
    cost.largest_output = 1 + random() % 40;
    workload.stages.push_back(cost);
    workload.stage_names.push_back(std::to_string(s));
  }
  return workload;
}

// The most samples a second of all partitions into that many workers, among those that fit where any
// does; by the throughput model alone.
double Exhaustive(const Workload& workload, const Machine& machine, const std::string& schedule,
                  int workers, bool& fits) {
  const int stages = workload.stage_count();
  double best = 0;
  fits = false;
  for (int cuts = 0; cuts < 1 << (stages - 1); ++cuts) {
    std::vector<int> group_ends;
    for (int s = 1; s < stages; ++s) {
      if ((cuts >> (s - 1) & 1) != 0) group_ends.push_back(s);
    }
    group_ends.push_back(stages);
    if (std::ssize(group_ends) != workers) continue;
    const Throughput result =
        PredictThroughput(workload, machine, {.schedule = schedule, .group_ends = group_ends});
    if (result.fits && !fits) best = 0;
    fits = fits || result.fits;
    if (result.fits == fits) best = std::max(best, result.samples_per_second);
  }
  return best;
}

TEST_CASE("Layouts are as fast as the best of all partitions", "[planner]") {
  std::mt19937 random(1);
  int tight = 0;
  int impossible = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int stages = 1 + static_cast<int>(random() % 6);
    const Workload workload = Random(random, stages);
    const auto cores = static_cast<double>(1 + random() % 12);
    // From ample to too little for any.
    const double memory = trial % 3 == 0 ? 1e9 : 200.0 + static_cast<double>(random() % 2500);
    const Machine machine = Fine(cores, memory);
    const std::string schedule = trial % 2 == 0 ? "pb" : "1f1b";
    const int most = std::min(stages, static_cast<int>(cores));
    FineGrainedOptions options = {.schedule = schedule};
    for (int workers = 1; workers <= most; ++workers) options.workers.push_back(workers);
    const FineGrainedPlan plan = PlanFineGrained(workload, machine, options);
    REQUIRE(std::ssize(plan.layouts) == most);
    for (int workers = 1; workers <= most; ++workers) {
      const Throughput& layout = plan.layouts[workers - 1];
      std::vector<int> group_ends;
      for (const WorkerThroughput& worker : layout.workers) group_ends.push_back(worker.end_stage);
      CAPTURE(trial, workers);
      bool fits = false;
      const double best = Exhaustive(workload, machine, schedule, workers, fits);
      CHECK(layout.fits == fits);
      CHECK(layout.samples_per_second == Approx(best).epsilon(1e-9));
      CHECK(layout.workers.front().delay == (schedule == "pb" ? 2 * (workers - 1) : workers - 1));
      // Memory decided where even cores would be faster.
      const double even = PredictThroughput(workload, Fine(cores, 1e9),
                                            {.schedule = schedule, .group_ends = group_ends})
                              .samples_per_second;
      tight += fits && even > best * (1 + 1e-9) ? 1 : 0;
      impossible += fits ? 0 : 1;
    }
  }
  CHECK(tight > 0);
  CHECK(impossible > 0);
}

TEST_CASE("The plan has the fewest workers that cost next to nothing", "[planner]") {
  const Workload workload = MakeWorkload("resnet20");
  const Machine machine = Fine(2000, 1e6);
  FineGrainedOptions options;
  for (int workers = 1; workers <= 34; ++workers) options.workers.push_back(workers);
  for (const double slack : {0.0, 0.01, 0.2}) {
    options.slack = slack;
    const FineGrainedPlan plan = PlanFineGrained(workload, machine, options);
    double fastest = 0;
    for (const Throughput& layout : plan.layouts) {
      fastest = std::max(fastest, layout.samples_per_second);
    }
    for (std::size_t i = 0; i <= plan.best; ++i) {
      const double share = plan.layouts[i].samples_per_second / fastest;
      CHECK((share >= 1 - slack) == (i == plan.best));
    }
  }
}

TEST_CASE("Layouts are no slower than an even partition", "[planner]") {
  // As in a GPU, local memory holds some workers, and a fast shared one the others.
  Machine both = Fine(80, 3e5);
  both.shared_memory_bytes = 1e12;
  both.shared_bytes_per_second = 3e11;
  for (const std::string_view network : {"vgg11", "resnet20", "lenet5"}) {
    const Workload workload = MakeWorkload(network);
    for (const Machine& machine : {Fine(300, 1e7), both}) {
      for (const int workers : {2, 4, 5, 12}) {
        const FineGrainedPlan plan = PlanFineGrained(workload, machine, {.workers = {workers}});
        const Throughput& layout = plan.layouts.front();
        CHECK(layout.workers.back().end_stage == workload.stage_count());
        CHECK(std::ssize(layout.workers) == workers);
        CHECK(layout.samples_per_second >=
              PredictThroughput(workload, machine, {.schedule = "pb", .workers = workers})
                      .samples_per_second *
                  (1 - 1e-12));
      }
    }
  }
}

TEST_CASE("Refused layouts", "[planner]") {
  const Workload workload = MakeWorkload("lenet5");
  const Machine machine = Fine(5, 1e9);
  const auto refuses = [&](const FineGrainedOptions& options, const std::string& name) {
    CHECK(test::RefusedName([&] { PlanFineGrained(workload, machine, options); }) == name);
  };
  refuses({.schedule = "gpipe"}, "schedule");
  refuses({.schedule = "nothing"}, "kind");
  refuses({.microbatch = 0}, "microbatch");
  refuses({.workers = {0}}, "workers");
  refuses({.workers = {6}}, "workers");
  refuses({.slack = 1}, "slack");
  refuses({.slack = -0.1}, "slack");
}

}  // namespace
}  // namespace batchless::hwmodel
