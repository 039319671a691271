// The sum of a stage's gradient over the replicas of a pipeline, of which each has summed its share of
// the mini-batch (gradient_sum.h): an all-reduce whose order of additions does not depend on the
// replicas.
//
//   R replicas, n numbers, c sums in each share (c = 1 where P / R is a power of two)
//
//   R = 2 or a small stage   everybody sends its sums to everybody, who adds them up
//   else                     replica r gets range r of everybody's sums, adds them up and sends the
//                            result to everybody: a reduce-scatter, then an all-gather
//
// Each replica sends c n numbers in one round, or (R-1) (c + 1) n / R in two: 2 n / R where
// c = 1, the least there is.
//
// Nothing waits in here: Progress is asked again and again, by the one thread that has the stage.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/training/backend.h"
#include "batchless/training/process_group.h"
#include "engine/gradient_sum.h"

namespace batchless::training {

// What one replica's exchange of a stage receives beside its own sums, elements; `slot_size` of each
// sum, a multiple of 16.
std::int64_t ExchangeBufferSize(std::int64_t parts, int replicas, int replica,
                                std::int64_t slot_size);

template <class Real>
class GradientExchange {
 public:
  // `sums`: this replica's, in order, `slot_size` elements each. The channels `channel` and
  // `channel` + 1 between these processes are the exchange's own.
  GradientExchange(ProcessGroup& replicas, std::shared_ptr<const Backend<Real>> backend,
                   std::int64_t parts, int channel, Real* sums, std::int64_t slot_size);

  // The sums are there, and the exchange's until it is done.
  void Start();
  // Brings it forward; whether it is done, or there was none. The gradient is the first sum then.
  bool Progress();
  // While there is one: a replica that has not sent its sums, or range of the result, or not taken
  // this one's; itself where nothing is missing.
  int Missing();
  std::int64_t bytes() const { return SumBytes(received_); }

 private:
  enum class Phase : unsigned char { kIdle, kExchange, kGather };

  // To another replica, or from it.
  struct Message {
    int replica = 0;
    std::unique_ptr<RepeatedMessage> message;
  };
  using Messages = std::vector<Message>;

  // One range is added to another.
  struct Addition {
    Real* to = nullptr;
    const Real* from = nullptr;
  };

  // From the sums of all replicas, each `range_size` after the one before, to the one that is left.
  void PlanAdditions(std::int64_t range_size);
  static void Start(const Messages& messages);
  static bool AreDone(const Messages& messages);

  std::shared_ptr<const Backend<Real>> backend_;
  int replica_;
  std::vector<GradientParts> parts_;  // by replica
  std::int64_t slot_size_;
  std::span<Real> own_;                        // range of the first sum
  std::vector<AlignedBuffer<Real>> received_;  // the others' sums of this one's range, by replica
  Messages received_sums_;
  Messages sent_sums_;
  Messages results_;  // received and sent; none in one round
  std::vector<Addition> additions_;
  const Real* result_ = nullptr;
  Phase phase_ = Phase::kIdle;
};

}  // namespace batchless::training
