// What a pipeline keeps of the past: its state, saved and brought back, and the messages on their way.
#include <algorithm>
#include <istream>
#include <ostream>
#include <stdexcept>

#include "engine/collective.h"
#include "engine/pipeline.h"
#include "state_stream.h"

namespace batchless::training {

using hwmodel::ActionKind;

template <class Real>
bool Pipeline<Real>::HasPendingGradient(int stage, std::int64_t cycles) const {
  return CountDoneBy(cycles, options_.plan.completes, stage) >
         CountDoneBy(cycles, ActionKind::kUpdate, stage);
}

template <class Real>
template <class Visit>
void Pipeline<Real>::ForEachLivePart(std::int64_t cycles, Visit visit) {
  const auto done = [&](const hwmodel::Pass& pass) {
    return CountDoneBy(cycles, pass.kind, pass.stage);
  };
  const auto process_of = [&](int stage) {
    int p = 0;
    while (!spans_[p].Holds(stage)) ++p;
    return p;
  };
  memory_->ForEachKept(done, visit);
  std::vector<int> holders;
  const auto in_flight = [&](int stage, ActionKind last, auto visit_microbatch) {
    const std::int64_t written = done({ActionKind::kForward, stage});
    for (std::int64_t k = done({last, stage}); k < written; ++k) visit_microbatch(k);
  };
  const auto visit_own = [&](int stage, void* data, std::size_t bytes) {
    holders = {process_of(stage)};
    visit(holders[0] == rank_ ? data : nullptr, bytes, holders);
  };
  for (int s = 0; s < stage_count(); ++s) {
    in_flight(s, options_.plan.completes, [&](std::int64_t k) {
      visit_own(s, stages_[s].forward_version(k), sizeof(std::int64_t));
    });
  }
  std::vector<int> everybody;
  for (std::size_t p = 0; p < spans_.size(); ++p) everybody.push_back(static_cast<int>(p));
  in_flight(0, ActionKind::kBackward, [&](std::int64_t k) {
    MicrobatchSlot<Real>& slot = memory_->At(k);
    visit(&slot.microbatch.first_sample, sizeof(std::int64_t), everybody);
    visit(slot.labels.data(), slot.labels.size() * sizeof(std::int32_t), everybody);
  });
  in_flight(stage_count() - 1, ActionKind::kBackward, [&](std::int64_t k) {
    MicrobatchSlot<Real>& slot = memory_->At(k);
    visit_own(stage_count() - 1, slot.losses.data(), slot.losses.size() * sizeof(Real));
    visit_own(stage_count() - 1, slot.correct.data(), slot.correct.size());
  });
  for (int s = 0; s < stage_count(); ++s) {
    if (!HasPendingGradient(s, cycles)) continue;
    visit_own(s, stages_[s].gradient(), layout(s).parameter_size * sizeof(Real));
  }
  for (int s = 0; s < stage_count(); ++s) {
    StageParameters<Real>& own = parameters(s);
    std::int64_t updates = own.updates();
    visit_own(s, &updates, sizeof updates);
    own.set_updates(updates);
    for (std::size_t i = 0; i < own.array_sizes().size(); ++i) {
      visit_own(s, own.array(i), static_cast<std::size_t>(own.array_sizes()[i]) * sizeof(Real));
    }
  }
}

template <class Real>
void Pipeline<Real>::Save(std::ostream& to, std::int64_t cycles) const {
  std::vector<std::byte> received;
  // Only read here; the visitor is shared with Load.
  const_cast<Pipeline&>(*this).ForEachLivePart(
      cycles, [&](const void* data, std::size_t bytes, const std::vector<int>& holders) {
        if (rank_ != 0) {
          if (holders[0] == rank_) {
            options_.group->Send(0, {static_cast<const std::byte*>(data), bytes});
          }
          return;
        }
        if (holders[0] != 0) {
          received.resize(bytes);
          options_.group->Receive(holders[0], received);
          data = received.data();
        }
        const auto size = static_cast<std::uint64_t>(bytes);
        Write(to, &size, sizeof size);
        Write(to, data, bytes);
      });
}

template <class Real>
bool Pipeline<Real>::Load(std::istream& from, std::int64_t cycles, std::int64_t now) {
  std::uint64_t size = 0;
  const auto read_size = [&] { from.read(reinterpret_cast<char*>(&size), sizeof size); };
  // All sizes are looked at before anything is replaced.
  const auto check_sizes = [&] {
    const std::istream::pos_type start = from.tellg();
    ForEachLivePart(
        cycles, [&](const void* /*data*/, std::size_t bytes, const std::vector<int>& /*holders*/) {
          read_size();
          RefuseStateIf(!from || size != bytes);
          const auto count = static_cast<std::streamsize>(bytes);
          if (from.ignore(count).gcount() != count) {
            throw std::runtime_error("the trainer's state ends too early");
          }
        });
    if (!from.seekg(start)) throw std::runtime_error("the trainer's state cannot be read twice");
  };
  RunOnFirst(options_.run.processes.get(), check_sizes);
  stop_ = false;
  if (!options_.plan.drains) DiscardMessages(now);
  std::vector<char> other;
  ForEachLivePart(cycles, [&](void* data, std::size_t bytes, const std::vector<int>& holders) {
    const bool here = std::find(holders.begin(), holders.end(), rank_) != holders.end();
    if (options_.replica() == 0 && rank_ == 0) {
      read_size();
      if (!here) {
        other.resize(bytes);
        data = other.data();
      }
      from.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
      for (const int holder : holders) {
        if (holder != 0) options_.group->Send(holder, {static_cast<std::byte*>(data), bytes});
      }
    } else if (options_.replica() == 0 && here) {
      options_.group->Receive(0, {static_cast<std::byte*>(data), bytes});
    }
    if (here && options_.peers != nullptr) {
      options_.peers->Broadcast(0, {static_cast<std::byte*>(data), bytes});
    }
  });
  SetProgress(cycles);
  for (int s = span().first; s < span().end; ++s) {
    if (!HasPendingGradient(s, cycles)) {
      stages_[s].DropGradient();
      continue;
    }
    const std::int64_t k = CountDoneBy(cycles, options_.plan.completes, s) - 1;
    stages_[s].KeepGradient(k, UpdatesBeforeForward(options_.plan.program, s, k));
  }
  if (!options_.plan.drains) RepeatMessages(cycles);
  const bool is_whole = static_cast<bool>(from);
  ProcessGroup* group = options_.run.processes.get();
  return group == nullptr ? is_whole : BroadcastNumber(*group, 0, is_whole ? 1 : 0) == 1;
}

template <class Real>
void Pipeline<Real>::RepeatMessages(std::int64_t cycles) {
  for (const Crossing& crossing : out_) {
    for (auto [k, end] = UnderWay(crossing, cycles); k < end; ++k) Send(crossing, k);
  }
  for (std::size_t w = first_worker_; w < end_worker_; ++w) AwaitLinks(w, 0);
}

// The rest of the class is instantiated where it is defined, in pipeline.cpp.
template void Pipeline<float>::Save(std::ostream&, std::int64_t) const;
template void Pipeline<double>::Save(std::ostream&, std::int64_t) const;
template bool Pipeline<float>::Load(std::istream&, std::int64_t, std::int64_t);
template bool Pipeline<double>::Load(std::istream&, std::int64_t, std::int64_t);

}  // namespace batchless::training
