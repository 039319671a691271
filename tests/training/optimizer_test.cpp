#include "batchless/training/optimizer.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "batchless/analysis/argument.h"
#include "batchless/training/own_optimizer.h"
#include "batchless/training/trainer.h"
#include "catch.h"
#include "engine/stage_parameters.h"
#include "optimizers/eigenbasis.h"
#include "refusal.h"
#include "runs.h"
#include "test_schedules.h"

namespace batchless::training {
namespace {

using analysis::InvalidArgument;
using Json = nlohmann::json;
using Values = std::map<std::string, double, std::less<>>;

OptimizerSpec Spec(std::string_view name, const Values& values = {}) {
  return {FindOptimizer(name), values};
}

// Quotients of every delay up to a hundred, where it takes some.
OptimizerSpec SpecOf(const Optimizer& optimizer) {
  OptimizerSpec spec{optimizer, {}};
  for (analysis::Delay delay = 0; optimizer.takes_quotients && delay <= 100; ++delay) {
    const double pole = 0.8 + 0.001 * static_cast<double>(delay);
    spec.by_delay[delay] =
        analysis::LinearSpec({1, -0.3, 0.2}, {1, -1.2 - pole, 0.2 + 1.2 * pole, -0.2 * pole});
  }
  return spec;
}

// Plain tensors of these shapes one behind the other, as stages align them.
StageLayout PlainLayout(const Json& shapes) {
  StageLayout layout;
  for (const Json& shape : shapes) {
    ParameterTensor tensor = RowByRow("", shape.get<std::vector<std::int64_t>>());
    tensor.offset = layout.parameter_size;
    layout.parameter_size += RoundUp(tensor.stored_size, 16);
    layout.parameters.push_back(tensor);
  }
  return layout;
}

template <class Real>
std::vector<Real> InBlock(const StageLayout& layout, const std::vector<double>& numbers) {
  std::vector<Real> block(layout.parameter_size);
  auto from = numbers.begin();
  for (const ParameterTensor& tensor : layout.parameters) {
    std::copy_n(from, tensor.size(), block.begin() + tensor.offset);
    from += tensor.size();
  }
  return block;
}

// The largest distance from the expected numbers, in units of the larger of one and their size.
template <class Real>
double Distance(const StageLayout& layout, const Real* block, const std::vector<double>& expected) {
  const std::vector<double> wanted = InBlock<double>(layout, expected);
  double worst = 0;
  for (const ParameterTensor& tensor : layout.parameters) {
    for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size(); ++i) {
      worst = std::max(worst, std::abs(block[i] - wanted[i]) / std::max(1.0, std::abs(wanted[i])));
    }
  }
  return worst;
}

template <class Real>
void CheckCase(const Json& golden, const Json& expected, int block, double tolerance) {
  const StageLayout layout = PlainLayout(golden["shapes"]);
  OptimizerSpec spec = Spec(expected["optimizer"].get<std::string>());
  const Optimizer& optimizer = spec.optimizer;
  const Json& values = expected["values"];
  const analysis::RuleSpec rule{analysis::FindRule(expected["rule"].get<std::string>()), {}};
  const std::int64_t delay = expected["delay"];
  if (optimizer.takes_quotients) {
    spec.by_delay[delay] = analysis::LinearSpec(values["numerator"], values["denominator"]);
  } else {
    spec.values = values;
  }
  const VersionCounts versions{.forward = 2,
                               .predicted_backward = optimizer.sets_backward_weights,
                               .raw = optimizer.keeps_forward_weights ? delay + 1 : 0};
  StageParameters<Real> parameters(layout, versions, optimizer, block);
  parameters.Allocate();
  parameters.Reset(InBlock<Real>(layout, golden["start"]), {});
  std::vector<Real> workspace(parameters.workspace_size());
  for (const Json& numbers : golden["gradients"]) {
    const std::vector<Real> gradient = InBlock<Real>(layout, numbers);
    const std::int64_t u = parameters.updates();
    const auto coefficients = MakeCoefficients<Real>(spec, rule,
                                                     {.rate = golden["rate"],
                                                      .largest_rate = golden["rate"],
                                                      .momentum = golden["momentum"],
                                                      .weight_decay = expected["weight_decay"],
                                                      .delay = delay,
                                                      .samples = u,
                                                      .update = u + 1});
    parameters.Update(gradient.data(), coefficients, std::max<std::int64_t>(0, u - delay),
                      workspace.data());
  }
  INFO(optimizer.name << " with " << rule.rule.name << ", block " << block);
  const std::int64_t newest = parameters.updates();
  CHECK(Distance(layout, parameters.weights(), expected["weights"]) <= tolerance);
  CHECK(Distance(layout, parameters.forward(newest), expected["forward"]) <= tolerance);
  CHECK(Distance(layout, parameters.backward(), expected["backward"]) <= tolerance);
}

TEST_CASE("Every optimizer agrees with its equations in NumPy", "[optimizer]") {
  std::ifstream file("tests/training/golden/optimizers.json");
  REQUIRE(file);
  const Json golden = Json::parse(file);
  std::vector<std::string_view> missing;
  for (const Optimizer& optimizer : Optimizers()) missing.push_back(optimizer.name);
  for (const Json& expected : golden["cases"]) {
    // Five Newton-Schulz steps multiply small singular values, and their rounding, by up to 500.
    const bool is_muon = expected["optimizer"] == "muon";
    CheckCase<double>(golden, expected, 1, is_muon ? 1e-11 : 1e-13);
    for (const int block : {1, 8, 16}) {
      CheckCase<float>(golden, expected, block, is_muon ? 1e-3 : 1e-5);
    }
    std::erase(missing, expected["optimizer"].get<std::string>());
  }
  CHECK(missing.empty());
}

// The first tensor's weights after updates by gradients that differ, from weights of 1.
std::vector<double> WeightsAfter(const OptimizerSpec& spec, const char* rule,
                                 const StageLayout& layout, int updates) {
  constexpr std::int64_t kDelay = 2;
  const Optimizer& optimizer = spec.optimizer;
  const std::int64_t size = layout.parameters[0].size();
  const VersionCounts versions{.predicted_backward = optimizer.sets_backward_weights,
                               .raw = optimizer.keeps_forward_weights ? kDelay + 1 : 0};
  StageParameters<double> parameters(layout, versions, optimizer, 1);
  parameters.Allocate();
  parameters.Reset(InBlock<double>(layout, std::vector<double>(size, 1)), {});
  std::vector<double> workspace(parameters.workspace_size());
  std::vector<double> gradient(layout.parameter_size);
  for (int u = 0; u < updates; ++u) {
    for (std::int64_t i = 0; i < size; ++i) {
      gradient[i] = std::sin(static_cast<double>(1 + i * i + 7 * u));
    }
    const auto coefficients = MakeCoefficients<double>(spec, {analysis::FindRule(rule), {}},
                                                       {.rate = 0.1,
                                                        .largest_rate = 0.1,
                                                        .momentum = 0.9,
                                                        .weight_decay = 0.1,
                                                        .delay = kDelay,
                                                        .samples = u,
                                                        .update = u + 1});
    parameters.Update(gradient.data(), coefficients, std::max<std::int64_t>(0, u - kDelay),
                      workspace.data());
  }
  return {parameters.weights(), parameters.weights() + size};
}

TEST_CASE("Zeros that fill a block change no update", "[optimizer]") {
  const StageLayout plain = PlainLayout(Json::array({Json::array({10})}));
  StageLayout padded = plain;
  padded.parameters[0].stored_size = padded.parameter_size;
  for (const Optimizer& optimizer : Optimizers()) {
    const OptimizerSpec spec = SpecOf(optimizer);
    INFO(optimizer.name);
    CHECK(WeightsAfter(spec, "sgdm", padded, 6) == WeightsAfter(spec, "sgdm", plain, 6));
  }
}

constexpr std::int64_t kSamples = 48;

// Options of a run by pipelined backpropagation.
TrainerOptions Options(const OptimizerSpec& spec) {
  TrainerOptions options;
  options.network = hwmodel::MakeNetwork({.name = "lenet5", .input = {3, 32, 32}});
  options.schedule = PbOf(options.network);
  options.batch = 2;
  options.microbatch = 2;
  options.samples = kSamples;
  options.optimizer = spec;
  options.learning_rate.base = 1e-3;
  options.weight_decay = 1e-3;
  options.seed = 11;
  return options;
}

TrainerOptions MiniBatchOptions(const OptimizerSpec& spec) {
  TrainerOptions options = Options(spec);
  options.schedule = {};
  options.batch = 8;
  return options;
}

std::string DigestAfter(const TrainerOptions& options) { return Train(options, kSamples).weights; }

// The same of a run that goes on from what it saved at sample `middle`, by that many workers.
std::string ResumedDigest(const TrainerOptions& options, std::int64_t middle, int workers) {
  return TrainInHalves(options, middle, kSamples, workers).weights;
}

TEST_CASE("Optimizers are at their limits what the table says, bit for bit", "[optimizer]") {
  const auto pb = [](const OptimizerSpec& spec, double weight_decay = 1e-3) {
    TrainerOptions options = Options(spec);
    options.weight_decay = weight_decay;
    return DigestAfter(options);
  };
  const std::string sgdm = pb(Spec("sgdm"));
  CHECK(pb(Spec("adaptive-braking", {{"braking", 0}})) == sgdm);
  CHECK(pb(Spec("adaptive-braking")) != sgdm);
  CHECK(pb(Spec("dc-asgd", {{"delay_compensation", 0}})) == sgdm);
  CHECK(pb(Spec("dc-asgd")) != sgdm);
  CHECK(pb(Spec("gap-aware")) != sgdm);
  CHECK(pb(Spec("cgad", {{"age_decay", 0}})) == sgdm);
  CHECK(pb(Spec("cgad")) != sgdm);
  CHECK(pb(Spec("ema-nesterov")) == sgdm);
  CHECK(pb(Spec("pipemare", {{"discrepancy_decay", 1}})) == sgdm);
  CHECK(pb(Spec("pipemare")) != sgdm);
  CHECK(pb(Spec("pipemare", {{"discrepancy_decay", 1}, {"annealing_samples", 30}})) != sgdm);
  CHECK(pb(Spec("adamw"), 0) == pb(Spec("adam"), 0));
  CHECK(pb(Spec("adamw")) != pb(Spec("adam")));
  CHECK(pb(Spec("nadamw"), 0) == pb(Spec("nadam"), 0));
  CHECK(pb(Spec("nadamw")) != pb(Spec("nadam")));
  CHECK(pb(Spec("nadam", {{"beta1", 0}})) == pb(Spec("adam", {{"beta1", 0}})));
  CHECK(pb(Spec("nadamw", {{"beta1", 0}})) == pb(Spec("adamw", {{"beta1", 0}})));
  CHECK(pb(Spec("nadam")) != pb(Spec("adam")));
}

TEST_CASE("EMA-Nesterov whose mean is the last step is linear prediction, bit for bit",
          "[optimizer]") {
  TrainerOptions options = Options(Spec("sgdm"));
  options.rule = {analysis::FindRule("lwp-v"), {}};
  const std::string predicted = DigestAfter(options);
  options.optimizer = Spec("ema-nesterov", {{"mean_decay", 0}});
  CHECK(DigestAfter(options) == predicted);
  options.optimizer = Spec("ema-nesterov");
  CHECK(DigestAfter(options) != predicted);
}

UpdateCoefficients<double> CoefficientsAt(std::int64_t update, const OptimizerSpec& spec,
                                          const char* rule = "sgdm") {
  return MakeCoefficients<double>(spec, {analysis::FindRule(rule), {}},
                                  {.rate = 1, .delay = 3, .update = update})
      .matrices;
}

TEST_CASE("Momenta of NAdam are those of the product over all updates before", "[optimizer]") {
  // A few roundings of each side's exponents, which are at most 40.
  constexpr double kTolerance = 1e-13;
  for (const double beta1 : {0.5, 0.9, 0.99, 0.9999}) {
    for (const double decay : {0.0, 0.004, 0.3}) {
      const OptimizerSpec spec = Spec("nadam", {{"beta1", beta1}, {"momentum_decay", decay}});
      const auto momentum = [&](std::int64_t t) {
        return beta1 * (1 - 0.5L * std::pow(0.96L, static_cast<long double>(t) * decay));
      };
      long double product = 1;
      std::int64_t t = 0;
      for (const std::int64_t until : {1, 2, 7, 60, 379, 381, 5000}) {
        while (t < until) product *= momentum(++t);
        const auto c = CoefficientsAt(t, spec);
        const long double next = momentum(t + 1);
        const auto of_mean = static_cast<double>(next / (1 - product * next));
        const auto of_gradient = static_cast<double>((1 - momentum(t)) / (1 - product));
        CAPTURE(beta1, decay, t);
        CHECK(std::abs(-c.state_step / of_mean - 1) < kTolerance);
        CHECK(std::abs(-c.gradient_step * (1 - beta1) / of_gradient - 1) < kTolerance);
      }
    }
  }
  // Without the rise of its momenta, and when the bias of the mean is gone.
  const OptimizerSpec constant = Spec("nadam", {{"momentum_decay", 1e6}});
  const auto nadam = CoefficientsAt(1'000'000, constant);
  const auto adam = CoefficientsAt(1'000'000, Spec("adam"), "nesterov");
  CHECK(nadam.state_step == adam.state_step);
  CHECK(nadam.gradient_step == Approx(adam.gradient_step).epsilon(1e-15));
}

TEST_CASE("Steps by gradients of one size stay as long as they are when betas change",
          "[optimizer]") {
  // Mean and root of the mean square have the same bias-corrected limit, whatever betas made them.
  constexpr double kTolerance = 1e-13;
  const StageLayout layout = PlainLayout(Json::array({Json::array({3, 4})}));
  const std::vector<double> gradient(layout.parameter_size, 0.5);
  for (const char* name : {"adam", "adamw"}) {
    StageParameters<double> parameters(layout, {}, FindOptimizer(name), 1);
    parameters.Allocate();
    parameters.Reset(std::vector<double>(layout.parameter_size, 1), {});
    OptimizerSpec before;
    PastUpdates past;
    std::int64_t done = 0;
    for (const auto& [beta1, beta2, updates] :
         {std::tuple{0.9, 0.999, 8}, {0.9, 0.9, 3}, {0.9, 0.9, 2}, {0.5, 0.999, 4}}) {
      const OptimizerSpec spec =
          Spec(name, {{"beta1", beta1}, {"beta2", beta2}, {"epsilon", 1e-30}});
      if (done > 0) past = PastAfter(before, past, done, spec, 2);
      for (int u = 1; u <= updates; ++u) {
        const double weight = parameters.weights()[0];
        const auto coefficients = MakeCoefficients<double>(spec, {analysis::FindRule("sgdm"), {}},
                                                           {.rate = 1, .update = u, .past = past});
        parameters.Update(gradient.data(), coefficients, 0, nullptr);
        CAPTURE(name, beta1, beta2, u);
        CHECK(std::abs(weight - parameters.weights()[0] - 1) < kTolerance);
      }
      before = spec;
      done = updates;
    }
    CHECK(past.count == 13);
    CHECK(past.alike == 0);
  }
}

TEST_CASE("Momenta of NAdam go on over a change of beta1", "[optimizer]") {
  constexpr double kTolerance = 1e-13;
  const OptimizerSpec first = Spec("nadam", {{"beta1", 0.8}});
  const OptimizerSpec second = Spec("nadam", {{"beta1", 0.9}});
  const auto momentum = [](std::int64_t t, double beta1) {
    return beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * 0.004));
  };
  double product = 1;
  for (std::int64_t t = 1; t <= 11; ++t) product *= momentum(t, t <= 6 ? 0.8 : 0.9);
  const auto c =
      MakeCoefficients<double>(second, {analysis::FindRule("sgdm"), {}},
                               {.rate = 1, .update = 5, .past = PastAfter(first, {}, 6, second, 2)})
          .matrices;
  const double of_gradient = (1 - momentum(11, 0.9)) / (1 - product);
  CHECK(std::abs(-c.gradient_step * (1 - 0.9) / of_gradient - 1) < kTolerance);
}

