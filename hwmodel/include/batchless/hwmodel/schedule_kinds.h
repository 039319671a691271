// The schedules that have a name, each as a list of timed actions.
//
//   S  stages   N  micro-batches   M  micro-batches an update   s  stage   i  micro-batch
//
//   name             slots  delay of stage s  in flight at stage s   bubble ratio
//   pb               2      2(S-1-s)          2(S-1-s) + 1           0 once it runs
//   fill-drain       2      0                 min(M, 2(S-1-s) + 1)   (2S-2) / (M+2S-2)
//   gpipe            1      0                 M                      (S-1) / (M+S-1)
//   1f1b             1      S-1-s             S-s                    0 once it runs
//   2bw              1      1                 S-s                    0 once it runs
//   paci             1      ceil((S-1-s)/M)   S-s                    0 once it runs
//   pipedream-flush  1      0                 min(M, S-s)            (S-1) / (M+S-1)
//   interleaved      1      0                 (from the list)        (P-1) / (V M+P-1)
//   zb-h1            1      0                 min(M, S)              (S-1) / (3M+S-1), M >= S
//   zb-v             1      0                 S on each worker       (P-1) / (6M+P-1), P = S/2
//   dualpipe-v       1      0                 S+1 on each worker     (P-1) / (6M+P-1), P = S/2
//   dualpipe         1      0                 S+1 on each worker     (S/2-1) / (3M+S/2-1)
//   amdp             1      1 at most         min(2, S-s)            1 - 2/S once it runs, S >= 2
//   amdp-multi       1      1, at s = S-1 0   S at most on a worker  0 once it runs
//
// The table says what the tests expect; schedule_summary.h derives it from the lists. The delay is
// that of the forward, in updates. Ratios are of one mini-batch; one of zb-v begins on each worker as soon
// as the one before it has ended there, so that in a longer list the workers wait once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

// Every function below throws analysis::InvalidArgument with the argument's name unless
// stages >= 1, microbatches >= 1 and microbatches_per_update is a divisor of microbatches.

/// Pipelined backpropagation: forward of micro-batch i at stage s in step i + s, backward in step
/// i + 2(S-1) - s, followed by an update. Source: Kosson et al., arXiv 2003.11666.
Schedule PipelinedBackpropagation(int stages, std::int64_t microbatches);

/// The same steps counted from the start of each mini-batch of M micro-batches, which begins when
/// the one before it has drained, after M + 2S - 2 steps; a stage updates once in each mini-batch,
/// after its last backward. Source: Kosson et al., arXiv 2003.11666.
Schedule FillDrain(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update);

/// All forwards of a mini-batch, then all its backwards, then the update. The backwards come in the
/// order of the forwards, so that gradients are summed in the same order as by FillDrain.
/// Source: GPipe, arXiv 1811.06965 (the order of its backwards recalled to be the reverse, which
/// changes no number of the table).
Schedule Gpipe(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update);

/// Stage s runs S-1-s forwards ahead, then one forward, one backward and one update in turn.
/// Source: PipeDream, arXiv 1806.03377.
Schedule OneForwardOneBackward(int stages, std::int64_t microbatches);

/// 1F1B within each mini-batch, which begins when the one before it has drained.
/// Source: PipeDream-2BW, arXiv 2006.09503.
Schedule PipeDreamFlush(int stages, std::int64_t microbatches,
                        std::int64_t microbatches_per_update);

/// 1F1B without a flush, an update after every M backwards, the newest weights in every pass: a
/// micro-batch's passes read versions that are at most ceil((S-1) / M) apart. With M = 1 this is 1F1B.
/// Source: PACI, arXiv 2606.07881 (its authors' code, at second hand).
Schedule Paci(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update);

/// 1F1B without a flush, an update after every M backwards, two versions of the weights: version
/// t + 1 comes from gradients taken at version t - 1, so that micro-batch i (from 0) reads version
/// max(floor(i / M) - 1, 0) in both passes. Throws also unless M >= stages: with fewer there would
/// be a third version. Source: PipeDream-2BW, arXiv 2006.09503.
Schedule PipeDream2Bw(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update);

/// 1F1B with a flush over P = stages / chunks workers, each of which has `chunks` stages, worker w
/// the stages w, w + P, w + 2P, ...; micro-batches go through a chunk in groups of P. One chunk is
/// PipeDreamFlush. Throws also unless chunks divides stages and P divides M.
/// Source: Narayanan et al., arXiv 2104.04473; the number of forwards ahead,
/// 2(P-1-w) + (chunks-1) P, as in its authors' code (recalled).
Schedule Interleaved(int stages, int chunks, std::int64_t microbatches,
                     std::int64_t microbatches_per_update);

/// Zero-bubble ZB-H1: 1F1B with a flush whose backward is split. Stage s does the weight gradient
/// of a micro-batch s backwards later than its input gradient, so that every stage keeps the
/// activations of S micro-batches, as many as the first one does in 1F1B, and what is left over
/// fills the drain.
/// Source: Qi et al., arXiv 2401.10241 (its bubble and memory, recalled; the order of each stage is
/// derived from them).
Schedule ZeroBubbleH1(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update);

