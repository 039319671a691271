#include "engine/gradient_exchange.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "batchless/training/parameter_tensor.h"

namespace batchless::training {
namespace {

// Below that a message costs what it costs to send at all.
constexpr std::int64_t kSmall = 4096;

bool IsOneRound(int replicas, std::int64_t slot_size) {
  return replicas == 2 || slot_size <= kSmall;
}

std::int64_t RangeSize(int replicas, std::int64_t slot_size) {
  // Ranges begin where vectors are aligned.
  return IsOneRound(replicas, slot_size) ? slot_size
                                         : Aligned((slot_size + replicas - 1) / replicas);
}

}  // namespace

std::int64_t ExchangeBufferSize(std::int64_t parts, int replicas, int replica,
                                std::int64_t slot_size) {
  std::int64_t sums = 0;
  for (int r = 0; r < replicas; ++r) {
    if (r == replica) continue;
    sums += static_cast<std::int64_t>(GradientParts(parts, replicas, r).sums().size());
  }
  return sums * RangeSize(replicas, slot_size);
}

template <class Real>
GradientExchange<Real>::GradientExchange(ProcessGroup& replicas,
                                         std::shared_ptr<const Backend<Real>> backend,
                                         std::int64_t parts, int channel, Real* sums,
                                         std::int64_t slot_size)
    : backend_(std::move(backend)), replica_(replicas.rank()), slot_size_(slot_size) {
  const int count = replicas.size();
  const bool one_round = IsOneRound(count, slot_size);
  const std::int64_t most = RangeSize(count, slot_size);
  const auto range_of = [&](int replica) {
    const std::int64_t first = one_round ? 0 : std::min(replica * most, slot_size);
    return std::span(sums + first, static_cast<std::size_t>(std::min(most, slot_size - first)));
  };
  const auto bytes = [](Real* data, std::size_t size) {
    return std::as_writable_bytes(std::span(data, size));
  };
  own_ = range_of(replica_);
  for (int r = 0; r < count; ++r) parts_.emplace_back(parts, count, r);
  const auto own_sums = static_cast<std::int64_t>(parts_[replica_].sums().size());
  for (int r = 0; r < count; ++r) {
    if (r == replica_) continue;
    const auto their_sums = static_cast<std::int64_t>(parts_[r].sums().size());
    const std::span<Real> theirs = range_of(r);
    Real* received = received_.emplace_back(their_sums * most).data();
    // The last ranges of a stage that is not much larger than a small one may be empty.
    for (std::int64_t i = 0; i < their_sums && !own_.empty(); ++i) {
      received_sums_.push_back(
          {r, replicas.MakeReceive(r, channel, bytes(received + i * most, own_.size()))});
    }
    for (std::int64_t i = 0; i < own_sums && !theirs.empty(); ++i) {
      sent_sums_.push_back(
          {r, replicas.MakeSend(r, channel, bytes(theirs.data() + i * slot_size, theirs.size()))});
    }
    if (!one_round && !theirs.empty()) {
      results_.push_back({r, replicas.MakeReceive(r, channel + 1, std::as_writable_bytes(theirs))});
    }
    if (!one_round && !own_.empty()) {
      results_.push_back({r, replicas.MakeSend(r, channel + 1, std::as_writable_bytes(own_))});
    }
  }
  Start(received_sums_);
  PlanAdditions(most);
}

template <class Real>
void GradientExchange<Real>::PlanAdditions(std::int64_t range_size) {
  PartialSums sums;
  std::vector<Real*> places;
  const auto add_last_two = [&] {
    additions_.push_back({.to = places[places.size() - 2], .from = places.back()});
    places.pop_back();
  };
  auto received = received_.begin();
  for (int r = 0; r < static_cast<int>(parts_.size()); ++r) {
    const bool is_own = r == replica_;
    Real* place = is_own ? own_.data() : (received++)->data();
    for (const PartialSum& sum : parts_[r].sums()) {
      places.push_back(place);
      place += is_own ? slot_size_ : range_size;
      for (int additions = sums.Append(sum); additions > 0; --additions) add_last_two();
    }
  }
  while (places.size() > 1) add_last_two();
  result_ = places[0];
}

template <class Real>
void GradientExchange<Real>::Start(const Messages& messages) {
  for (const Message& each : messages) each.message->Start();
}

template <class Real>
bool GradientExchange<Real>::AreDone(const Messages& messages) {
  // Asking is what brings a message forward: all are asked.
  bool all_done = true;
  for (const Message& each : messages) all_done = each.message->IsDone() && all_done;
  return all_done;
}

template <class Real>
void GradientExchange<Real>::Start() {
  Start(sent_sums_);
  phase_ = Phase::kExchange;
}

template <class Real>
bool GradientExchange<Real>::Progress() {
  if (phase_ == Phase::kIdle) return true;
  if (phase_ == Phase::kExchange) {
    const bool are_sent = AreDone(sent_sums_);
    if (!AreDone(received_sums_) || !are_sent) return false;
    for (const Addition& addition : additions_) {
      backend_->Add(std::ssize(own_), addition.to, addition.from, addition.to);
    }
    if (result_ != own_.data()) std::copy_n(result_, own_.size(), own_.data());
    Start(received_sums_);  // of the next mini-batch
    Start(results_);
    phase_ = Phase::kGather;
  }
  if (!AreDone(results_)) return false;
  phase_ = Phase::kIdle;
  return true;
}

template <class Real>
int GradientExchange<Real>::Missing() {
  const auto missing = [&](const Messages& messages) {
    for (const Message& each : messages) {
      if (!each.message->IsDone()) return each.replica;
    }
    return replica_;
  };
  if (phase_ != Phase::kExchange) return missing(results_);
  const int sender = missing(received_sums_);
  return sender == replica_ ? missing(sent_sums_) : sender;
}

template class GradientExchange<float>;
template class GradientExchange<double>;

}  // namespace batchless::training
