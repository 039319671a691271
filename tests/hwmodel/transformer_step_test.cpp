#include "batchless/hwmodel/transformer_step.h"

#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/published_runs.h"
#include "catch.h"
#include "refusal.h"

namespace batchless::hwmodel {
namespace {

constexpr BlockOptions kFull{.recomputation = Recomputation::kFull};
constexpr BlockOptions kAttention{.recomputation = Recomputation::kAttention};
constexpr BlockOptions kBoth{.recomputation = Recomputation::kAttention, .sequence_parallel = true};

// One GPU, one block; a vocabulary of one so that the logits cost next to nothing.
TransformerRun Small() {
  return {
      .name = "small", .hidden = 512, .heads = 8, .blocks = 1, .sequence = 128, .vocabulary = 1};
}

// One GPU whose FLOPs alone take time.
Machine Computer() {
  Machine node;
  node.cores = 1;
  node.peak_flops_per_second = 1e12;
  node.shared_bytes_per_second = 1e30;
  node.fabric_bytes_per_second = 1e30;
  node.network_bytes_per_second = 1e30;
  return node;
}

TEST_CASE("A block on one GPU has the published costs") {
  TransformerRun run = Small();
  run.microbatch = run.batch = 3;
  const double n = 3.0 * 128 * 512;
  const BlockCosts costs = CostBlock(run, {});
  CHECK(costs.parameters == 12.0 * 512 * 512);
  // 24 b s h^2 (1 + s / (6 h))
  CHECK(costs.forward.flops == Approx(24 * n * 512 * (1 + 128.0 / (6 * 512))));
  // s b h (34 + 5 a s / h)
  CHECK(costs.kept_bytes == Approx(n * (34 + 5 * 8 * 128.0 / 512)));
  CHECK(costs.forward.exchanged_bytes == 0);
  CHECK(CostBlock(run, kAttention).kept_bytes == Approx(34 * n));
  CHECK(CostBlock(run, kFull).kept_bytes == Approx(2 * n));
}

TEST_CASE(
    "GPUs of a node share all costs with sequence parallelism, and exchange as much without") {
  const TransformerRun one = Small();
  TransformerRun four = Small();
  four.tensor_parallel = 4;
  const BlockOptions parallel{.sequence_parallel = true};
  const BlockCosts whole = CostBlock(one, {});
  const BlockCosts part = CostBlock(four, parallel);
  CHECK(4 * part.parameters == Approx(whole.parameters));
  CHECK(4 * part.forward.flops == Approx(whole.forward.flops));
  CHECK(4 * part.forward.bytes == Approx(whole.forward.bytes));
  CHECK(4 * part.kept_bytes == Approx(whole.kept_bytes));
  CHECK(part.forward.exchanged_bytes == CostBlock(four, {}).forward.exchanged_bytes);
  CHECK(CostBlock(four, {}).kept_bytes > part.kept_bytes);
}

TEST_CASE("What a recomputation makes again is what it does not keep") {
  const BlockCosts none = CostBlock(Small(), {});
  const BlockCosts full = CostBlock(Small(), kFull);
  CHECK(full.again.flops == none.forward.flops);
  CHECK(full.again.bytes == none.forward.bytes);
  const double pairs = 128.0 * 128;
  const BlockCosts attention = CostBlock(Small(), kAttention);
  CHECK(attention.again.flops == 4 * pairs * 512);
  CHECK(none.kept_bytes - attention.kept_bytes == 5 * 8 * pairs);
}

TEST_CASE("A step without a pipeline takes its passes' FLOPs") {
  TransformerRun run = Small();
  run.batch = 6;
  const double flops = 6 * CostBlock(run, {}).forward.flops;
  const Efficiencies half{.compute = 0.5};
  const double logits = 6 * 3 * 2.0 * 128 * 512;
  CHECK(PredictStepSeconds(run, {}, Computer(), half) == Approx((3 * flops + logits) / 0.5e12));
  CHECK(PredictStepSeconds(run, kFull, Computer(), half) == Approx((4 * flops + logits) / 0.5e12));
}

TEST_CASE("Bytes take time at their efficiency, each GPU's at its own memory") {
  TransformerRun run = Small();
  run.tensor_parallel = 4;
  Machine node = Computer();
  node.cores = 4;
  node.peak_flops_per_second = 1e30;
  node.shared_bytes_per_second = 4e9;
  const BlockCosts costs = CostBlock(run, {});
  const double moved = 3 * costs.forward.bytes + 30 * costs.parameters + 16.0 * 128 / 4;
  CHECK(PredictStepSeconds(run, {}, node, {.bandwidth = 0.8}) == Approx(moved / 0.8e9));
  node.fabric_bytes_per_second = 4e8;
  CHECK(PredictStepSeconds(run, {}, node, {.bandwidth = 0.8}) ==
        Approx(moved / 0.8e9 + 2 * costs.forward.exchanged_bytes / 0.8e8));
}

TEST_CASE("Fill and drain cost (p - 1) / (v m) of the step") {
  for (const int chunks : {1, 2, 3}) {
    TransformerRun run = Small();
    run.blocks = 24;
    run.pipeline_parallel = 4;
    run.interleaving = chunks;
    run.batch = 16;
    const double ideal = 16 * 3 * 6 * CostBlock(run, {}).forward.flops / 1e12;
    CHECK(PredictStepSeconds(run, {}, Computer(), {}) ==
          Approx(ideal * (1 + 3.0 / (chunks * 16))).epsilon(1e-3));
    // L (1 + (p - 1) / (p v)) blocks' activations on the first node, L with one chunk.
    const double further = chunks == 1 ? 0 : 3.0 / (4 * chunks);
    CHECK(PredictActivationBytes(run, {}) ==
          Approx(24 * (1 + further) * CostBlock(run, {}).kept_bytes));
  }
}

TEST_CASE("A fit finds the efficiencies that made the seconds") {
  std::vector<MeasuredStep> steps;
  const Efficiencies made{.compute = 0.61, .bandwidth = 0.83};
  for (const PublishedTransformer& published : PublishedTransformers().first(2)) {
    for (const BlockOptions& options : {kFull, kBoth}) {
      steps.push_back({published.run, options,
                       PredictStepSeconds(published.run, options, PublishedNode(), made)});
    }
  }
  const Efficiencies found = FitEfficiencies(steps, PublishedNode());
  CHECK(found.compute == Approx(made.compute).epsilon(1e-7));
  CHECK(found.bandwidth == Approx(made.bandwidth).epsilon(1e-7));
}

TEST_CASE("Published memory is met to 3 %") {
  for (const PublishedTransformer& published : PublishedTransformers()) {
    CAPTURE(published.run.name);
    const auto kept = [&](const BlockOptions& options) {
      return PredictActivationBytes(published.run, options);
    };
    CHECK(PredictWeightBytes(published.run) == Approx(0x1p30 * published.weight_gib).epsilon(1e-4));
    CHECK(kept({}) == Approx(0x1p30 * published.activation_gib).epsilon(1e-4));
    CHECK(kept(kBoth) == Approx(0x1p30 * published.attention_gib).epsilon(1e-4));
    const double percent = kept({}) / 100;
    CHECK(kept({.sequence_parallel = true}) ==
          Approx(percent * published.sequence_percent).epsilon(0.03));
    CHECK(kept(kAttention) == Approx(percent * published.again_percent).epsilon(0.03));
    CHECK(kept(kBoth) == Approx(percent * published.both_percent).epsilon(0.03));
    CHECK(kept(kFull) == Approx(percent * published.full_percent).epsilon(0.03));
  }
}

TEST_CASE("Runs that no step can have are refused by name") {
  const auto refused = [](auto change) {
    TransformerRun run = Small();
    run.blocks = 12;
    run.pipeline_parallel = 2;
    run.batch = 4;
    change(run);
    return test::RefusedName(
        [&] { static_cast<void>(PredictStepSeconds(run, {}, Computer(), {})); });
  };
  CHECK(refused([](TransformerRun&) {}).empty());
  CHECK(refused([](TransformerRun& run) { run.hidden = 0; }) == "hidden");
  CHECK(refused([](TransformerRun& run) { run.pipeline_parallel = 5; }) == "pipeline_parallel");
  CHECK(refused([](TransformerRun& run) { run.interleaving = 4; }) == "interleaving");
  CHECK(refused([](TransformerRun& run) { run.microbatch = 3; }) == "microbatch");
  CHECK_THROWS_AS(PredictStepSeconds(Small(), {}, Computer(), {.compute = 0}),
                  analysis::InvalidArgument);
  CHECK_THROWS_AS(PredictStepSeconds(Small(), {}, Machine{}, {}), analysis::InvalidArgument);
  CHECK_THROWS_AS(FitEfficiencies({}, Computer()), analysis::InvalidArgument);
}

}  // namespace
}  // namespace batchless::hwmodel
