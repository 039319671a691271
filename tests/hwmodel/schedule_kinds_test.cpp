// The schedules by name against the formulas of schedule_kinds.h, which the library knows only in
// its comments.
#include "batchless/hwmodel/schedule_kinds.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_check.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/hwmodel/steady_state.h"
#include "catch.h"
#include "refusal.h"

using namespace batchless::hwmodel;
using batchless::analysis::InvalidArgument;

namespace {

constexpr double kRounding = 1e-14;  // of one division
constexpr const char* kNothingThrown = "";

double Ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::string NameOfBadArgument(std::string_view kind, const ScheduleOptions& options) {
  return batchless::test::RefusedName([&] { MakeSchedule(kind, options); });
}

// The argument that the kind cannot take, by the conditions of its header.
std::string RefusedArgument(const ScheduleKind& kind, const ScheduleOptions& options) {
  const int stages = options.stages;
  const std::int64_t given = options.microbatches_per_update;
  const std::int64_t per_update = given == 0 ? options.microbatches : given;
  if (kind.updates_each && given > 1) return "microbatches_per_update";
  if (kind.name == "2bw" && per_update < stages) {
    return given == 0 ? "microbatches" : "microbatches_per_update";
  }
  if (kind.name == "interleaved" && stages % 2 != 0) return "chunks";
  if (kind.name == "interleaved" && per_update % (stages / 2) != 0) {
    return "microbatches_per_update";
  }
  if (kind.name == "zb-v" || kind.name.starts_with("dualpipe")) {
    if (stages % 2 != 0) return "stages";
    if (per_update < (kind.name == "dualpipe" ? 2 : 1) * stages) return "microbatches_per_update";
    if (kind.name == "dualpipe" && per_update % 2 != 0) return "microbatches_per_update";
  }
  if (kind.name == "amdp-multi" && stages % 4 != 0) return "stages";
  if (kind.name == "amdp-multi" && per_update % stages != 0) return "microbatches_per_update";
  return kNothingThrown;
}

// Looks at the list alone: what the library's own check would let pass fails here too.
void CheckEachPassOnce(const Schedule& schedule) {
  std::map<std::string, std::int64_t> step;  // by the words of a pass
  std::vector<std::int64_t> without_update(static_cast<std::size_t>(schedule.stages));
  const ActionKind gradient =
      schedule.splits_backward() ? ActionKind::kWeightGradient : ActionKind::kBackward;
  bool once = true;
  for (const TimedAction& timed : schedule.actions) {
    std::int64_t& gradients = without_update[static_cast<std::size_t>(timed.action.stage)];
    if (timed.action.kind == gradient) ++gradients;
    if (timed.action.kind == ActionKind::kUpdate) {
      once = once && gradients > 0;
      gradients = 0;
    } else {
      once = once && step.emplace(ToText(timed.action), timed.step).second;
    }
  }
  CHECK(once);
  const auto at = [&](int s, ActionKind kind, std::int64_t i) {
    const auto found = step.find(ToText({s, kind, i}));
    return found == step.end() ? -1 : found->second;
  };
  bool complete = true, ordered = true;
  const int last = schedule.stages - 1;
  for (int s = 0; s <= last; ++s) {
    complete = complete && without_update[static_cast<std::size_t>(s)] == 0;
    for (std::int64_t i = 0; i < schedule.microbatches; ++i) {
      const std::int64_t forward = at(s, ActionKind::kForward, i);
      const std::int64_t backward = at(s, ActionKind::kBackward, i);
      const std::int64_t weight = at(s, gradient, i);
      complete = complete && forward >= 0 && backward >= 0 && weight >= 0;
      ordered = ordered && forward <= backward && backward <= weight &&
                (s == 0 || at(s - 1, ActionKind::kForward, i) < forward) &&
                (s == last || at(s + 1, ActionKind::kBackward, i) < backward);
    }
  }
  CHECK(complete);
  CHECK(ordered);
  const std::int64_t passes = schedule.splits_backward() ? 3 : 2;
  CHECK(static_cast<std::int64_t>(step.size()) == passes * schedule.stages * schedule.microbatches);
  CHECK_FALSE(FirstBrokenRule(schedule).has_value());
}

// The words of each step, steps separated by bars.
std::string StepsOf(const Schedule& schedule) {
  std::string text;
  std::int64_t step = 0;
  for (const TimedAction& timed : schedule.actions) {
    for (; step < timed.step; ++step) text += "| ";
    text += ToText(timed.action) + " ";
  }
  return text;
}

void CheckNoDelay(const ScheduleSummary& summary) {
  for (const StageSummary& stage : summary.stages) {
    CHECK(stage.forward_delay_updates == 0);
    CHECK(stage.backward_delay_updates == 0);
    CHECK(stage.weight_versions == 1);
    CHECK(stage.stashed_weight_versions == 1);
  }
}

}  // namespace

