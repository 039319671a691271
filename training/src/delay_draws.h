// The delays of a run in which they are drawn, one an update for all stages and both passes.
//
//   d = delays[j],  j the first with  share_0 + ... + share_j > x,  x = Uniform() of (seed, kDelay, n)
//
//   n    position in the run of the first sample of the update's mini-batch
//
// Draws are a function of seed and position, so that nothing of them is saved, and any worker, process or
// replica finds the same.
#pragma once

#include <cstdint>
#include <vector>

#include "batchless/analysis/delay_model.h"

namespace batchless::training {

class DelayDraws {
 public:
  // The model's delays are drawn independently: its kind is kIndependent.
  DelayDraws(const analysis::DelayModel& model, std::uint64_t seed);

  const std::vector<analysis::Delay>& delays() const { return delays_; }
  analysis::Delay At(std::int64_t position) const;

 private:
  std::vector<analysis::Delay> delays_;
  std::vector<double> ends_;  // sums of shares up to each delay
  std::uint64_t seed_;
};

}  // namespace batchless::training