TEST_CASE("Without delay every rule is the optimizer itself, and what is for delays does nothing",
          "[optimizer]") {
  for (const Optimizer& optimizer : Optimizers()) {
    if (optimizer.momentum.empty()) continue;  // takes no other rule
    TrainerOptions options = MiniBatchOptions({optimizer, {}});
    const std::string plain = DigestAfter(options);
    INFO(optimizer.name);
    for (const char* rule : {"sc", "lwp-v+sc", "lwp-w"}) {
      options.rule = {analysis::FindRule(rule), {}};
      if (optimizer.sets_backward_weights && rule != std::string("sc")) continue;
      CHECK(DigestAfter(options) == plain);
    }
  }
  const std::string sgdm = DigestAfter(MiniBatchOptions(Spec("sgdm")));
  for (const char* name : {"dc-asgd", "gap-aware", "pipemare", "cgad", "ema-nesterov"}) {
    CHECK(DigestAfter(MiniBatchOptions(Spec(name))) == sgdm);
  }
}

TEST_CASE("Muon as published is Muon with spike compensation at a delay of one", "[optimizer]") {
  TrainerOptions options = MiniBatchOptions(Spec("muon"));
  options.schedule.forward_lag = 1;
  // The vectors' AdamW is compensated, too, and left out.
  options.optimizer.values["vector_lr_ratio"] = 0;
  options.weight_decay = 0;
  const std::string plain = DigestAfter(options);
  options.rule = {analysis::FindRule("sc"), {}};
  CHECK(DigestAfter(options) == plain);
  options.schedule.forward_lag = 2;
  CHECK(DigestAfter(options) != plain);
}