TEST_CASE("1F1B delays stage s by S-1-s updates and keeps S-s micro-batches") {
  const int stages = GENERATE(1, 2, 3, 8, 34);
  const std::int64_t microbatches = 3 * stages + 1;
  const Schedule schedule = OneForwardOneBackward(stages, microbatches);
  const ScheduleSummary summary = Summarize(schedule);
  Schedule with_stashing = schedule;
  with_stashing.weights = WeightVersions::kStashed;
  const ScheduleSummary stashed = Summarize(with_stashing);
  CHECK(summary.steps == 2 * (microbatches + stages - 1));
  CHECK(summary.bubble_ratio ==
        Approx(Ratio(stages - 1, microbatches + stages - 1)).margin(kRounding));
  for (int s = 0; s < stages; ++s) {
    CAPTURE(stages, s);
    const std::int64_t delay = stages - 1 - s;
    const StageSummary& stage = summary.stages[static_cast<std::size_t>(s)];
    CHECK(stage.forward_delay_updates == delay);
    CHECK(stage.backward_delay_updates == 0);
    CHECK(stage.activations_in_flight == delay + 1);
    CHECK(stage.weight_versions == 1);
    CHECK(stage.stashed_weight_versions == delay + 1);
    const StageSummary& with = stashed.stages[static_cast<std::size_t>(s)];
    CHECK(with.forward_delay_updates == delay);
    CHECK(with.backward_delay_updates == delay);
    CHECK(with.weight_versions == delay + 1);
    for (std::int64_t i = 0; i < microbatches; ++i) {
      const std::int64_t read = std::max<std::int64_t>(0, i - delay);
      const auto index = static_cast<std::size_t>(i);
      CHECK(stage.microbatches[index] == MicrobatchVersions{read, i, i});
      CHECK(with.microbatches[index] == MicrobatchVersions{read, read, i});
    }
  }
}

TEST_CASE("stashed pipelined backpropagation reads its forward's version again") {
  ScheduleOptions options{.stages = 4, .microbatches = 20};
  options.weight_stashing = true;
  const ScheduleSummary summary = Summarize(MakeSchedule("pb", options));
  for (int s = 0; s < 4; ++s) {
    const StageSummary& stage = summary.stages[static_cast<std::size_t>(s)];
    const std::int64_t delay = 2 * (3 - s);
    CHECK(stage.forward_delay_updates == delay);
    CHECK(stage.backward_delay_updates == delay);
    CHECK(stage.weight_versions == delay + 1);
  }
}

TEST_CASE("SpecTrain's horizons: what a stage updates until a micro-batch's last backward") {
  const int stages = GENERATE(1, 2, 5, 8);
  const ScheduleOptions options{.stages = stages, .microbatches = EnoughMicrobatches(stages, 1)};
  for (const std::string kind : {"pb", "1f1b"}) {
    const ScheduleSummary summary = Summarize(MakeSchedule(kind, options));
    ScheduleOptions stashing = options;
    stashing.weight_stashing = true;
    const ScheduleSummary stashed = Summarize(MakeSchedule(kind, stashing));
    for (int s = 0; s < stages; ++s) {
      CAPTURE(kind, stages, s);
      const StageSummary& stage = summary.stages[static_cast<std::size_t>(s)];
      // A stage updates in every step of pb, in every second one of 1f1b. Its authors' list has
      // floor(s / 2) there, at the end of the same round trip.
      const std::int64_t backward = kind == "pb" ? s : (s + 1) / 2;
      CHECK(stage.backward_horizon_updates == backward);
      CHECK(stage.forward_horizon_updates == stage.forward_delay_updates + backward);
      const StageSummary& with = stashed.stages[static_cast<std::size_t>(s)];
      CHECK(with.forward_horizon_updates == with.forward_delay_updates);
      CHECK(with.backward_horizon_updates == 0);
    }
  }
}

