// A queue of messages from one process to its neighbour: the boundary tensors of micro-batches, in
// order. As deep as micro-batches can be under way at a time (RingDepths), so that a sender never
// waits for the receiver, and the receiver takes what has come while it computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/training/process_group.h"

namespace batchless::training {

enum class LinkChannel : unsigned char { kForward, kBackward };

// Of a stage's gradient, between replicas: this one and the next.
constexpr int ExchangeChannel(int stage) { return 2 + 2 * stage; }

template <class Real>
class Link {
 public:
  // From or to the process `partner`, messages of `elements`.
  static std::unique_ptr<Link> Outgoing(ProcessGroup& group, int partner, LinkChannel channel,
                                        std::int64_t elements, std::int64_t depth) {
    auto link = std::unique_ptr<Link>(new Link(elements, depth));
    for (AlignedBuffer<Real>& buffer : link->buffers_) {
      link->messages_.push_back(group.MakeSend(partner, static_cast<int>(channel), Bytes(buffer)));
    }
    return link;
  }
  static std::unique_ptr<Link> Incoming(ProcessGroup& group, int partner, LinkChannel channel,
                                        std::int64_t elements, std::int64_t depth) {
    auto link = std::unique_ptr<Link>(new Link(elements, depth));
    for (AlignedBuffer<Real>& buffer : link->buffers_) {
      link->messages_.push_back(
          group.MakeReceive(partner, static_cast<int>(channel), Bytes(buffer)));
      link->messages_.back()->Start();
    }
    return link;
  }

  // Whether the next message can be written, or has come in.
  bool IsReady() { return messages_[next_]->IsDone(); }
  // Its memory; where it is ready.
  Real* data() { return buffers_[next_].data(); }
  // Sends it, or is done with it and waits for another one in its place.
  void Pass() {
    messages_[next_]->Start();
    next_ = (next_ + 1) % messages_.size();
  }
  // Brings the messages that are under way forward; whether none is left.
  bool Progress() {
    bool all_done = true;
    for (const auto& message : messages_) all_done = message->IsDone() && all_done;
    return all_done;
  }

  std::int64_t bytes() const {
    std::int64_t bytes = 0;
    for (const AlignedBuffer<Real>& buffer : buffers_) bytes += buffer.bytes();
    return bytes;
  }

 private:
  Link(std::int64_t elements, std::int64_t depth) {
    // A message says at least that the micro-batch has passed.
    for (std::int64_t i = 0; i < depth; ++i) {
      buffers_.emplace_back(std::max<std::int64_t>(elements, 1));
    }
  }

  static std::span<std::byte> Bytes(AlignedBuffer<Real>& buffer) {
    return std::as_writable_bytes(
        std::span<Real>(buffer.data(), static_cast<std::size_t>(buffer.size())));
  }

  std::vector<AlignedBuffer<Real>> buffers_;
  std::vector<std::unique_ptr<RepeatedMessage>> messages_;  // ends before its memory does
  std::size_t next_ = 0;
};

}  // namespace batchless::training
