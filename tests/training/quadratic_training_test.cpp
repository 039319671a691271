// Where training is linear it follows the analyzer: quadratics written as networks, run by the engine.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

#include "batchless/analysis/inconsistency.h"
#include "batchless/analysis/pipeline_stability.h"
#include "batchless/analysis/simulation.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "catch.h"
#include "pipeline_runs.h"

namespace batchless::training {

using analysis::FindRule;
using hwmodel::WeightVersions;

namespace {

// f = |sum_s c_s w_s - t|^2 / 2 as a network: each stage adds c_s w_s to what passes through, and the
// last one is the loss. Quadratic, with Hessian c c', each block read by its own stage.
class ShiftStage final : public Stage<double> {
 public:
  explicit ShiftStage(double factor) : factor_(factor) {
    ParameterTensor tensor;
    tensor.name = "w";
    tensor.shape = {1};
    tensor.sizes = {1, 1, 1, 1};
    tensor.order.out_outer = 1;
    tensor.stored_size = 1;
    layout_.parameters = {tensor};
    layout_.parameter_size = 1;
  }
  void Forward(const ForwardArguments<double>& arguments) override {
    arguments.outputs[0][0] = arguments.inputs[0][0] + factor_ * arguments.parameters[0];
  }
  void Backward(const BackwardArguments<double>& arguments) override {
    const double gradient = arguments.output_gradients[0][0];
    arguments.gradient[0] =
        (arguments.add_gradient ? arguments.gradient[0] : 0) + factor_ * gradient;
    if (arguments.input_gradients[0] != nullptr) arguments.input_gradients[0][0] = gradient;
  }

 private:
  double factor_;
};

// Half the squared distance from where the input started, the value of the first pixel.
class SquareStage final : public Stage<double> {
 public:
  explicit SquareStage(double target) : target_(target) { layout_.saved_size = 16; }
  void Forward(const ForwardArguments<double>& arguments) override {
    arguments.saved[0] = arguments.inputs[0][0] - target_;
    arguments.microbatch->losses[0] = arguments.saved[0];
    arguments.microbatch->correct[0] = 0;
  }
  void Backward(const BackwardArguments<double>& arguments) override {
    arguments.input_gradients[0][0] = arguments.saved[0] * arguments.microbatch->gradient_scale;
  }

 private:
  double target_;
};

// One image of one pixel.
class OnePixel final : public Dataset {
 public:
  OnePixel()
      : Dataset({.name = "pixel",
                 .shape = {1, 1, 1},
                 .classes = 1,
                 .mean = {0.0F},
                 .standard_deviation = {1.0F},
                 .labels = {0},
                 .digest = ""}) {}

