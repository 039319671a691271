// Seconds and memory of one optimizer step of a transformer on nodes of GPUs: tensor parallel within a
// node, a pipeline of nodes.
//
//   h  width          a  heads       L  blocks       s  sequence, tokens    V  vocabulary
//   t  GPUs of a node that share every block         p  nodes of the pipeline
//   v  chunks of blocks of a node, interleaved       b  micro-batch, m = batch / b of them an update
//
// A block takes of one GPU, for one micro-batch, values in 16 bits; n = s b h, and q = t where what tensor
// parallelism leaves whole is divided by tokens (sequence parallel), else 1:
//
//   parameters         12 h^2 / t
//   forward FLOPs      (24 n h + 4 b s^2 h) / t              products of weights; of queries, keys, values
//   forward bytes      22 n / q + 16 n / t + 9 a b s^2 / t   norms, residuals; GELU; softmax and dropout
//   exchanged bytes    8 n (t - 1) / t                       two all-reduces of 2 n bytes in a ring
//   kept bytes         10 n / q + (24 n + 5 a b s^2) / t     for the backward
//
// A backward takes twice a forward's FLOPs and bytes, and exchanges as much. Recomputation keeps less and
// does a part of the forward once more before it:
//
//   none        all is kept
//   attention   the terms of s^2 are not kept, and made again
//   full        2 n / q bytes are kept, the block's input; the whole forward is made again
//
// The last stage has the logits beside its blocks, 2 n V / t FLOPs forward and 8 s b V / t bytes, the
// first an embedding, which costs nothing here. The update moves 30 bytes a parameter (gradient, 32-bit
// weight and two moments of Adam read, the last three and a 16-bit weight written); weights, gradients and
// moments keep 18.
//
// A pass takes  FLOPs / (e_c peak) + bytes / (e_b memory) + exchanged / (e_b fabric)  seconds, with two
// efficiencies, of computing and of moving bytes; a message to the next node 2 n bytes over e_b times its
// network. What the pipeline makes of that is the run of its schedule, interleaved 1F1B, event by event.
//
// Sources: FLOPs, Narayanan et al., arXiv 2104.04473; kept bytes and recomputation, Korthikanti et al.,
// arXiv 2205.05198 (both recalled); moved bytes are counted here.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "batchless/hwmodel/machine.h"

namespace batchless::hwmodel {

enum class Recomputation : unsigned char { kNone, kAttention, kFull };

struct TransformerRun {
  std::string_view name;
  int hidden = 0;
  int heads = 0;
  int blocks = 0;
  int sequence = 0;
  int vocabulary = 0;
  int tensor_parallel = 1;
  int pipeline_parallel = 1;
  int interleaving = 1;
  std::int64_t batch = 1;  ///< sequences an update
  std::int64_t microbatch = 1;

  std::int64_t microbatches() const { return batch / microbatch; }
};

struct BlockOptions {
  Recomputation recomputation = Recomputation::kNone;
  bool sequence_parallel = false;
};

struct PassCosts {
  double flops = 0;
  double bytes = 0;
  double exchanged_bytes = 0;
};

/// What a block's passes of one micro-batch take of one GPU.
struct BlockCosts {
  double parameters = 0;
  PassCosts forward{};
  PassCosts again{};  ///< what the backward makes again, beside twice the forward
  double kept_bytes = 0;
};

/// Throws analysis::InvalidArgument naming a field of `run` unless all are at least 1, nodes and chunks
/// divide the blocks, the micro-batch the batch, and, where there are several chunks, nodes the
/// micro-batches.
BlockCosts CostBlock(const TransformerRun& run, const BlockOptions& options);

/// Shares of the vendor's rates that real kernels reach.
struct Efficiencies {
  double compute = 1;    ///< e_c
  double bandwidth = 1;  ///< e_b
};

/// Seconds of an update with its fill and drain. `node`: a machine whose cores are its GPUs, with
/// shared_bytes_per_second, fabric_bytes_per_second and network_bytes_per_second of all of them together.
/// Throws what CostBlock throws, and naming `node` or an efficiency that is not positive.
double PredictStepSeconds(const TransformerRun& run, const BlockOptions& options,
                          const Machine& node, const Efficiencies& efficiencies);

/// What a GPU keeps for its parameters, embeddings left out: 18 bytes each.
double PredictWeightBytes(const TransformerRun& run);

/// Most that a GPU of the first node keeps for backwards at any time.
double PredictActivationBytes(const TransformerRun& run, const BlockOptions& options);

/// A measured step, and how it was made.
struct MeasuredStep {
  TransformerRun run;
  BlockOptions options;
  double seconds = 0;
};

/// The efficiencies with the least sum of squared relative errors of these steps, by Gauss and Newton in
/// their logarithms. Throws analysis::InvalidArgument naming `steps` where there are fewer than two.
Efficiencies FitEfficiencies(std::span<const MeasuredStep> steps, const Machine& node);

}  // namespace batchless::hwmodel

// Example
//   const TransformerRun run{.name = "22B", .hidden = 6144, .heads = 64, .blocks = 48, .sequence = 2048,
//                            .vocabulary = 51200, .tensor_parallel = 8, .batch = 4, .microbatch = 4};
//   CHECK(PredictWeightBytes(run) == 45.5625 * 0x1p30);
//   CHECK(PredictActivationBytes(run, {}) == Approx(59.25 * 0x1p30));