TEST_CASE("Basis rotation is AdamW where there is nothing to rotate", "[optimizer]") {
  // Both divide, but one of them by way of a reciprocal.
  const auto distance = [](const Json& shape, int updates) {
    const StageLayout layout = PlainLayout(Json::array({shape}));
    const auto a = WeightsAfter(Spec("basis-rotation"), "lwp-v+sc", layout, updates);
    const auto b = WeightsAfter(Spec("adamw"), "lwp-v+sc", layout, updates);
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
    return largest;
  };
  constexpr double kTolerance = 1e-13;
  CHECK(distance({1, 1}, 25) < kTolerance);
  CHECK(distance({3}, 25) < kTolerance);
  CHECK(distance({3, 4}, 1) < kTolerance);
  CHECK(distance({3, 4}, 2) > 1e-3);
  // A side above 1024 has neither a mean nor a basis.
  const auto sizes = [](const Json& shape) {
    return StageParameters<double>(PlainLayout(Json::array({shape})), {},
                                   FindOptimizer("basis-rotation"), 1)
        .array_sizes();
  };
  using Sizes = std::vector<std::int64_t>;
  CHECK(sizes({1025, 4}) == Sizes{4112, 4112, 4112, 0, 16, 0, 16, 0, 0, 0});
  CHECK(sizes({4, 1024}) == Sizes{4096, 4096, 4096, 16, 1 << 20, 16, 1 << 20, 0, 0, 0});
}