 private:
  void DoRead(std::int64_t /*sample*/, std::span<std::uint8_t> pixels) const override {
    pixels[0] = 0;
  }
};

hwmodel::Network ChainNetwork(int stages) {
  hwmodel::Network network;
  network.name = "chain";
  network.input = {1, 1, 1};
  network.classes = 1;
  network.values.push_back({.shape = {1, 1, 1}});
  for (int s = 0; s < stages; ++s) {
    hwmodel::Stage stage;
    stage.layers.push_back({.kind = hwmodel::LayerKind::kLinear});
    stage.inputs = {s};
    network.values[s].consumers = {s};
    if (s + 1 < stages) {
      stage.outputs = {s + 1};
      network.values.push_back({.shape = {1, 1, 1}, .producer = s});
    }
    network.stages.push_back(stage);
  }
  return network;
}

// Residuals sum_s c_s w_hat_s of a run on the chain, all weights starting at 1.
std::vector<double> RunChain(const std::vector<double>& factors, const Program& program,
                             const std::vector<std::int64_t>& delays,
                             const analysis::RuleSpec& rule, double rate, double momentum,
                             std::int64_t lag, std::int64_t steps,
                             const std::vector<Horizons>& horizons = {}) {
  const int stages = static_cast<int>(factors.size()) + 1;
  const hwmodel::Network network = ChainNetwork(stages);
  auto options = EngineOptions<double>(network, program, steps);
  options.plan.forward_lags.assign(options.plan.forward_lags.size(), lag);
  options.plan.version_ages.assign(stages, lag);
  options.plan.predicts_forward = rule.rule.prediction != analysis::Prediction::kNone;
  options.plan.predicts_backward = !horizons.empty();
  options.coefficients = [&](int stage, std::int64_t) {
    UpdatePoint point{.rate = rate, .momentum = momentum, .delay = delays[stage]};
    if (!horizons.empty()) point.horizons = horizons[stage];
    return MakeCoefficients<double>({}, rule, point);
  };
  options.make_stage = [&](int stage) -> std::unique_ptr<Stage<double>> {
    if (stage + 1 == stages) return std::make_unique<SquareStage>(0);
    return std::make_unique<ShiftStage>(factors[stage]);
  };
  Pipeline<double> pipeline(options);
  for (int s = 0; s + 1 < stages; ++s) pipeline.parameters(s).Reset(std::vector{1.0}, {});
  const DatasetSource source(std::make_shared<OnePixel>(), {.order = Order::kSequential});
  std::vector<SampleResult> results;
  pipeline.Run(source, 0, steps + DrainCycles(program), results);
  std::vector<double> residuals;
  residuals.reserve(results.size());
  for (const SampleResult& result : results) residuals.push_back(result.loss);
  return residuals;
}

// Rounding over a few hundred stable steps.
constexpr double kTrajectoryTolerance = 1e-10;

TEST_CASE("On a quadratic with one delay the trainer follows the analyzer, every rule", "[pb]") {
  constexpr std::int64_t kSteps = 150;
  constexpr double kMomentum = 0.8;
  for (const char* name : kRules) {
    for (int delay = 0; delay <= 20; ++delay) {
      analysis::RuleSpec rule{FindRule(name), {}};
      const double rate = 0.3 / (1 + delay) / (1 + delay);
      analysis::SimulationOptions simulation;
      simulation.rule = rule;
      simulation.momentum = kMomentum;
      simulation.delay = delay;
      simulation.learning_rate = rate;
      simulation.updates = kSteps;
      const auto expected = analysis::SimulateQuadratic(simulation);
      const std::vector<double> residuals = RunChain({1.0}, SequentialProgram(2), {delay, delay},
                                                     rule, rate, kMomentum, delay, kSteps);
      INFO(name << ", delay " << delay);
      REQUIRE(residuals.size() == kSteps);
      double worst = 0;
      for (std::int64_t i = 0; i < kSteps; ++i) {
        worst = std::max(worst, std::abs(residuals[i] - expected[i].predicted_weight));
      }
      CHECK(worst <= kTrajectoryTolerance);
    }
  }
}

TEST_CASE("On a linear chain with the delays of its stages the trainer follows the state matrix",
          "[pb]") {
  constexpr std::int64_t kSteps = 120;
  constexpr double kMomentum = 0.7;
  const std::vector<double> factors{0.9, -0.4, 0.6, 0.3};
  const int stages = static_cast<int>(factors.size()) + 1;
  const hwmodel::Schedule schedule = hwmodel::PipelinedBackpropagation(stages, 2 * stages);
  std::vector<const char*> names(std::begin(kRules), std::end(kRules));
  names.push_back("spectrain");
  const hwmodel::ScheduleSummary summary =
      hwmodel::Summarize(hwmodel::PipelinedBackpropagation(stages, 4 * stages));
  for (const char* name : names) {
    for (const std::vector<int>& boundaries :
         {std::vector<int>{stages}, std::vector<int>{2, stages}}) {
      const analysis::RuleSpec rule{FindRule(name), {}};
      const Program program = SteadyProgram(
          hwmodel::FindSteadyState(schedule, WorkersOfStages(boundaries)), boundaries);
      constexpr double kRate = 0.02;
      std::vector<std::int64_t> delays;
      delays.reserve(stages);
      for (int s = 0; s < stages; ++s) delays.push_back(2 * (stages - 1 - s));
      analysis::PipelineOptions options;
      std::vector<Horizons> horizons;
      for (int s = 0; rule.rule.predicts_to_last_backward && s < stages; ++s) {
        const auto forward = static_cast<double>(summary.stages[s].forward_horizon_updates);
        const auto backward = static_cast<double>(summary.stages[s].backward_horizon_updates);
        horizons.push_back({.forward = forward, .backward = backward});
        if (s + 1 < stages) options.horizons.push_back(forward);
      }
      const std::vector<double> residuals =
          RunChain(factors, program, delays, rule, kRate, kMomentum, 0, kSteps, horizons);

      options.rule = rule;
      options.momentum = kMomentum;
      options.learning_rate = kRate;
      const auto blocks = static_cast<Eigen::Index>(factors.size());
      options.hessian.resize(blocks, blocks);
      for (Eigen::Index i = 0; i < blocks; ++i) {
        for (Eigen::Index j = 0; j < blocks; ++j) {
          options.hessian(i, j) = factors[i] * factors[j];
        }
        options.delays.push_back(delays[i]);
        options.widths.push_back(1);
      }
      // The state holds, stage after stage, w, v, (w before), and the last D predictions; the
      // forward of step i reads the prediction of D updates ago, which is the last of them.
      const Eigen::MatrixXd matrix = analysis::StateMatrix(options);
      Eigen::VectorXd state = Eigen::VectorXd::Zero(matrix.rows());
      const bool weight_form = rule.rule.prediction == analysis::Prediction::kWeight;
      std::vector<Eigen::Index> oldest;
      std::vector<Eigen::Index> first;
      Eigen::Index at = 0;
      for (std::size_t s = 0; s < factors.size(); ++s) {
        const Eigen::Index size = 2 + delays[s] + (weight_form ? 1 : 0);
        first.push_back(at);
        for (Eigen::Index i = 0; i < size; ++i) state(at + i) = i == 1 ? 0 : 1;
        at += size;
        oldest.push_back(at - 1);
      }
      REQUIRE(at == matrix.rows());
      REQUIRE(residuals.size() == kSteps);
      double worst = 0;
      for (std::int64_t i = 0; i < kSteps; ++i) {
        double expected = 0;
        for (std::size_t s = 0; s < factors.size(); ++s) {
          expected += factors[s] * state(oldest[s]);
        }
        worst = std::max(worst, std::abs(residuals[i] - expected));
        state = matrix * state;
      }
      INFO(name << ", workers " << boundaries.size());
      CHECK(worst <= kTrajectoryTolerance);
    }
  }
}

// The discrepancy model: the gradient (1 + Delta) w_forward - Delta w_backward.
class DiscrepancyStage final : public Stage<double> {
 public:
  explicit DiscrepancyStage(double discrepancy) : discrepancy_(discrepancy) {
    layout_ = ShiftStage(1).layout();
    layout_.saved_size = 16;
  }
  void Forward(const ForwardArguments<double>& arguments) override {
    arguments.saved[0] = arguments.parameters[0];
    arguments.outputs[0][0] = arguments.parameters[0];
  }
  void Backward(const BackwardArguments<double>& arguments) override {
    arguments.gradient[0] =
        (1 + discrepancy_) * arguments.saved[0] - discrepancy_ * arguments.parameters[0];
  }