TEST_CASE("vertical sync: every stage reads the version that stage 0 read") {
  const std::string kind = GENERATE("pb", "1f1b");
  const int stages = GENERATE(1, 2, 5);
  ScheduleOptions options{.stages = stages, .microbatches = 8 * stages + 4};
  options.weight_stashing = true;
  options.vertical_sync = true;
  const ScheduleSummary summary = Summarize(MakeSchedule(kind, options));
  const std::int64_t delay = (kind == "pb" ? 2 : 1) * (stages - 1);
  for (int s = 0; s < stages; ++s) {
    CAPTURE(kind, stages, s);
    const StageSummary& stage = summary.stages[static_cast<std::size_t>(s)];
    CHECK(stage.forward_delay_updates == delay);
    CHECK(stage.backward_delay_updates == delay);
    CHECK(stage.weight_versions == delay + 1);
    for (std::int64_t i = 0; i < options.microbatches; ++i) {
      const std::int64_t read = std::max<std::int64_t>(0, i - delay);
      CHECK(stage.microbatches[static_cast<std::size_t>(i)] == MicrobatchVersions{read, read, i});
    }
  }
}

TEST_CASE("vertical sync needs stashed weights, and stage 0 the oldest ones") {
  CHECK(NameOfBadArgument("pb", {.stages = 3, .microbatches = 9, .vertical_sync = true}) ==
        "vertical_sync");
  // Stage 0 updates after each micro-batch and stage 1 after every second.
  Schedule schedule = PipeDreamFlush(2, 4, 1);
  std::erase_if(schedule.actions, [](const TimedAction& timed) {
    return timed.action == Action{1, ActionKind::kUpdate, 0};
  });
  CHECK_FALSE(FirstBrokenRule(schedule).has_value());
  schedule.weights = WeightVersions::kVerticalSync;
  REQUIRE(FirstBrokenRule(schedule).has_value());
  CHECK(FirstBrokenRule(schedule)->place == "1F1 at step 5");
  schedule.forward_lag = 1;
  CHECK_THROWS_AS(CheckSchedule(schedule), InvalidArgument);
}

TEST_CASE("PACI: versions apart by at most the updates of S-1-s micro-batches") {
  const int stages = GENERATE(1, 2, 4, 7);
  const std::int64_t per_update = GENERATE(1, 2, 3, 8);
  const std::int64_t microbatches = per_update * (3 * stages + 2);
  const Schedule schedule = Paci(stages, microbatches, per_update);
  const ScheduleSummary summary = Summarize(schedule);
  CHECK(summary.steps == 2 * (microbatches + stages - 1));
  if (per_update == 1) CHECK(schedule == OneForwardOneBackward(stages, microbatches));
  for (int s = 0; s < stages; ++s) {
    CAPTURE(stages, per_update, s);
    const StageSummary& stage = summary.stages[static_cast<std::size_t>(s)];
    const std::int64_t late = stages - 1 - s;  // micro-batches
    CHECK(stage.forward_delay_updates == (late + per_update - 1) / per_update);
    CHECK(stage.backward_delay_updates == 0);
    CHECK(stage.weight_versions == 1);
    CHECK(stage.activations_in_flight == stages - s);
    for (std::int64_t i = 0; i < microbatches; ++i) {
      const std::int64_t newest = i / per_update;
      CHECK(stage.microbatches[static_cast<std::size_t>(i)] ==
            MicrobatchVersions{std::max<std::int64_t>(0, i - late) / per_update, newest, newest});
    }
  }
}

TEST_CASE("2BW: a delay of one update at every stage, the same version in both passes, two kept") {
  const int stages = GENERATE(1, 2, 4, 7);
  const std::int64_t per_update = stages + GENERATE(0, 1, 5);
  const std::int64_t microbatches = 5 * per_update;
  const ScheduleSummary summary = Summarize(PipeDream2Bw(stages, microbatches, per_update));
  CHECK(summary.steps == 2 * (microbatches + stages - 1));
  for (int s = 0; s < stages; ++s) {
    CAPTURE(stages, per_update, s);
    const StageSummary& stage = summary.stages[static_cast<std::size_t>(s)];
    CHECK(stage.forward_delay_updates == 1);
    CHECK(stage.backward_delay_updates == 1);
    CHECK(stage.weight_versions == 2);
    CHECK(stage.activations_in_flight == stages - s);
    for (std::int64_t i = 0; i < microbatches; ++i) {
      // The paper numbers micro-batches from 1: max(floor((k-1)/m) - 1, 0).
      const std::int64_t update = i / per_update;
      const std::int64_t read = std::max<std::int64_t>(update - 1, 0);
      CHECK(stage.microbatches[static_cast<std::size_t>(i)] ==
            MicrobatchVersions{read, read, update});
    }
  }
}

TEST_CASE("2BW with fewer micro-batches an update than stages needs a third version") {
  CHECK_THROWS_AS(PipeDream2Bw(4, 12, 3), InvalidArgument);
  Schedule schedule = OneForwardOneBackward(4, 12);
  schedule.weights = WeightVersions::kDoubleBuffered;
  CHECK(FirstBrokenRule(schedule).has_value());
}