TEST_CASE("A basis turns to the eigenvectors of its matrix, the largest eigenvalue's first",
          "[optimizer]") {
  const std::array<std::array<double, 3>, 3> q = {
      {{2. / 3, -1. / 3, 2. / 3}, {2. / 3, 2. / 3, -1. / 3}, {-1. / 3, 2. / 3, 2. / 3}}};
  const auto matrix = [&](std::array<double, 3> values) {
    std::array<double, 9> sum{};
    for (int i = 0; i < 9; ++i) {
      for (int k = 0; k < 3; ++k) sum[i] += values[k] * q[i / 3][k] * q[i % 3][k];
    }
    return sum;
  };
  // How far the vector of that number points along column k of q.
  const auto cosine = [&](const std::array<double, 9>& basis, int number, int k) {
    double product = 0;
    for (int i = 0; i < 3; ++i) product += basis[3 * i + number] * q[i][k];
    return std::abs(product);
  };
  std::array<double, 9> basis{};
  TurnToEigenvectors(3, matrix({1, 0, 4}).data(), basis.data());
  for (const auto& [number, k] : {std::pair{0, 2}, {1, 0}, {2, 1}}) {
    CHECK(cosine(basis, number, k) == Approx(1).epsilon(1e-14));
  }
  // A step of another matrix leaves its eigenvectors where they are, a zero one too.
  TurnToEigenvectors(3, matrix({2, 0, 3}).data(), basis.data());
  CHECK(cosine(basis, 1, 0) == Approx(1).epsilon(1e-14));
  CHECK(cosine(basis, 2, 1) == Approx(1).epsilon(1e-7));
  // Steps towards others converge as the ratio of eigenvalues does.
  std::array<double, 9> turned{1, 0, 0, 0, 1, 0, 0, 0, 1};
  for (int step = 0; step < 60; ++step) {
    TurnToEigenvectors(3, matrix({1, 9, 3}).data(), turned.data());
  }
  for (const auto& [number, k] : {std::pair{0, 1}, {1, 2}, {2, 0}}) {
    CHECK(cosine(turned, number, k) == Approx(1).epsilon(1e-12));
  }
  // Nothing yet: any basis will do, and this one is the standard one.
  std::array<double, 9> none{};
  TurnToEigenvectors(3, std::array<double, 9>{}.data(), none.data());
  CHECK(none == std::array<double, 9>{1, 0, 0, 0, 1, 0, 0, 0, 1});
}