 private:
  double discrepancy_;
};

TEST_CASE("Backwards on other weights follow the analyzer's state matrix, PipeMare's T2 too",
          "[pb]") {
  using analysis::BackwardWeights;
  constexpr std::int64_t kSteps = 150;
  constexpr double kMomentum = 0.6;
  constexpr double kRate = 0.02;
  for (const auto& [backward, optimizer] :
       {std::pair(BackwardWeights::kCurrent, "sgdm"), std::pair(BackwardWeights::kStashed, "sgdm"),
        std::pair(BackwardWeights::kCorrected, "pipemare")}) {
    for (const int delay : {1, 4, 9}) {
      INFO(optimizer << " " << static_cast<int>(backward) << ", delay " << delay);
      constexpr double kDiscrepancy = 0.8;
      const hwmodel::Network network = ChainNetwork(2);
      auto options = EngineOptions<double>(network, SequentialProgram(2), kSteps);
      options.plan.forward_lags.assign(2, delay);
      options.plan.version_ages.assign(2, delay);
      if (backward == BackwardWeights::kStashed) {
        options.plan.schedule.weights = WeightVersions::kStashed;
      }
      OptimizerSpec spec{FindOptimizer(optimizer), {}};
      if (backward == BackwardWeights::kCorrected) {
        spec.values["discrepancy_decay"] = analysis::kCorrectionDecay;
      }
      options.run.optimizer = spec;
      options.plan.predicts_backward = backward == BackwardWeights::kCorrected;
      const analysis::RuleSpec rule{FindRule("sgdm"), {}};
      options.coefficients = [&](int, std::int64_t) {
        return MakeCoefficients<double>(spec, rule,
                                        {.rate = kRate, .momentum = kMomentum, .delay = delay});
      };
      options.make_stage = [&](int stage) -> std::unique_ptr<Stage<double>> {
        if (stage == 1) return std::make_unique<SquareStage>(0);
        return std::make_unique<DiscrepancyStage>(kDiscrepancy);
      };
      Pipeline<double> pipeline(options);
      pipeline.parameters(0).Reset(std::vector{1.0}, {});
      const DatasetSource source(std::make_shared<OnePixel>(), {.order = Order::kSequential});
      std::vector<SampleResult> results;
      pipeline.Run(source, 0, kSteps, results);
      REQUIRE(results.size() == kSteps);

      const Eigen::MatrixXd matrix = analysis::InconsistentStateMatrix(
          analysis::DiscrepancyModel(kDiscrepancy, delay, 0), rule, backward, kMomentum, kRate);
      // w, v, w before, delta, then what forwards and backwards are going to read.
      Eigen::VectorXd state = Eigen::VectorXd::Ones(matrix.rows());
      state(1) = state(3) = 0;
      double worst = 0;
      for (std::int64_t i = 0; i < kSteps; ++i) {
        worst = std::max(worst, std::abs(results[i].loss - state(3 + delay)));
        state = matrix * state;
      }
      CHECK(worst <= kTrajectoryTolerance);
    }
  }
}

}  // namespace
}  // namespace batchless::training