TEST_CASE("GPipe and PipeDream-Flush: no delay, bubble (S-1)/(M+S-1)") {
  const int stages = GENERATE(1, 2, 4, 9);
  const std::int64_t per_update = GENERATE(1, 3, 8, 20);
  const std::int64_t minibatches = GENERATE(1, 3);
  CAPTURE(stages, per_update, minibatches);
  const ScheduleSummary gpipe = Summarize(Gpipe(stages, minibatches * per_update, per_update));
  const ScheduleSummary flush =
      Summarize(PipeDreamFlush(stages, minibatches * per_update, per_update));
  for (const ScheduleSummary& summary : {gpipe, flush}) {
    CheckNoDelay(summary);
    CHECK(summary.steps == minibatches * 2 * (per_update + stages - 1));
    CHECK(summary.bubble_ratio ==
          Approx(Ratio(stages - 1, per_update + stages - 1)).margin(kRounding));
  }
  for (int s = 0; s < stages; ++s) {
    const auto index = static_cast<std::size_t>(s);
    CHECK(gpipe.stages[index].activations_in_flight == per_update);
    CHECK(flush.stages[index].activations_in_flight ==
          std::min<std::int64_t>(per_update, stages - s));
  }
}

TEST_CASE("fill and drain keeps min(M, 2(S-1-s) + 1) micro-batches at stage s") {
  const std::int64_t per_update = GENERATE(1, 4, 32);
  const ScheduleSummary summary = Summarize(FillDrain(5, 2 * per_update, per_update));
  for (int s = 0; s < 5; ++s) {
    CHECK(summary.stages[static_cast<std::size_t>(s)].activations_in_flight ==
          std::min<std::int64_t>(per_update, 2 * (4 - s) + 1));
  }
}

TEST_CASE("interleaved 1F1B: bubble (P-1)/(V M+P-1), which V divides") {
  const int workers = GENERATE(1, 2, 4, 6);
  const int chunks = GENERATE(1, 2, 3, 4);
  const std::int64_t per_update = workers * GENERATE(1, 2, 5);
  CAPTURE(workers, chunks, per_update);
  const Schedule schedule = Interleaved(workers * chunks, chunks, 2 * per_update, per_update);
  CHECK(schedule.workers() == workers);
  const ScheduleSummary summary = Summarize(schedule);
  CheckNoDelay(summary);
  CHECK(summary.workers == workers);
  CHECK(summary.steps == 2 * 2 * (chunks * per_update + workers - 1));
  CHECK(summary.bubble_ratio ==
        Approx(Ratio(workers - 1, chunks * per_update + workers - 1)).margin(kRounding));
}

TEST_CASE("one chunk is PipeDream-Flush") {
  CHECK(Interleaved(4, 1, 16, 8) == PipeDreamFlush(4, 16, 8));
}

TEST_CASE("ZB-H1: bubble (S-1)/(3M+S-1), a third of 1F1B's, with its memory") {
  const int stages = GENERATE(1, 2, 4, 9);
  const std::int64_t per_update = stages * GENERATE(1, 2, 5);
  CAPTURE(stages, per_update);
  const ScheduleSummary summary = Summarize(ZeroBubbleH1(stages, 3 * per_update, per_update));
  CheckNoDelay(summary);
  CHECK(summary.steps == 3 * (3 * per_update + stages - 1));
  CHECK(summary.bubble_ratio ==
        Approx(Ratio(stages - 1, 3 * per_update + stages - 1)).margin(kRounding));
  if (stages > 1) {
    CHECK(summary.bubble_ratio <
          Summarize(PipeDreamFlush(stages, per_update, per_update)).bubble_ratio);
  }
  for (const StageSummary& stage : summary.stages) CHECK(stage.activations_in_flight == stages);
}

TEST_CASE("ZB-H1 of few micro-batches is a schedule all the same") {
  const std::int64_t per_update = GENERATE(1, 2, 3, 5);
  const ScheduleSummary summary = Summarize(ZeroBubbleH1(6, 2 * per_update, per_update));
  CheckNoDelay(summary);
  for (const StageSummary& stage : summary.stages) {
    CHECK(stage.activations_in_flight == per_update);
  }
}

