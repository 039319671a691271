// What a network costs, stage by stage, for every network that the model knows: those that can be
// trained (network.h), and large ones of which there is nothing but the costs.
//
//   name                     parameters   sample                      source
//   resnet20, vgg11, ...                  as network.h                network.h
//   vgg16-imagenet           138 357 544  3 x 224 x 224               Simonyan, Zisserman 1409.1556
//   resnet20-v1                  269 722  3 x 32 x 32                 He et al. 1512.03385
//   resnet224, resnet362                  3 x 32 x 32, n = 37, 60     network.h
//   gpt2                     124 439 808  1024 tokens                 Radford et al. 2019
//   gpt2-medium, -large, -xl              1024 tokens                 the same
//   gpt3                     174.6e9      2048 tokens                 Brown et al. 2005.14165
//   bert-base, bert-large    110, 335e6   512 tokens                  Devlin et al. 1810.04805
//
// A transformer of L blocks of width d, a heads, n tokens and a vocabulary of V is 2 L + 2 stages: embedding,
// then attention and feed-forward (width 4 d) of each block, each with its normalisation, then the
// vocabulary's scores and the loss. Parameters and products are those of the layers of a gpt (network.h),
// whose stages these are in larger pieces; the published formulas count products and nothing else:
//
//   attention       forward 8 n d^2 + 4 n^2 d FLOPs     parameters 4 d^2 + 6 d
//   feed-forward            16 n d^2                               8 d^2 + 7 d
//   scores                  2 n d V
//
// Common frameworks keep the attention's matrices: with p bytes a number, activations (6 p + 1) n d + (2 p + 1) a n^2 for attention and
// (10 p + 1) n d for the feed-forward, masks of dropout a byte. At p = 2 a block's sum to
// n d (34 + 5 a n / d), each written once by the forward and read once by the backward. An embedding
// reads the rows of its sample's tokens, and updates all. The tokens' matrix is one, used at both ends.
// Both keep it, so its parameters are counted at both; the table counts them once, and BERT's pooler
// with them.
//
// Sources: Narayanan et al., arXiv 2104.04473 (FLOPs); Korthikanti et al., arXiv 2205.05198
// (activations); both formulas follow from the shapes above.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/network.h"

namespace batchless::hwmodel {

struct Workload {
  std::string name;
  std::vector<std::string> stage_names;  ///< (S)
  std::vector<StageCost> stages;         ///< (S), for one sample
  std::int64_t input_bytes = 0;          ///< of a sample

  int stage_count() const { return static_cast<int>(stages.size()); }
  std::int64_t parameters() const;
  /// What a worker with stages first .. end-1 keeps of a sample; every value once.
  std::int64_t WorkerActivationBytes(int first, int end) const;
  /// What these stages read of a sample and do not make; nothing that only crosses them.
  std::int64_t WorkerInputBytes(int first, int end) const;
  /// Forward, both gradients, without the update.
  std::int64_t training_flops() const;
};

/// Shape of a transformer.
struct Transformer {
  std::string_view name;
  int blocks = 1;
  int width = 1;
  int heads = 1;
  int tokens = 1;
  int vocabulary = 1;
  /// BERT: two kinds of segments, a normalisation after the embedding in place of the last one, and
  /// a linear layer on the first token.
  bool encoder = false;
};

/// The names that MakeWorkload knows, beside the further ones of networks (network.h).
std::span<const std::string_view> WorkloadNames();

/// Whether MakeWorkload takes the name.
bool IsWorkloadName(std::string_view name);

/// With `bytes_per_number` bytes for each number and the network's own normalisation, unless given.
/// Throws analysis::InvalidArgument naming network, with the nearest name, or network.norm, or what
/// MakeNetwork throws.
Workload MakeWorkload(std::string_view name, int bytes_per_number = 4,
                      std::optional<Normalization> normalization = {});

/// The costs of a network that can be trained, whatever its options.
Workload MakeWorkload(const Network& network, int bytes_per_number = 4);

/// The costs of a transformer. Throws analysis::InvalidArgument unless every number is positive and
/// heads divides width.
Workload MakeWorkload(const Transformer& transformer, int bytes_per_number = 4);

}  // namespace batchless::hwmodel

// Example
//   const Workload gpt2 = MakeWorkload("gpt2", /*bytes_per_number=*/2);
//   CHECK(gpt2.stage_count() == 2 * 12 + 2);
//   // The tokens' matrix is counted at both ends.
//   CHECK(gpt2.parameters() - 50257 * 768 == 124'439'808);
//   CHECK(gpt2.stages[0].parameter_bytes == 2 * gpt2.stages[0].parameters);