std::vector<double> Losses(const TrainerOptions& options) {
  return Train(options, kSamples).losses();
}

TEST_CASE("Rules of a momentum, written as quotients, are the rules themselves", "[optimizer]") {
  constexpr double m = 0.75;  // exact in binary, as is 1 + m
  TrainerOptions options = Options(Spec("sgdm"));
  options.precision = Precision::kDouble;
  options.convolution = ConvolutionMethod::kReference;
  options.momentum = m;
  options.learning_rate.base = 0.01;
  TrainerOptions linear = options;
  linear.optimizer = Spec("linear");
  SECTION("SGDM, in a pipeline whose stages have delays of their own, bit for bit") {
    for (analysis::Delay delay = 0; delay <= 100; ++delay) {
      linear.optimizer.by_delay[delay] = analysis::LinearSpec({1, 0}, {1, -1 - m, m});
    }
    CHECK(DigestAfter(linear) == DigestAfter(options));
  }
  SECTION("prediction and compensation, where both passes read the predicted weights") {
    constexpr analysis::Delay kDelay = 3;
    for (TrainerOptions* o : {&options, &linear}) {
      o->schedule = {.weights = hwmodel::WeightVersions::kStashed, .forward_lag = kDelay};
      o->weight_decay = 0;  // takes the weight that is predicted from, or the predicted one
    }
    options.rule = {analysis::FindRule("lwp-w+sc"), {}};
    const auto [a, b, t] = analysis::ComputeCoefficients<double>(options.rule, m, kDelay);
    // (a z + b (z - m)) ((1 + T) z - T) / (z (z - 1) (z - m))
    linear.optimizer.by_delay[kDelay] = analysis::LinearSpec(
        {(a + b) * (1 + t), -(a + b) * t - b * m * (1 + t), b * m * t}, {1, -1 - m, m, 0});
    const std::vector<double> losses = Losses(linear);
    CheckNear(losses, Losses(options), 1e-10);
    // The rule without compensation is another one.
    options.rule = {analysis::FindRule("lwp-w"), {}};
    CHECK(Losses(options).back() != Approx(losses.back()).epsilon(1e-6));
  }
}