namespace {

struct WorkerSummary {
  std::int64_t idle = 0;  // from its first action to its last one, steps
  std::int64_t most_in_flight = 0;
};

// By worker. `schedule` has one slot a step.
std::vector<WorkerSummary> SummarizeWorkers(const Schedule& schedule) {
  std::vector<WorkerSummary> summaries(static_cast<std::size_t>(schedule.workers()));
  std::vector<std::int64_t> next(summaries.size(), -1), in_flight(summaries.size());
  const ActionKind gradient =
      schedule.splits_backward() ? ActionKind::kWeightGradient : ActionKind::kBackward;
  for (const TimedAction& timed : schedule.actions) {
    if (timed.action.kind == ActionKind::kUpdate) continue;
    const auto w = static_cast<std::size_t>(schedule.worker(timed.action));
    if (next[w] >= 0) summaries[w].idle += timed.step - next[w];
    next[w] = timed.step + 1;
    if (timed.action.kind == ActionKind::kForward) ++in_flight[w];
    if (timed.action.kind == gradient) --in_flight[w];
    summaries[w].most_in_flight = std::max(summaries[w].most_in_flight, in_flight[w]);
  }
  return summaries;
}

// Steps of a mini-batch of DualPipeV's order, where the two of a pair begin and end together. A pair is a
// forward and the whole backward behind it, from where the worker first has all it needs to pair them.
std::int64_t LockStepSteps(const Schedule& schedule) {
  struct Piece {
    std::vector<Action> actions;
    std::int64_t steps = 0;
  };
  const int workers = schedule.workers();
  std::vector<std::vector<Action>> orders(static_cast<std::size_t>(workers));
  for (const TimedAction& timed : schedule.actions) {
    if (timed.action.kind == ActionKind::kUpdate) continue;
    orders[static_cast<std::size_t>(schedule.worker(timed.action))].push_back(timed.action);
  }
  std::vector<std::vector<Piece>> pieces(orders.size());
  for (int w = 0; w < workers; ++w) {
    const std::vector<Action>& order = orders[static_cast<std::size_t>(w)];
    const int behind = workers - 1 - w;
    const std::size_t unpaired =
        5 * static_cast<std::size_t>(behind) + 2 * (static_cast<std::size_t>(w) + 1);
    for (std::size_t k = 0; k < order.size();) {
      const auto is = [&](std::size_t at, ActionKind kind) {
        return at < order.size() && order[at].kind == kind;
      };
      const bool whole = is(k, ActionKind::kBackward) && is(k + 1, ActionKind::kWeightGradient) &&
                         order[k].stage == order[k + 1].stage &&
                         order[k].microbatch == order[k + 1].microbatch && k >= unpaired;
      // The worker at the foot of the V does not pair its first two.
      const bool pair = k >= unpaired && is(k, ActionKind::kForward) &&
                        is(k + 1, ActionKind::kBackward) &&
                        is(k + 2, ActionKind::kWeightGradient) && !(behind == 0 && k == unpaired);
      const std::size_t size = pair ? 3 : whole ? 2 : 1;
      pieces[static_cast<std::size_t>(w)].push_back(
          {{order.begin() + static_cast<std::ptrdiff_t>(k),
            order.begin() + static_cast<std::ptrdiff_t>(k + size)},
           static_cast<std::int64_t>(size)});
      k += size;
    }
  }
  std::map<std::string, std::int64_t> ends;  // of passes
  std::vector<std::size_t> done(pieces.size());
  std::vector<std::int64_t> free(pieces.size());
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t w = 0; w < pieces.size(); ++w) {
      while (done[w] < pieces[w].size()) {
        const Piece& piece = pieces[w][done[w]];
        std::int64_t begin = free[w];
        bool ready = true;
        for (const Action& action : piece.actions) {
          const bool forward = action.kind == ActionKind::kForward;
          if (action.kind == ActionKind::kWeightGradient) continue;
          if (forward && action.stage == 0) continue;
          const int from = action.stage + (forward ? -1 : 1);
          const auto input =
              from == schedule.stages
                  ? ends.find(ToText({action.stage, ActionKind::kForward, action.microbatch}))
                  : ends.find(ToText({from, action.kind, action.microbatch}));
          ready = ready && input != ends.end();
          if (ready) begin = std::max(begin, input->second);
        }
        if (!ready) break;
        free[w] = begin + piece.steps;
        for (const Action& action : piece.actions) ends[ToText(action)] = free[w];
        ++done[w];
        moves = true;
      }
    }
  }
  for (std::size_t w = 0; w < pieces.size(); ++w) REQUIRE(done[w] == pieces[w].size());
  return *std::max_element(free.begin(), free.end());
}

}  // namespace