/// Zero-bubble ZB-V: P = S/2 workers, worker w with the stages w and S-1-w, which a micro-batch passes on
/// its way down the workers and up again. No worker idles from its first action to its last one, and each
/// keeps the activations of S passes, as the first one does in 1F1B. Throws also unless S is even and
/// M >= S.
/// Source: Qi et al., arXiv 2401.10241, arXiv 2405.15362 (the order of each worker as PyTorch's schedule of
/// that name has it, recalled).
Schedule ZeroBubbleV(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update);

/// DualPipeV: the stages as in ZeroBubbleV; while the pipeline is full, every forward of one of a worker's
/// stages goes with a backward of the other one, for their computation and messages to overlap. Idle time
/// of each mini-batch on P = S/2 workers: P-1 steps at most, where each of the two hands on what it has as
/// soon as it has it; (P-1)(F&B + B - 3W) where both end together, as published, with F&B the time of a
/// pair, B that of a whole backward, and W of its weight gradient. Throws also unless S is even and M >= S.
/// Source: DeepSeek-AI, arXiv 2412.19437, and the order in its authors' code, read.
Schedule DualPipeV(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update);

/// DualPipe: S workers, worker w with copies of the stages w and S-1-w. The even micro-batches enter at
/// worker 0, the odd ones at worker S-1, and the workers w and S-1-w do what worker w of DualPipeV does.
/// Weights twice. A stage meets the micro-batches of the two ends in no order of their numbers, which the
/// trainer does not follow. Throws also unless S and M are even and M >= 2S.
/// Source: as DualPipeV.
Schedule DualPipe(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update);

/// One pipeline of AMDP: 1F1B without a flush in which at most two micro-batches are in flight, so that
/// the versions that a micro-batch's passes read are at most one apart; an update after every M backwards.
/// AmdpMulti runs S/2 of these on the same workers; here is one, with its idle time.
/// Source: Chen, Wu and Yu, arXiv 2605.29664 (abstract and authors' code, read; the order of each stage is
/// that in which its passes' inputs arrive).
Schedule Amdp(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update);

/// AMDP: C = S/2 pipelines on S workers, an even one, c, from worker 2c down, an odd one from worker 2c + 1
/// up, around the ends; micro-batch i goes through pipeline i mod C. Each takes two micro-batches every 2S
/// steps, and all workers are busy; where backwards take twice as long as forwards, one in 3S + 1 units of
/// time is idle. All copies of a stage are updated together, after their forwards of the next S micro-batches,
/// those of the last stage before: such S read weights min(2, S-s) - 1 updates older than their backwards do,
/// as published, all others the same. Every worker has the weights of S/2 stages, half the network. Exact, in
/// steps, but for the last stage of the authors' code, which is updated one backward later. A stage meets its
/// micro-batches in no order of their numbers, which the trainer does not follow. Throws also unless 4 divides
/// S, and S divides M.
/// Source: Chen, Wu and Yu, arXiv 2605.29664 (abstract and authors' code, read: every worker's order is theirs
/// for 4 and 8 stages, and by the same rule for more; S/2 and the bound at second hand).
Schedule AmdpMulti(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update);

/// What the schedules by name take.
struct ScheduleOptions {
  int stages = 1;
  std::int64_t microbatches = 1;
  /// 0 is the kind's own: all micro-batches, for 2bw the smallest divisor of `microbatches` that is
  /// at least `stages`. Kinds that update after every micro-batch take 0 or 1.
  std::int64_t microbatches_per_update = 0;
  /// Stages of a worker; other kinds than interleaved take 0 or 1. 0 is the kind's own: 2 there.
  int chunks = 0;
  /// Backwards read their forward's weights. Not for 2bw, which has a rule of its own.
  bool weight_stashing = false;
  /// All stages read the version that stage 0 read; with weight_stashing only.
  bool vertical_sync = false;
};

struct ScheduleKind {
  std::string_view name;   ///< as on the command line
  std::string_view title;  ///< as in a picture
  bool updates_each;       ///< after every micro-batch
  bool flushes;            ///< the pipeline drains before each update, so that nothing is late
  bool one_stage_each;     ///< every worker has one stage
  Schedule (*make)(const ScheduleOptions& options);
  int least_per_stage = 1;  ///< so many times the stages are enough micro-batches for an update
};

/// All of them, in the order of the table above.
std::span<const ScheduleKind> ScheduleKinds();

/// Throws analysis::InvalidArgument naming `kind` and the nearest name.
const ScheduleKind& FindScheduleKind(std::string_view name);

/// Throws analysis::InvalidArgument naming the kind or the option that does not fit it.
Schedule MakeSchedule(std::string_view kind, const ScheduleOptions& options);

/// So many micro-batches of a schedule by name fill the pipeline, keep stashed weights as old as any
/// later on, and repeat what they do. A multiple of microbatches_per_update.
std::int64_t EnoughMicrobatches(int stages, std::int64_t microbatches_per_update);

/// Micro-batches of one update of the schedule's first stage, on average, rounded down; at least 1.
std::int64_t MicrobatchesPerUpdate(const Schedule& schedule);

}  // namespace batchless::hwmodel

// Example
//   const Schedule schedule = MakeSchedule("1f1b", {.stages = 4, .microbatches = 8});
//   CHECK(schedule == OneForwardOneBackward(4, 8));
//   CHECK(FindScheduleKind("1f1b").updates_each);
//   ScheduleOptions stashing{.stages = 4, .microbatches = 8};
//   stashing.weight_stashing = true;  // PipeDream
//   CHECK(MakeSchedule("1f1b", stashing).weights == WeightVersions::kStashed);