TEST_CASE("Updates a step after their gradients go on from any saved state", "[optimizer]") {
  for (const char* name : {"dc-asgd", "gap-aware", "sgdm"}) {
    for (const bool stashes : {false, true}) {
      TrainerOptions options = Options(Spec(name));
      options.workers = 2;
      if (stashes) options.schedule.weights = hwmodel::WeightVersions::kStashed;
      const std::string at_once = DigestAfter(options);
      options.schedule = WithLateUpdates(options.schedule);
      INFO(name << ", stashes " << stashes);
      CHECK(DigestAfter(options) == at_once);
      for (const std::int64_t samples : {4, 30, 36, 40, 42, 44, 46}) {
        INFO("saved after " << samples);
        CHECK(ResumedDigest(options, samples, options.workers) == at_once);
      }
    }
  }
}

TEST_CASE("A run of any optimizer goes on from what it saved to the same bits", "[optimizer]") {
  for (const Optimizer& optimizer : Optimizers()) {
    for (TrainerOptions options :
         {Options(SpecOf(optimizer)), MiniBatchOptions(SpecOf(optimizer))}) {
      if (optimizer.name == "pipemare") options.optimizer.values["annealing_samples"] = 40;
      INFO(optimizer.name);
      const std::string whole = DigestAfter(options);
      options.workers = 2;
      CHECK(ResumedDigest(options, kSamples / 2, /*workers=*/3) == whole);
    }
  }
}

