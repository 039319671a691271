#include "batchless/hwmodel/published_runs.h"

#include <array>

namespace batchless::hwmodel {
namespace {

// A run: hidden width, heads, blocks, sequence, vocabulary, parallelism of tensors and of the pipeline,
// interleaving, batch, micro-batch.
constexpr std::array<PublishedTransformer, 4> kTransformers = {{
    {.run = {"megatron-22B", 6144, 64, 48, 2048, 51200, 8, 1, 1, 4, 4},
     .full_seconds = 1.42,
     .attention_seconds = 1.1,
     .weight_gib = 45.5625,
     .activation_gib = 59.25,
     .attention_gib = 9.5625,
     .sequence_percent = 66.84,
     .again_percent = 49.42,
     .both_percent = 16.18,
     .full_percent = 7.64},
    {.run = {"gpt3-175B", 12288, 96, 96, 2048, 51200, 8, 8, 3, 64, 1},
     .full_seconds = 18.13,
     .attention_seconds = 13.75,
     .weight_gib = 45.5625,
     .activation_gib = 66.8438,
     .attention_gib = 12.3516,
     .sequence_percent = 62.04,
     .again_percent = 56.53,
     .both_percent = 18.49,
     .full_percent = 8.71},
    {.run = {"turing-530B", 20480, 128, 105, 2048, 51200, 8, 35, 3, 280, 1},
     .full_seconds = 49.05,
     .attention_seconds = 37.83,
     .weight_gib = 31.6406,
     .activation_gib = 114.0234,
     .attention_gib = 23.0762,
     .sequence_percent = 58.31,
     .again_percent = 62.04,
     .both_percent = 20.27,
     .full_percent = 9.42},
    {.run = {"megatron-1T", 25600, 160, 128, 2048, 51200, 8, 64, 1, 512, 1},
     .full_seconds = 94.42,
     .attention_seconds = 71.49,
     .weight_gib = 32.959,
     .activation_gib = 131.25,
     .attention_gib = 26.5625,
     .sequence_percent = 58.31,
     .again_percent = 62.04,
     .both_percent = 20.27,
     .full_percent = 9.42},
}};

// The cut, after conv1 and the 2n convolutions of the first group; seconds on one GPU, pipelined on two, and
// half of it pipelined.
constexpr std::array<PublishedSpeedup, 4> kSpeedups = {{
    {"resnet56", 28, 6745, 4090, 5429},
    {"resnet110", 55, 13150, 7570, 10452},
    {"resnet224", 112, 27231, 14998, 21245},
    {"resnet362", 181, 44814, 24640, 34814},
}};

}  // namespace

std::span<const PublishedTransformer> PublishedTransformers() { return kTransformers; }

Machine PublishedNode() {
  constexpr double kGpus = 8;
  return {.name = "eight A100s of 80 GB",
          .cores = kGpus,
          .peak_flops_per_second = kGpus * 312e12,
          .number_bytes = 2,
          .shared_memory_bytes = kGpus * 80e9,
          .shared_bytes_per_second = kGpus * 2039e9,
          .fabric_bytes_per_second = kGpus * 300e9,
          .fabric_links = 1,
          .network_bytes_per_second = kGpus * 25e9};
}

std::span<const PublishedSpeedup> PublishedSpeedups() { return kSpeedups; }

}  // namespace batchless::hwmodel