TEST_CASE(
    "ZB-V: no worker idles between its first action and its last, S passes are kept on each") {
  const int stages = 2 * GENERATE(1, 2, 3, 4, 8);
  const std::int64_t per_update = stages + GENERATE(0, 1, 2, 13);
  CAPTURE(stages, per_update);
  const std::int64_t minibatches = 3;
  const Schedule schedule = ZeroBubbleV(stages, minibatches * per_update, per_update);
  CheckEachPassOnce(schedule);
  const ScheduleSummary summary = Summarize(schedule);
  CheckNoDelay(summary);
  CHECK(summary.workers == stages / 2);
  CHECK(summary.steps == 6 * minibatches * per_update + stages / 2 - 1);
  for (const WorkerSummary& worker : SummarizeWorkers(schedule)) {
    CHECK(worker.idle == 0);
    CHECK(worker.most_in_flight == stages);
  }
}

TEST_CASE(
    "DualPipeV keeps S + 1 passes on each worker, and idles as published where pairs end "
    "together") {
  const int stages = 2 * GENERATE(1, 2, 3, 4, 8);
  const std::int64_t per_update = stages + GENERATE(0, 1, 2, 13);
  CAPTURE(stages, per_update);
  const int workers = stages / 2;
  const Schedule schedule = DualPipeV(stages, 3 * per_update, per_update);
  CheckEachPassOnce(schedule);
  const ScheduleSummary summary = Summarize(schedule);
  CheckNoDelay(summary);
  CHECK(summary.workers == workers);
  CHECK(summary.steps == 3 * (6 * per_update + workers - 1));
  const Schedule minibatch = DualPipeV(stages, per_update, per_update);
  const std::vector<WorkerSummary> of_workers = SummarizeWorkers(minibatch);
  for (int w = 0; w < workers; ++w) {
    CHECK(of_workers[static_cast<std::size_t>(w)].idle == workers - 1 - w);
    CHECK(of_workers[static_cast<std::size_t>(w)].most_in_flight == stages + 1);
  }
  CHECK(Summarize(minibatch).bubble_ratio ==
        Approx(Ratio(workers - 1, 6 * per_update + workers - 1)).margin(kRounding));
  // (S/2 - 1) (F&B + B - 3W) with F&B = 3, B = 2, W = 1.
  CHECK(LockStepSteps(minibatch) == 6 * per_update + 2 * (workers - 1));
}

TEST_CASE("DualPipe is DualPipeV from both ends, with every stage on two workers") {
  const int stages = 2 * GENERATE(1, 2, 3, 4);
  const std::int64_t per_update = 2 * stages + GENERATE(0, 2, 6);
  CAPTURE(stages, per_update);
  const Schedule schedule = DualPipe(stages, 2 * per_update, per_update);
  CheckEachPassOnce(schedule);
  CHECK(schedule.copies() == 2);
  const ScheduleSummary summary = Summarize(schedule);
  CheckNoDelay(summary);
  CHECK(summary.workers == stages);
  const Schedule v = DualPipeV(stages, per_update, per_update / 2);
  CHECK(summary.steps == Summarize(v).steps);
  CHECK(summary.bubble_ratio == Approx(Summarize(v).bubble_ratio).margin(kRounding));
  for (const WorkerSummary& worker : SummarizeWorkers(schedule)) {
    CHECK(worker.most_in_flight == stages + 1);
  }
  // From the front at the workers 0, 1, ..., from the back at the last one, the one before it, ...
  for (int s = 0; s < stages; ++s) {
    CHECK(schedule.worker(s, 0) == s);
    CHECK(schedule.worker(s, 1) == stages - 1 - s);
  }
}

TEST_CASE("a pipeline of AMDP has two micro-batches in flight, versions one apart") {
  const int stages = GENERATE(1, 2, 3, 8);
  const std::int64_t per_update = GENERATE(1, 2, 4);
  CAPTURE(stages, per_update);
  const std::int64_t updates = 40;
  const Schedule schedule = Amdp(stages, updates * per_update, per_update);
  CheckEachPassOnce(schedule);
  const ScheduleSummary summary = Summarize(schedule);
  for (int s = 0; s < stages; ++s) {
    const StageSummary& stage = summary.stages[static_cast<std::size_t>(s)];
    const int in_flight = std::min(2, stages - s);
    CHECK(stage.activations_in_flight == in_flight);
    // Between the ends the pairs of an update that is a whole number of them read one version.
    const int delay = in_flight == 1 || (s > 0 && per_update > 1) ? 0 : 1;
    CHECK(stage.forward_delay_updates == delay);
    CHECK(stage.backward_delay_updates == 0);
    CHECK(stage.stashed_weight_versions == delay + 1);
  }
  // Two micro-batches each 2 S steps.
  const double busy = std::min(1.0, 2.0 / stages);
  CHECK(FindSteadyState(schedule).utilisation == Approx(busy).margin(kRounding));
  if (per_update == 1 && stages <= 2) CHECK(schedule == OneForwardOneBackward(stages, updates));
}

