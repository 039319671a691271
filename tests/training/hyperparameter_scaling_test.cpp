#include "batchless/training/hyperparameter_scaling.h"

#include <cmath>
#include <limits>
#include <string>

#include "catch.h"
#include "refusal.h"

using batchless::test::RefusedName;
using batchless::training::AdamHyperparameters;
using batchless::training::Hyperparameters;
using batchless::training::ScaleToBatch;

TEST_CASE("the known answer of the rule's authors") {
  // Printed with these digits: (0.1, 0.9, 256) to a batch of 32.
  const Hyperparameters scaled = ScaleToBatch({0.1, 0.9, 256}, 32);
  CHECK(scaled.learning_rate == Approx(0.001635).margin(0.5e-6));
  CHECK(scaled.momentum == Approx(0.98691628).margin(0.5e-8));
  CHECK(scaled.batch == 32);
}

TEST_CASE("from the CIFAR-10 reference (0.1, 0.9, 128) down to one sample") {
  struct Row {
    std::int64_t batch;
    double learning_rate, learning_rate_digit;
    double momentum, momentum_digit;
  };
  for (const Row& row :
       {Row{1, 6.428e-6, 1e-9, 0.99917721, 1e-8}, Row{8, 4.1021e-4, 1e-8, 0.9934366, 1e-7},
        Row{32, 6.4991e-3, 1e-7, 0.9740037, 1e-7}}) {
    CAPTURE(row.batch);
    const Hyperparameters scaled = ScaleToBatch({0.1, 0.9, 128}, row.batch);
    CHECK(scaled.learning_rate == Approx(row.learning_rate).margin(row.learning_rate_digit / 2));
    CHECK(scaled.momentum == Approx(row.momentum).margin(row.momentum_digit / 2));
  }
}

TEST_CASE("the reference batch gives the reference bit for bit") {
  const Hyperparameters scaled = ScaleToBatch({0.1, 0.9, 128}, 128);
  CHECK(scaled.learning_rate == 0.1);
  CHECK(scaled.momentum == 0.9);
}

TEST_CASE("scaling down and up again returns to the reference") {
  const Hyperparameters reference{0.05, 0.97, 128};
  for (const std::int64_t batch : {1, 3, 512}) {
    const Hyperparameters back = ScaleToBatch(ScaleToBatch(reference, batch), 128);
    CHECK(back.learning_rate == Approx(reference.learning_rate).epsilon(1e-11));
    CHECK(back.momentum == Approx(reference.momentum).epsilon(1e-13));
  }
}

TEST_CASE("a sample's total contribution does not depend on the batch") {
  const Hyperparameters reference{0.1, 0.9, 128};
  for (const std::int64_t batch : {1, 8, 32, 256}) {
    const Hyperparameters scaled = ScaleToBatch(reference, batch);
    const double contribution =
        scaled.learning_rate / ((1 - scaled.momentum) * static_cast<double>(batch));
    CHECK(contribution == Approx(0.1 / (0.1 * 128)).epsilon(1e-11));
  }
}

TEST_CASE("without momentum the learning rate scales with the batch") {
  const Hyperparameters scaled = ScaleToBatch({0.1, 0, 128}, 1);
  CHECK(scaled.momentum == 0);
  CHECK(scaled.learning_rate == Approx(0.1 / 128).epsilon(1e-15));
}

TEST_CASE("Adam's averages keep their half-lives in samples") {
  // 0.9 and 0.999 at 512 samples: at one sample 0.9^(1/512) and 0.999^(1/512), in 30 digits.
  const AdamHyperparameters one = ScaleToBatch(AdamHyperparameters{1e-3, 0.9, 0.999, 512}, 1, 0.5);
  CHECK(one.beta1 == Approx(0.999794238914572206).epsilon(1e-14));
  CHECK(one.beta2 == Approx(0.999998045899695226).epsilon(1e-14));
  CHECK(one.learning_rate == Approx(1e-3 / std::sqrt(512.0)).epsilon(1e-15));
  CHECK(one.batch == 1);
  for (const std::int64_t batch : {1, 8, 2048}) {
    const AdamHyperparameters scaled =
        ScaleToBatch(AdamHyperparameters{2e-3, 0.9, 0.95, 128}, batch, 1);
    const double half_life = static_cast<double>(batch) * std::log(0.5) / std::log(scaled.beta2);
    CHECK(half_life == Approx(128 * std::log(0.5) / std::log(0.95)).epsilon(1e-10));
    CHECK(scaled.learning_rate == Approx(2e-3 * static_cast<double>(batch) / 128).epsilon(1e-15));
  }
  const AdamHyperparameters same =
      ScaleToBatch(AdamHyperparameters{2e-3, 0.9, 0.95, 128}, 128, 0.5);
  CHECK((same.learning_rate == 2e-3 && same.beta1 == 0.9 && same.beta2 == 0.95));
  CHECK(ScaleToBatch(AdamHyperparameters{2e-3, 0, 0, 128}, 1, 0).learning_rate == 2e-3);
  const auto name = [](const AdamHyperparameters& reference, std::int64_t batch, double exponent) {
    return RefusedName([&] { ScaleToBatch(reference, batch, exponent); });
  };
  CHECK(name({0, 0.9, 0.999, 128}, 1, 1) == "reference_lr");
  CHECK(name({1, 1, 0.999, 128}, 1, 1) == "beta1");
  CHECK(name({1, 0.9, -1, 128}, 1, 1) == "beta2");
  CHECK(name({1, 0.9, 0.999, 0}, 1, 1) == "reference_batch");
  CHECK(name({1, 0.9, 0.999, 128}, 0, 1) == "batch");
  CHECK(name({1, 0.9, 0.999, 128}, 1, 1.5) == "reference_exponent");
}

TEST_CASE("arguments out of range are refused by name") {
  const auto name = [](const Hyperparameters& reference, std::int64_t batch) {
    return RefusedName([&] { ScaleToBatch(reference, batch); });
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(name({0, 0.9, 128}, 1) == "reference_lr");
  CHECK(name({-0.1, 0.9, 128}, 1) == "reference_lr");
  CHECK(name({infinity, 0.9, 128}, 1) == "reference_lr");
  CHECK(name({nan, 0.9, 128}, 1) == "reference_lr");
  CHECK(name({0.1, 1, 128}, 1) == "reference_momentum");
  CHECK(name({0.1, -0.1, 128}, 1) == "reference_momentum");
  CHECK(name({0.1, nan, 128}, 1) == "reference_momentum");
  CHECK(name({0.1, 0.9, 0}, 1) == "reference_batch");
  CHECK(name({0.1, 0.9, 128}, 0) == "batch");
}
