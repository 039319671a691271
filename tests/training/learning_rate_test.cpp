#include "batchless/training/learning_rate.h"

#include <functional>
#include <string>

#include "catch.h"

using batchless::training::LearningRate;
using batchless::training::LearningRateShape;

TEST_CASE("steps: every drop acts from its sample on") {
  LearningRate rate;
  rate.base = 0.1;
  rate.drops = {{100, 0.5}, {200, 0.25}};
  CHECK(rate.At(0) == 0.1);
  CHECK(rate.At(99) == 0.1);
  CHECK(rate.At(100) == 0.1 * 0.5);
  CHECK(rate.At(199) == 0.1 * 0.5);
  CHECK(rate.At(200) == 0.1 * (0.5 * 0.25));
  CHECK(rate.At(1'000'000'000'000) == 0.1 * (0.5 * 0.25));

  // A run that ends before a drop never reaches it.
  rate.samples = 150;
  CHECK(rate.At(200) == rate.At(150));
}

TEST_CASE("warm-up: linear in the samples seen after the update's first one") {
  LearningRate rate;
  rate.base = 0.5;
  rate.warm_up_samples = 4;
  CHECK(rate.At(0) == 0.125);
  CHECK(rate.At(1) == 0.25);
  CHECK(rate.At(2) == 0.375);
  CHECK(rate.At(3) == 0.5);
  CHECK(rate.At(4) == 0.5);
  rate.drops = {{1, 0.5}};
  CHECK(rate.At(1) == 0.125);
}

TEST_CASE("cosine: from base to final, the mean of both half-way") {
  LearningRate rate;
  rate.base = 0.5;
  rate.shape = LearningRateShape::kCosine;
  rate.samples = 1000;
  CHECK(rate.At(0) == 0.5);
  CHECK(rate.At(500) == Approx(0.25).epsilon(1e-15));
  CHECK(rate.At(1000) == 0);
  CHECK(rate.At(2000) == 0);
  rate.final = 0.25;
  CHECK(rate.At(0) == 0.5);
  CHECK(rate.At(500) == Approx(0.3125).epsilon(1e-15));
  CHECK(rate.At(1000) == 0.125);
  // 1 + cos 60 degrees = 3/2
  rate.samples = 3000;
  rate.final = 0;
  CHECK(rate.At(1000) == Approx(0.375).epsilon(1e-15));
}

TEST_CASE(
    "warmup-cosine: up to base by the warm-up's end, half-way between there and the end the mean") {
  LearningRate rate;
  rate.base = 1;
  rate.shape = LearningRateShape::kWarmUpCosine;
  rate.samples = 110;
  rate.warm_up_samples = 10;
  rate.final = 0.1;
  CHECK(rate.At(0) == 0.1);
  CHECK(rate.At(9) == 1);
  CHECK(rate.At(10) == 1);
  CHECK(rate.At(60) == Approx(0.55).epsilon(1e-15));
  CHECK(rate.At(110) == Approx(0.1).epsilon(1e-15));
  // A warm-up as long as the run.
  rate.warm_up_samples = 110;
  CHECK(rate.At(54) == 0.5);
  CHECK(rate.At(110) == 1);

  LearningRate cosine = rate;
  cosine.shape = LearningRateShape::kCosine;
  cosine.warm_up_samples = rate.warm_up_samples = 0;
  for (const int i : {0, 1, 50, 110}) CHECK(rate.At(i) == cosine.At(i));
}

TEST_CASE("one-cycle: up to base at the peak, down to final at the end") {
  LearningRate rate;
  rate.base = 2;
  rate.shape = LearningRateShape::kOneCycle;
  rate.samples = 1000;
  rate.start = 0.25;
  rate.final = 0.125;
  rate.peak_fraction = 0.25;
  CHECK(rate.At(0) == 0.5);
  CHECK(rate.At(125) == 1.25);
  CHECK(rate.At(250) == 2);
  CHECK(rate.At(625) == 1.125);
  CHECK(rate.At(1000) == 0.25);
  CHECK(rate.At(1001) == 0.25);
}

TEST_CASE("what is out of range is named") {
  LearningRate steps;
  steps.drops = {{0, 0.1}, {5, 1}, {5, 0}};
  LearningRate cycle;
  cycle.shape = LearningRateShape::kOneCycle;
  cycle.samples = 10;
  CHECK(steps.IsValid(nullptr));
  CHECK(cycle.IsValid(nullptr));

  struct Case {
    std::string name;
    LearningRate good;
    std::function<void(LearningRate&)> spoil;
  };
  const std::vector<Case> cases = {
      {"base: got -1,", steps, [](LearningRate& rate) { rate.base = -1; }},
      {"base", steps, [](LearningRate& rate) { rate.base = 0.0 / 0.0; }},
      {"warm_up_samples", steps, [](LearningRate& rate) { rate.warm_up_samples = -1; }},
      {"drops: got 4,", steps, [](LearningRate& rate) { rate.drops[2].sample = 4; }},
      {"drops", steps, [](LearningRate& rate) { rate.drops[0].sample = -1; }},
      {"factor", steps, [](LearningRate& rate) { rate.drops[1].factor = 1.5; }},
      {"samples", cycle, [](LearningRate& rate) { rate.samples = 0; }},
      {"final", cycle, [](LearningRate& rate) { rate.final = 2; }},
      {"start", cycle, [](LearningRate& rate) { rate.start = -0.1; }},
      {"peak_fraction", cycle, [](LearningRate& rate) { rate.peak_fraction = 1; }},
      {"peak_fraction", cycle, [](LearningRate& rate) { rate.peak_fraction = 0; }},
  };
  for (const Case& item : cases) {
    LearningRate rate = item.good;
    item.spoil(rate);
    std::string why;
    INFO(item.name << " | " << why);
    CHECK_FALSE(rate.IsValid(&why));
    CHECK(why.starts_with(item.name));
    CHECK(why.find(", accepted: ") != std::string::npos);
    CHECK_FALSE(rate.IsValid(nullptr));
  }
}
