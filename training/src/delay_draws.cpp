#include "delay_draws.h"

#include <algorithm>
#include <numeric>

#include "batchless/training/random.h"

namespace batchless::training {

DelayDraws::DelayDraws(const analysis::DelayModel& model, std::uint64_t seed)
    : delays_(model.delays), ends_(model.shares.size()), seed_(seed) {
  std::partial_sum(model.shares.begin(), model.shares.end(), ends_.begin());
}

analysis::Delay DelayDraws::At(std::int64_t position) const {
  CounterRandom random(seed_, RandomStream::kDelay, static_cast<std::uint64_t>(position));
  const auto found = std::upper_bound(ends_.begin(), ends_.end(), random.Uniform());
  // The sum of all shares may round to less than 1.
  return found == ends_.end() ? delays_.back() : delays_[found - ends_.begin()];
}

}  // namespace batchless::training