// SGDM again, as a user writes it.
Optimizer OwnSgdm() {
  return MakeOptimizer(
      {.name = "own", .arrays = {"velocity"}},
      [](const OptimizerSpec&, const UpdatePoint& point) -> OwnNumbers<double> {
        return {point.momentum, point.weight_decay};
      },
      [](const auto& numbers, auto& w) {
        w.p = numbers[1] * w.weight + w.gradient;
        w.states[0] = numbers[0] * w.states[0] + w.p;
        w.u = w.states[0];
      });
}

TEST_CASE("SGDM as an optimizer of one's own is SGDM, bit for bit", "[optimizer]") {
  const auto check_equal = [](TrainerOptions options) {
    INFO(options.rule.rule.name);
    const std::string sgdm = DigestAfter(options);
    options.optimizer = {OwnSgdm(), {}};
    CHECK(DigestAfter(options) == sgdm);
    options.momentum = 0.8;
    CHECK(DigestAfter(options) != sgdm);
  };
  // Vectors round products and sums together, which what the compiler makes of it need not.
  for (const char* rule : {"sgdm", "lwp-v+sc", "lwp-w+sc", "msnag"}) {
    TrainerOptions options = Options(Spec("sgdm"));
    options.rule = {analysis::FindRule(rule), {}};
    options.precision = Precision::kDouble;
    options.convolution = ConvolutionMethod::kReference;
    check_equal(options);
    options.precision = Precision::kSingle;
    check_equal(options);
  }
  TrainerOptions random = MiniBatchOptions(Spec("sgdm"));
  random.convolution = ConvolutionMethod::kReference;
  random.rule = {analysis::FindRule("lwp-v"), {}};
  random.random_delays = analysis::UniformDelays(0, 3);
  check_equal(random);
}

TEST_CASE("An optimizer of one's own is trained by vectors and any workers, and goes on from files",
          "[optimizer]") {
  TrainerOptions options = Options({OwnSgdm(), {}});
  options.rule = {analysis::FindRule("lwp-v+sc"), {}};
  const Outcome own = Train(options, kSamples);
  TrainerOptions sgdm = options;
  sgdm.optimizer = Spec("sgdm");
  CheckNear(own.losses(), Losses(sgdm), 1e-4);

  options.workers = 2;
  CHECK(ResumedDigest(options, kSamples / 2, /*workers=*/3) == own.weights);
}

TEST_CASE("What an optimizer of one's own cannot have is refused by its field", "[optimizer]") {
  const auto refused = [](const Optimizer& row, std::string_view start) {
    const std::string why = test::MessageOf([&] { MakeOptimizer(row, {}); });
    CHECK(why.substr(0, start.size()) == start);
  };
  refused({}, "name: got an empty string, accepted: a name");
  refused({.name = "adam"}, "name: got adam, accepted: a name that no");
  refused({.name = "own", .arrays = {"a", "b", "c"}}, "arrays: got 3, accepted: at most 2 names");
  refused({.name = "own", .tensor_arrays = {"basis"}}, "tensor_arrays: got basis, accepted: none");
  refused({.name = "own", .momentum = "beta1"}, "momentum: got beta1, accepted: nothing, momentum");
  refused({.name = "own", .keeps_forward_weights = true}, "keeps_forward_weights: got true");
  refused({.name = "own", .sets_backward_weights = true}, "sets_backward_weights: got true");
  refused({.name = "own", .for_vectors = "adamw"}, "for_vectors: got adamw, accepted: none");
  refused({.name = "own", .takes_quotients = true}, "takes_quotients: got true");
}

