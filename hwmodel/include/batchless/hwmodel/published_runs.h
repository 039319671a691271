// Measured runs of others, which predictions are held to.
//
// Large transformers: Korthikanti et al., arXiv 2205.05198, table 5 and figures 1 and 7, as transcribed in
// the validation of Calculon (github calculon-ai/calculon); the paper was not read here. A100s of 80 GB,
// eight in a node. `full` was measured without sequence parallelism, `attention` with it. Weights are
// those of the blocks alone.
//
// Two GPUs over one: Zhang and Abdelrahman, doi 10.1155/2021/3839543, table 5, seconds of a whole run; the
// cut lies after the first group of blocks. Which GPUs is not known here.
#pragma once

#include <span>
#include <string_view>

#include "batchless/hwmodel/machine.h"
#include "batchless/hwmodel/transformer_step.h"

namespace batchless::hwmodel {

struct PublishedTransformer {
  TransformerRun run;
  double full_seconds = 0;       ///< everything recomputed
  double attention_seconds = 0;  ///< sequence parallel, attention recomputed
  double weight_gib = 0;         ///< weights, gradients and optimizer of a GPU
  double activation_gib = 0;     ///< nothing recomputed, no sequence parallelism
  double attention_gib = 0;      ///< sequence parallel, attention recomputed
  /// Activations in percent of activation_gib's: sequence parallel alone, attention recomputed alone,
  /// both, and everything recomputed.
  double sequence_percent = 0;
  double again_percent = 0;
  double both_percent = 0;
  double full_percent = 0;
};

std::span<const PublishedTransformer> PublishedTransformers();

/// The node of those runs: eight A100s, 312 TFLOP/s in 16 bits and 2,039 GB/s each, 300 GB/s to each
/// other and 25 GB/s to other nodes, in each direction.
Machine PublishedNode();

struct PublishedSpeedup {
  std::string_view network;
  int cut = 0;  ///< stages before it
  double one_seconds = 0;
  double pipelined_seconds = 0;  ///< on two GPUs
  double hybrid_seconds = 0;     ///< half of it pipelined, half without a pipeline

  double pipelined() const { return one_seconds / pipelined_seconds; }
  double hybrid() const { return one_seconds / hybrid_seconds; }
};

std::span<const PublishedSpeedup> PublishedSpeedups();

}  // namespace batchless::hwmodel

// Example
//   CHECK(PublishedTransformers()[0].run.name == "megatron-22B");
//   CHECK(PublishedNode().core_flops_per_second() == 312e12);
//   CHECK(PublishedSpeedups()[0].pipelined() == 6745.0 / 4090);