namespace {

// Time that the list takes where a forward is a unit of it, a backward two.
std::int64_t TimeWithLongBackwards(const Schedule& schedule) {
  std::vector<std::int64_t> free(static_cast<std::size_t>(schedule.workers()));
  std::map<std::string, std::int64_t> ends;  // of passes; what others wait for is listed before
  for (const auto& [step, action] : schedule.actions) {
    if (action.kind == ActionKind::kUpdate) continue;
    const bool forward = action.kind == ActionKind::kForward;
    const int from = action.stage + (forward ? -1 : 1);
    const bool has_input = from >= 0 && from < schedule.stages;
    std::int64_t& end = free[static_cast<std::size_t>(schedule.worker(action))];
    if (has_input) end = std::max(end, ends.at(ToText({from, action.kind, action.microbatch})));
    end += forward ? 1 : 2;
    ends[ToText(action)] = end;
  }
  return *std::max_element(free.begin(), free.end());
}

}  // namespace

TEST_CASE("S/2 pipelines of AMDP keep all workers busy, the first S micro-batches one late") {
  const int stages = 4 * GENERATE(1, 2, 3, 5);
  const std::int64_t per_update = stages * GENERATE(1, 3);
  CAPTURE(stages, per_update);
  const std::int64_t microbatches = 5 * per_update;
  const Schedule schedule = AmdpMulti(stages, microbatches, per_update);
  CheckEachPassOnce(schedule);
  CHECK(schedule.copies() == stages / 2);
  CHECK(FindSteadyState(schedule).utilisation == 1);
  const ScheduleSummary summary = Summarize(schedule);
  CHECK(summary.workers == stages);
  CHECK(summary.steps == 2 * microbatches + 2);
  for (int s = 0; s < stages; ++s) {
    const StageSummary& stage = summary.stages[static_cast<std::size_t>(s)];
    const int in_flight = std::min(2, stages - s);
    // The first stage takes two more before the second one's backward.
    CHECK(stage.activations_in_flight == stages / 2 * (s == 0 ? 3 : in_flight));
    CHECK(stage.weight_versions == 1);
    CHECK(stage.stashed_weight_versions == in_flight);
    for (std::int64_t i = 0; i < microbatches; ++i) {
      const MicrobatchVersions& versions = stage.microbatches[static_cast<std::size_t>(i)];
      const bool is_late = i >= per_update && i % per_update < stages;
      CHECK(versions.update == i / per_update);
      CHECK(versions.forward_delay_updates() == (is_late ? in_flight - 1 : 0));
      CHECK(versions.backward_delay_updates() == 0);
    }
  }
  const std::vector<WorkerSummary> workers = SummarizeWorkers(schedule);
  for (int w = 0; w < stages; ++w) {
    const bool begins = w % 4 == 0 || w % 4 == 3;  // a pipeline
    CHECK(workers[static_cast<std::size_t>(w)].most_in_flight == (begins ? stages - 1 : stages));
  }
  const std::int64_t more = TimeWithLongBackwards(AmdpMulti(stages, 8 * stages, stages)) -
                            TimeWithLongBackwards(AmdpMulti(stages, 6 * stages, stages));
  CHECK(more == 2 * (3 * stages + 1));
}