TEST_CASE("An optimizer of one's own counts its updates without having betas", "[optimizer]") {
  const OptimizerSpec own{
      MakeOptimizer({.name = "own", .arrays = {"velocity"}, .counts_updates = true}, {}), {}};
  CHECK(PastAfter(Spec("sgdm"), {.count = 5, .alike = 2}, 4, own, 2) ==
        PastUpdates{.count = 9, .alike = 6});
}

TEST_CASE("Memory with any optimizer is what is predicted", "[optimizer]") {
  for (const Optimizer& optimizer : Optimizers()) {
    TrainerOptions options = Options(SpecOf(optimizer));
    options.network = hwmodel::MakeNetwork({.name = "resnet20"});
    options.schedule = PbOf(options.network);
    const auto actual = static_cast<double>(MakeTrainer(options)->memory_bytes());
    INFO(optimizer.name);
    CHECK(static_cast<double>(PredictMemory(options).total()) == Approx(actual).epsilon(0.1));
  }
}

TEST_CASE("What an optimizer cannot do is refused by name", "[optimizer]") {
  const auto refused = [](const OptimizerSpec& spec, std::string_view start,
                          const std::function<void(TrainerOptions&)>& change = {}) {
    TrainerOptions options = Options(spec);
    if (change) change(options);
    CHECK(WhyNot(options).substr(0, start.size()) == start);
  };
  CHECK_THROWS_AS(FindOptimizer("sgd"), InvalidArgument);
  refused(Spec("sgdm", {{"beta1", 0.9}}), "beta1: got 0.9, accepted: nothing with");
  refused(Spec("adam", {{"beta1", 1}}), "beta1: got 1, accepted: a number from 0 to below");
  refused(Spec("adam", {{"epsilon", 0}}), "epsilon: got 0, accepted: a number from above");
  refused(Spec("basis-rotation", {{"beta2", 1}}), "beta2: got 1, accepted: a number from 0");
  refused(Spec("basis-rotation", {{"momentum", 0.9}}), "momentum: got 0.9, accepted: nothing with");
  refused(Spec("linear"), "by_delay: got nothing, accepted: a quotient");
  OptimizerSpec tiny = Spec("linear");
  tiny.by_delay[0] = analysis::LinearSpec({1, 1e-46}, {1, -1.5, 0.5});
  refused(tiny, "by_delay: got 1e-46, accepted: a number that float holds");
  OptimizerSpec linear = SpecOf(FindOptimizer("linear"));
  refused(linear, "rule: got sc, accepted: sgdm with the optimizer linear", [](TrainerOptions& o) {
    o.rule = {analysis::FindRule("sc"), {}};
  });
  linear.by_delay.erase(0);
  refused(linear,
          "by_delay: got no quotient for a delay of 0, accepted: one for the delay of every");
  linear.by_delay[0] = analysis::LinearSpec({1}, {1, -1, 0, 0, 0});
  refused(linear, "by_delay: got order 4 at delay 0, accepted: a linear rule of order 1 to 3");
  refused({FindOptimizer("sgdm"), {}, linear.by_delay}, "by_delay: got quotients");
  refused(Spec("pipemare"), "weights: got stashed, accepted: newest with",
          [](TrainerOptions& o) { o.schedule.weights = hwmodel::WeightVersions::kStashed; });
  refused(Spec("pipemare"), "weights: got double-buffered, accepted: newest with",
          [](TrainerOptions& o) {
            const int stages = o.network.stage_count();
            o.batch = 2 * stages;
            o.schedule = ScheduleOf("2bw", stages, stages);
          });
  refused(Spec("pipemare"), "rule: got msnag", [](TrainerOptions& options) {
    options.rule = {analysis::FindRule("msnag"), {}};
  });
  refused(Spec("nadamw", {{"beta1", 1}}), "beta1: got 1, accepted: a number from 0 to below 1");
  refused(Spec("pipemare"), "rule: got lwp-v", [](TrainerOptions& options) {
    options.rule = {analysis::FindRule("lwp-v"), {}};
  });
  refused(Spec("pipemare"), "rule: got spectrain", [](TrainerOptions& o) {
    o.rule = {analysis::FindRule("spectrain"), {}};
  });
}

}  // namespace
}  // namespace batchless::training
