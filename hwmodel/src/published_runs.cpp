#include "batchless/hwmodel/published_runs.h"

#include <array>

namespace batchless::hwmodel {
namespace {

constexpr std::array<PublishedTransformer, 4> kTransformers = {{
    {.run = {.name = "megatron-22B",
             .hidden = 6144,
             .heads = 64,
             .blocks = 48,
             .sequence = 2048,
             .vocabulary = 51200,
             .tensor_parallel = 8,
             .pipeline_parallel = 1,
             .interleaving = 1,
             .batch = 4,
             .microbatch = 4},
     .full_seconds = 1.42,
     .attention_seconds = 1.1,
     .weight_gib = 45.5625,
     .activation_gib = 59.25,
     .attention_gib = 9.5625,
     .sequence_percent = 66.84,
     .again_percent = 49.42,
     .both_percent = 16.18,
     .full_percent = 7.64},
    {.run = {.name = "gpt3-175B",
             .hidden = 12288,
             .heads = 96,
             .blocks = 96,
             .sequence = 2048,
             .vocabulary = 51200,
             .tensor_parallel = 8,
             .pipeline_parallel = 8,
             .interleaving = 3,
             .batch = 64,
             .microbatch = 1},
     .full_seconds = 18.13,
     .attention_seconds = 13.75,
     .weight_gib = 45.5625,
     .activation_gib = 66.8438,
     .attention_gib = 12.3516,
     .sequence_percent = 62.04,
     .again_percent = 56.53,
     .both_percent = 18.49,
     .full_percent = 8.71},
    {.run = {.name = "turing-530B",
             .hidden = 20480,
             .heads = 128,
             .blocks = 105,
             .sequence = 2048,
             .vocabulary = 51200,
             .tensor_parallel = 8,
             .pipeline_parallel = 35,
             .interleaving = 3,
             .batch = 280,
             .microbatch = 1},
     .full_seconds = 49.05,
     .attention_seconds = 37.83,
     .weight_gib = 31.6406,
     .activation_gib = 114.0234,
     .attention_gib = 23.0762,
     .sequence_percent = 58.31,
     .again_percent = 62.04,
     .both_percent = 20.27,
     .full_percent = 9.42},
    {.run = {.name = "megatron-1T",
             .hidden = 25600,
             .heads = 160,
             .blocks = 128,
             .sequence = 2048,
             .vocabulary = 51200,
             .tensor_parallel = 8,
             .pipeline_parallel = 64,
             .interleaving = 1,
             .batch = 512,
             .microbatch = 1},
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

// After conv1 and the 2n convolutions of the first group.
constexpr std::array<PublishedSpeedup, 4> kSpeedups = {{
    {.network = "resnet56",
     .cut = 28,
     .one_seconds = 6745,
     .pipelined_seconds = 4090,
     .hybrid_seconds = 5429},
    {.network = "resnet110",
     .cut = 55,
     .one_seconds = 13150,
     .pipelined_seconds = 7570,
     .hybrid_seconds = 10452},
    {.network = "resnet224",
     .cut = 112,
     .one_seconds = 27231,
     .pipelined_seconds = 14998,
     .hybrid_seconds = 21245},
    {.network = "resnet362",
     .cut = 181,
     .one_seconds = 44814,
     .pipelined_seconds = 24640,
     .hybrid_seconds = 34814},
}};

}  // namespace

std::span<const PublishedTransformer> PublishedTransformers() { return kTransformers; }

Machine PublishedNode() {
  constexpr double kGpus = 8;
  Machine node;
  node.name = "eight A100s of 80 GB";
  node.cores = kGpus;
  node.peak_flops_per_second = kGpus * 312e12;
  node.number_bytes = 2;
  node.shared_memory_bytes = kGpus * 80e9;
  node.shared_bytes_per_second = kGpus * 2039e9;
  node.fabric_bytes_per_second = kGpus * 300e9;
  node.fabric_links = 1;
  node.network_bytes_per_second = kGpus * 25e9;
  return node;
}

std::span<const PublishedSpeedup> PublishedSpeedups() { return kSpeedups; }

}  // namespace batchless::hwmodel