TEST_CASE("small schedules written out") {
  CHECK(StepsOf(OneForwardOneBackward(2, 3)) ==
        "0F0 | 0F1 1F0 | 1B0 1U0 | 0B0 0U0 1F1 | 0F2 1B1 1U1 | 0B1 0U1 1F2 | 1B2 1U2 | 0B2 0U2 ");
  CHECK(StepsOf(Gpipe(2, 2, 2)) == "0F0 | 0F1 1F0 | 1F1 | 1B0 | 0B0 1B1 1U1 | 0B1 0U1 ");
  CHECK(StepsOf(PipeDreamFlush(2, 2, 2)) == "0F0 | 0F1 1F0 | 1B0 | 0B0 1F1 | 1B1 1U1 | 0B1 0U1 ");
  CHECK(StepsOf(ZeroBubbleH1(2, 2, 2)) ==
        "0F0 | 0F1 1F0 | 1B0 | 0B0 1F1 | 0W0 1B1 | 0B1 1W0 | 0W1 0U1 1W1 1U1 ");
  CHECK(StepsOf(Interleaved(4, 2, 2, 2)) ==
        "0F0 | 0F1 1F0 | 2F0 1F1 | 2F1 3F0 | 3B0 | 2B0 3F1 | 3B1 3U1 | 2B1 2U1 1B0 | 0B0 1B1 1U1 | "
        "0B1 0U1 ");
  CHECK(StepsOf(ZeroBubbleV(2, 2, 2)) ==
        "0F0 | 1F0 | 1B0 | 1W0 | 0F1 | 0B0 | 0W0 | 1F1 | 1B1 | 1W1 1U1 | 0B1 | 0W1 0U1 ");
  CHECK(StepsOf(DualPipe(2, 4, 4)) ==
        "0F0 0F1 | 1F1 1F0 | 0F2 0F3 | 1B1 1B0 | 1W1 1W0 | 1F3 1F2 | 0B0 0B1 | 0W0 0W1 | "
        "1B3 1B2 | 1W3 1W2 1U2 | 0B2 0B3 | 0W2 0W3 0U3 ");
  CHECK(StepsOf(Amdp(3, 3, 1)) ==
        "0F0 | 0F1 1F0 | 1F1 2F0 | 2B0 2U0 | 1B0 1U0 2F1 | 0B0 0U0 2B1 2U1 | 0F2 1B1 1U1 | "
        "0B1 0U1 1F2 | 2F2 | 2B2 2U2 | 1B2 1U2 | 0B2 0U2 ");
}

TEST_CASE("every kind by name, few micro-batches included, does each pass once or is refused") {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    for (int stages = 1; stages <= 6; ++stages) {
      for (std::int64_t microbatches = 1; microbatches <= 2 * stages + 1; ++microbatches) {
        for (std::int64_t per_update = 0; per_update <= microbatches; ++per_update) {
          if (per_update > 0 && microbatches % per_update != 0) continue;
          CAPTURE(std::string(kind.name), stages, microbatches, per_update);
          const ScheduleOptions options{.stages = stages,
                                        .microbatches = microbatches,
                                        .microbatches_per_update = per_update};
          const std::string refused = RefusedArgument(kind, options);
          CHECK(NameOfBadArgument(kind.name, options) == refused);
          if (refused == kNothingThrown) CheckEachPassOnce(MakeSchedule(kind.name, options));
        }
      }
    }
  }
}

TEST_CASE("2BW takes the smallest update that fits") {
  const Schedule schedule = MakeSchedule("2bw", {.stages = 4, .microbatches = 10});
  CHECK(schedule == PipeDream2Bw(4, 10, 5));
}

TEST_CASE("options that do not fit a kind are refused by name") {
  const ScheduleOptions fits{.stages = 4, .microbatches = 8};
  const auto with = [&](auto change) {
    ScheduleOptions options = fits;
    change(options);
    return options;
  };
  CHECK(NameOfBadArgument("pb", fits) == kNothingThrown);
  CHECK(NameOfBadArgument("1F1B", fits) == "kind");
  CHECK(NameOfBadArgument("", fits) == "kind");
  for (const ScheduleKind& kind : ScheduleKinds()) {
    CAPTURE(std::string(kind.name));
    CHECK(NameOfBadArgument(kind.name, with([](auto& o) { o.stages = 0; })) == "stages");
    CHECK(NameOfBadArgument(kind.name, with([](auto& o) { o.microbatches = 0; })) ==
          "microbatches");
    CHECK(NameOfBadArgument(kind.name, with([](auto& o) { o.microbatches_per_update = -1; })) ==
          "microbatches_per_update");
    CHECK(NameOfBadArgument(kind.name, with([](auto& o) { o.microbatches_per_update = 3; })) ==
          "microbatches_per_update");
    CHECK(NameOfBadArgument(kind.name, with([](auto& o) { o.chunks = -1; })) == "chunks");
    CHECK(NameOfBadArgument(kind.name, with([](auto& o) { o.chunks = 3; })) == "chunks");
  }
  CHECK(NameOfBadArgument("2bw", with([](auto& o) { o.weight_stashing = true; })) ==
        "weight_stashing");
  CHECK(NameOfBadArgument("2bw", with([](auto& o) { o.microbatches = 3; })) == "microbatches");
  CHECK(NameOfBadArgument("interleaved", with([](auto& o) { o.microbatches = 9; })) ==
        "microbatches_per_update");
}

TEST_CASE("weights are named") {
  for (const WeightVersions rule :
       {WeightVersions::kNewest, WeightVersions::kStashed, WeightVersions::kDoubleBuffered,
        WeightVersions::kVerticalSync}) {
    CHECK(ParseWeightVersions(Name(rule)) == rule);
  }
  CHECK_THROWS_AS(ParseWeightVersions("Newest"), InvalidArgument);
}
