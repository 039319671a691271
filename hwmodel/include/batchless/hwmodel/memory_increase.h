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
#pragma once

#include <cstdint>
#include <span>

#include "batchless/hwmodel/workload.h"

namespace batchless::hwmodel {

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

/// ends: (K + 1), one past each group's last stage. Throws analysis::InvalidArgument naming `ends`,
/// an option, or `network` where nothing is known of its layers.
MemoryIncrease PredictMemoryIncrease(const Workload& workload, std::span<const int> ends,
                                     const MemoryIncreaseOptions& options);

}  // namespace batchless::hwmodel
