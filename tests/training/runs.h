// Runs on a small data set: what they come to, and going on from what was saved.
#pragma once

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "batchless/training/dataset.h"
#include "batchless/training/trainer.h"
#include "catch.h"

namespace batchless::training {

inline std::shared_ptr<const Dataset> SmallData() {
  static const std::shared_ptr<const Dataset> kData = MakeSynthetic(3, Split::kTrain, 64, 16);
  return kData;
}

inline DatasetSource SmallSource() {
  return {SmallData(), {.seed = 2, .order = Order::kShuffled, .augment = true}};
}

struct Outcome {
  std::vector<SampleResult> results;
  std::string weights;
  double validation_loss = 0;
  double accuracy = 0;

  std::vector<double> losses() const {
    std::vector<double> all;
    for (const SampleResult& result : results) all.push_back(result.loss);
    return all;
  }
  friend bool operator==(const Outcome&, const Outcome&) = default;
  // What the rest of the run came to.
  Outcome& operator+=(const Outcome& rest) {
    results.insert(results.end(), rest.results.begin(), rest.results.end());
    weights = rest.weights;
    validation_loss = rest.validation_loss;
    accuracy = rest.accuracy;
    return *this;
  }
};

// Trains up to sample `to`.
inline Outcome Train(Trainer& trainer, std::int64_t to,
                     const SampleSource& source = SmallSource()) {
  Outcome outcome;
  trainer.Advance(source, to, outcome.results);
  outcome.weights = trainer.WeightsSha256();
  return outcome;
}

inline Outcome Train(const TrainerOptions& options, std::int64_t to,
                     const SampleSource& source = SmallSource()) {
  return Train(*MakeTrainer(options), to, source);
}

// Why there can be no run of these options; empty where there can.
inline std::string WhyNot(const TrainerOptions& options) {
  std::string why;
  return options.IsValid(&why) ? "" : why;
}

// A trainer of `options` with the state that `trainer` saves.
inline std::unique_ptr<Trainer> GoOn(const Trainer& trainer, const TrainerOptions& options) {
  std::stringstream state;
  trainer.Save(state);
  std::unique_ptr<Trainer> other = MakeTrainer(options);
  other->Load(state);
  return other;
}

// Losses that are others' but for rounding.
inline void CheckNear(const std::vector<double>& losses, const std::vector<double>& expected,
                      double tolerance) {
  REQUIRE(losses.size() == expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i] == Approx(expected[i]).epsilon(tolerance));
  }
}

// Trains up to sample `to`, from `middle` on by a trainer of that many workers that has the state saved there.
inline Outcome TrainInHalves(TrainerOptions options, std::int64_t middle, std::int64_t to,
                             int workers, const SampleSource& source = SmallSource()) {
  const std::unique_ptr<Trainer> first = MakeTrainer(options);
  Outcome outcome = Train(*first, middle, source);
  options.workers = workers;
  return outcome += Train(*GoOn(*first, options), to, source);
}

}  // namespace batchless::training
