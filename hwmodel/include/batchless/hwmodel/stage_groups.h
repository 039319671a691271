// Schedules over groups of a network's stages: pipelines with fewer stages than the network has.
//
//   placement (p_1 .. p_K)   pipeline registers after the first p_1, p_2, .. p_K stages: K + 1 groups.
//                            With PB the weights before register j (from 1) are 2(K - j + 1) updates
//                            stale
//
// Source: Zhang and Abdelrahman, Pipelined Training with Stale Weights of Deep Convolutional Neural
// Networks, arXiv 1912.12675 (pipeline placement vector; recalled).
#pragma once

#include <cstdint>
#include <span>

#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

/// The schedule over a network's stages in which group g does what stage g of `groups` does, its own
/// stages one after the other. group_ends: (groups.stages), one past each group's last stage. A step
/// becomes 2 L steps, L the stages of the longest group: the forwards, then the rest. Every stage of
/// a group reads the versions that the group's stage reads.
///
/// Throws analysis::InvalidArgument naming `group_ends` unless they increase from at least 1 and there
/// is one for each group.
Schedule ExpandGroups(const Schedule& groups, std::span<const int> group_ends);

/// Mini-batches of M = microbatches_per_update, each of which drains before the next one begins: 1F1B
/// with a flush over the groups, so that few micro-batches are in flight. One group is sequential
/// training. Two mini-batches, which is what a steady state takes. Throws what ExpandGroups throws, and
/// analysis::InvalidArgument naming `microbatches_per_update` where it is below 1.
Schedule MiniBatches(std::span<const int> group_ends, std::int64_t microbatches_per_update);

}  // namespace batchless::hwmodel

// Example
//   // Two pipeline stages over a network of five.
//   const std::vector<int> group_ends = {3, 5};
//   const Schedule schedule = ExpandGroups(PipelinedBackpropagation(2, 8), group_ends);
//   CHECK(schedule.stages == 5);
//   const ScheduleSummary summary = Summarize(schedule);
//   CHECK(summary.stages[2].forward_delay_updates == 2);
//   CHECK(summary.stages[3].forward_delay_updates == 0);
