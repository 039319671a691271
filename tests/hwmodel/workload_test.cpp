#include "batchless/hwmodel/workload.h"

#include <map>

#include "batchless/analysis/argument.h"
#include "catch.h"

namespace batchless::hwmodel {
namespace {

TEST_CASE("Parameter counts are those that others print", "[workload]") {
  // torchvision's VGG-16; the released GPT-2 models, GPT-3's 174.6e9 and BERT's encoder with pooler.
  CHECK(MakeWorkload("vgg16-imagenet").parameters() == 138'357'544);
  const std::map<std::string, std::int64_t> counts = {
      {"gpt2", 124'439'808},      {"gpt2-medium", 354'823'168}, {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200}, {"bert-base", 109'482'240},   {"bert-large", 335'141'888},
      {"gpt3", 174'604'259'328},
  };
  for (const auto& [name, count] : counts) {
    CAPTURE(name);
    const std::int64_t words = name.starts_with("gpt") ? 50257 : 30522;
    const Workload workload = MakeWorkload(name);
    const std::int64_t width = workload.stages[0].boundary_bytes / 4 /
                               (name == "gpt3"            ? 2048
                                : name.starts_with("gpt") ? 1024
                                                          : 512);
    // The words' matrix is at both ends.
    CHECK(workload.parameters() - words * width == count);
  }
}

TEST_CASE("A transformer's FLOPs are those of Narayanan et al., equation 3", "[workload]") {
  // 96 B s l h^2 (1 + s / 6h + V / 16 l h) with recomputation: four forwards; here without, three
  // of every matrix: 72 B s l h^2 (1 + s / 6h + V / 12 l h) and the same for the scores.
  const Transformer t = {"t", 6, 64, 4, 32, 100};
  const Workload workload = MakeWorkload(t);
  const double h = t.width;
  const double s = t.tokens;
  const double l = t.blocks;
  const double blocks = 72 * s * l * h * h * (1 + s / (6 * h));
  CHECK(static_cast<double>(workload.training_flops()) ==
        Approx(blocks + 6 * s * h * t.words).epsilon(1e-14));
}

TEST_CASE("A block's activations are those of Korthikanti et al., equation 2", "[workload]") {
  const Transformer t = {"t", 2, 64, 4, 32, 100};
  const Workload half = MakeWorkload(t, 2);
  const double sh = 32.0 * 64;
  const auto block =
      static_cast<double>(half.stages[1].activation_bytes + half.stages[2].activation_bytes);
  CHECK(block == sh * (34 + 5.0 * t.heads * t.tokens / t.width));
}

TEST_CASE("A network's workload is its costs", "[workload]") {
  for (const std::string_view name : NetworkNames()) {
    const Workload workload = MakeWorkload(name);
    const Network network = MakeNetwork({.name = std::string(name)});
    const std::vector<StageCost> costs = ComputeCosts(network);
    REQUIRE(workload.stages.size() == costs.size());
    std::int64_t parameters = 0;
    for (const StageCost& cost : costs) parameters += cost.parameters;
    CHECK(workload.parameters() == parameters);
    CHECK(workload.input_bytes == network.input.elements() * 4);
  }
  // Two numbers for each channel of a normalisation, and no biases.
  CHECK(MakeWorkload("vgg16").parameters() ==
        MakeWorkload("vgg16", 4, Normalization::kNone).parameters() + 4224);
  // 6n + 2 layers are 9n + 7 stages.
  CHECK(MakeWorkload("resnet224").stage_count() == 9 * 37 + 7);
  CHECK(MakeWorkload("resnet362").stage_count() == 9 * 60 + 7);
}

TEST_CASE("What is unknown is refused with the nearest name", "[workload]") {
  CHECK_THROWS_AS(MakeWorkload("resnet21"), analysis::InvalidArgument);
  CHECK_THROWS_AS(MakeNetwork({.name = "resnet020"}), analysis::InvalidArgument);
  CHECK_THROWS_WITH(MakeWorkload("gpt2", 4, Normalization::kGroup),
                    Catch::Matchers::Contains("network.norm: got group"));
  CHECK_THROWS_WITH(MakeWorkload("lenet5", 4, Normalization::kBatch),
                    Catch::Matchers::Contains("network.norm: got batch"));
  CHECK_THROWS_WITH(MakeWorkload("gpt4"), Catch::Matchers::Contains("did you mean gpt"));
  CHECK_THROWS_AS(MakeWorkload(Transformer{"t", 1, 10, 3, 1, 1}), analysis::InvalidArgument);
  CHECK_THROWS_AS(MakeWorkload(Transformer{"t", 0, 9, 3, 1, 1}), analysis::InvalidArgument);
}

}  // namespace
}  // namespace batchless::hwmodel
