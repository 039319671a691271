// A queue of messages from one process to its neighbour: what of a micro-batch crosses the boundary
// between them, values with its forward and gradients with its backward, in the order of the
// micro-batches. As deep as micro-batches can be under way at a time (RingDepths), so that a sender
// never waits for the receiver, and the receiver takes what has come while it computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/hwmodel/action.h"
#include "batchless/training/process_group.h"
#include "engine/ring.h"

namespace batchless::training {

// Carries what passes of that kind, forwards or backwards, hand to a neighbour.
constexpr int LinkChannel(hwmodel::ActionKind kind) { return static_cast<int>(kind); }
// Carries a stage's gradient between replicas: from this one to the next.
constexpr int ExchangeChannel(int stage) { return 2 + 2 * stage; }

template <class Real>
class Link {
 public:
  // To the process `partner` (is_out) or from it: a message holds a micro-batch's slots of these rings.
  Link(ProcessGroup& group, int partner, int channel, bool is_out, std::vector<Ring<Real>*> rings,
       std::int64_t depth)
      : rings_(std::move(rings)) {
    std::int64_t elements = 0;
    for (const Ring<Real>* ring : rings_) elements += ring->slot_size();
    for (std::int64_t i = 0; i < depth; ++i) {
      // A message says at least that the micro-batch has passed.
      AlignedBuffer<Real>& buffer = buffers_.emplace_back(std::max<std::int64_t>(elements, 1));
      const auto memory = std::as_writable_bytes(std::span(buffer));
      messages_.push_back(is_out ? group.MakeSend(partner, channel, memory)
                                 : group.MakeReceive(partner, channel, memory));
      if (!is_out) messages_.back()->Start();
    }
  }

  // Whether the next message can be written, or has come in.
  bool IsReady() { return messages_[next_]->IsDone(); }

  // The next message, where it is ready: from the rings to the neighbour, from it to the rings, or away.
  void Send(std::int64_t microbatch) {
    Real* to = buffers_[next_].data();
    for (Ring<Real>* ring : rings_) {
      to = std::copy_n(ring->Slot(microbatch), ring->slot_size(), to);
    }
    StartNext();
  }
  void Receive(std::int64_t microbatch) {
    const Real* from = buffers_[next_].data();
    for (Ring<Real>* ring : rings_) {
      std::copy_n(from, ring->slot_size(), ring->Slot(microbatch));
      from += ring->slot_size();
    }
    StartNext();
  }
  void Discard() { StartNext(); }

  // Brings the messages that are under way forward; whether none is left.
  bool Progress() {
    bool all_done = true;
    for (const auto& message : messages_) all_done = message->IsDone() && all_done;
    return all_done;
  }

  std::int64_t bytes() const { return SumBytes(buffers_); }

 private:
  // Sends it, or waits for another one in its place.
  void StartNext() {
    messages_[next_]->Start();
    next_ = (next_ + 1) % messages_.size();
  }

  std::vector<Ring<Real>*> rings_;
  std::vector<AlignedBuffer<Real>> buffers_;
  std::vector<std::unique_ptr<RepeatedMessage>> messages_;  // ends before its memory does
  std::size_t next_ = 0;
};

}  // namespace batchless::training
