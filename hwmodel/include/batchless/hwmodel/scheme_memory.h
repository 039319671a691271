// Memory of each worker under every scheme of the literature, by what it keeps.
//
//   d   workers in a pipeline, g = 0 (input) .. d-1    m   micro-batches an update, of b samples
//   W   a worker's weights   A(b)   all activations of its stages for a micro-batch
//   I(b)   what these stages read of earlier workers, without what only crosses them
//   v   weight versions, n   micro-batches in flight: derived from the scheme's list of actions
//
//   scheme            list               weights        activations
//   pb                pb                 W              n A            n = 2(d-1-g) + 1
//   stale             pb                 W              n A            Zhang and Abdelrahman
//   pipedream         1f1b, stashed      v W            n A            v = n = d - g
//   vertical-sync     1f1b, stashed      v W            n A            PipeDream's other mode: v = d
//   pipemare          pb                 2 W            n A            an average of the weights' steps
//   paci              paci               W              n A            n = d - g
//   2bw               2bw                2 W            n (A + I)      n = d - g
//   2bw-recompute     2bw                2 W            A + n I
//   gpipe             gpipe              W              m A
//   gpipe-recompute   gpipe              W              A + m I
//   reversible        pb                 W              A              PETRA: inputs computed back
//
// At the first worker of equal ones 2bw's rows are the formulas of its paper, 2|W|/d + |A|/d + d |I|
// and 2|W|/d + d |A|/d + d |I|. Optimizer states and gradients, the same for all, are left out.
//
// Sources: arXiv 2006.09503 (2BW, its formula for GPipe), 1806.03377 (PipeDream), 1910.05124
// (PipeMare; recalled), 1912.12675 (stale weights), 2003.11666 (PB), 2406.02052 (PETRA; recalled).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/workload.h"

namespace batchless::hwmodel {

struct MemoryScheme {
  std::string_view name;
  std::string_view schedule;
  bool weight_stashing = false;
  bool vertical_sync = false;
  bool keeps_one = false;      ///< activations of one micro-batch, not of all in flight
  bool counts_inputs = false;  ///< of all in flight, beside the activations
  int further_weight_copies = 0;
};

std::span<const MemoryScheme> MemorySchemes();

/// Throws analysis::InvalidArgument naming `scheme` and the nearest name.
const MemoryScheme& FindMemoryScheme(std::string_view name);

struct SchemeMemory {
  double weight_bytes = 0;
  double activation_bytes = 0;

  double total() const { return weight_bytes + activation_bytes; }
};

/// Sizes of one worker's stages, bytes.
struct WorkerSizes {
  double weights = 0;      ///< W, of one version
  double activations = 0;  ///< A(b)
  double input = 0;        ///< I(b)
};

/// The sizes of the stages first .. end - 1 for micro-batches of b samples.
WorkerSizes MeasureWorker(const Workload& workload, int first, int end, std::int64_t microbatch);

/// What a worker keeps by the table, with v versions of its weights and n micro-batches in flight.
SchemeMemory KeptBytes(const MemoryScheme& scheme, const WorkerSizes& worker, double versions,
                       double in_flight);

struct SchemeMemoryOptions {
  std::int64_t microbatch = 1;               ///< b
  std::int64_t microbatches_per_update = 0;  ///< m; 0: as many as there are workers
};

/// (d), by worker. group_ends: (d), one past each worker's last stage. Throws analysis::InvalidArgument
/// naming `group_ends` or an option.
std::vector<SchemeMemory> PredictSchemeMemory(const MemoryScheme& scheme, const Workload& workload,
                                              std::span<const int> group_ends,
                                              const SchemeMemoryOptions& options);

// How much more memory pipelined training takes than training without a pipeline, in the accounting
// of Zhang and Abdelrahman.
//
//   K     pairs of pipeline registers, K >= 1, which cut a network into groups g = 0 (input) .. K of
//         stages; forwards and backwards of the groups are a pipeline of 2 K + 2 stages
//   F_g   results of all layers of group g for a mini-batch, F of all groups     bytes
//   A     2 F, each result and its gradient                                      bytes
//   W     weights                                                                bytes
//
//   stale       sum_g 2 (K - g) F_g / (A + W)           results that wait for their backward
//   pipedream   the same + (2 K + 2) W / (A + W)        and the weights once more a stage
//
// Table 9 has one pair in every row: 2 F_0, the first group's results and gradients once more, and
// 4 W. That is read off its columns: with A and W as printed, the two percentages of each row differ
// by 4 W / (A + W) as far as its digits go. With more pairs, the results wait as those of the
// schedule pb do; so many copies of the weights are an extrapolation.
//
// A is what the program torchsummary calls the size of the forward and backward passes; the table has
// its 218.59 MB (of 2^20 bytes) for VGG-16 on ImageNet. LeNet-5's 0.06 MB are those of a network whose
// ReLUs are in place, or no layers of their own; with them it has 0.11. What the table has for
// ResNet-20 and for VGG-16 on CIFAR-10, 3.84 and 3.30 MB, is between the one and the other.
//
// Source: Zhang and Abdelrahman, doi 10.1155/2021/3839543, table 9.
struct MemoryIncrease {
  double activation_bytes = 0;   ///< A
  double weight_bytes = 0;       ///< W
  double waiting_bytes = 0;      ///< results that a pipeline keeps beside A, with either scheme
  double weight_copy_bytes = 0;  ///< that PipeDream keeps beside W

  /// In shares of A + W.
  double stale() const { return waiting_bytes / (activation_bytes + weight_bytes); }
  double pipedream() const {
    return (waiting_bytes + weight_copy_bytes) / (activation_bytes + weight_bytes);
  }
};

struct MemoryIncreaseOptions {
  std::int64_t minibatch = 1;  ///< samples
  bool relu_in_place = false;  ///< ReLUs have no results of their own
};

/// group_ends: (K + 1), one past each group's last stage. Throws analysis::InvalidArgument naming
/// `group_ends`, an option, or `network` where nothing is known of its layers.
MemoryIncrease PredictMemoryIncrease(const Workload& workload, std::span<const int> group_ends,
                                     const MemoryIncreaseOptions& options);

}  // namespace batchless::hwmodel

// Example
//   const Workload workload = MakeWorkload("resnet20");
//   const std::vector<int> group_ends = {17, 34};  // two workers
//   const auto memory_of = [&](std::string_view scheme) {
//     return PredictSchemeMemory(FindMemoryScheme(scheme), workload, group_ends, {});
//   };
//   CHECK(memory_of("pipedream")[0].weight_bytes == 2 * memory_of("gpipe")[0].weight_bytes);
//   CHECK(memory_of("pipedream")[1].weight_bytes == memory_of("gpipe")[1].weight_bytes);
