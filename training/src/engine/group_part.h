// Some of the processes of a group, as a group of their own.
#pragma once

#include <memory>

#include "batchless/training/process_group.h"

namespace batchless::training {

class GroupPart final : public ProcessGroup {
 public:
  // `size` processes of `whole`: first, first + stride, ..., this one among them.
  GroupPart(std::shared_ptr<ProcessGroup> whole, int first, int stride, int size);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int machine_of(int rank) const override { return whole_->machine_of(InWhole(rank)); }

  std::unique_ptr<RepeatedMessage> MakeSend(int to, int channel,
                                            std::span<const std::byte> memory) override;
  std::unique_ptr<RepeatedMessage> MakeReceive(int from, int channel,
                                               std::span<std::byte> memory) override;
  void Send(int to, std::span<const std::byte> memory) override;
  void Receive(int from, std::span<std::byte> memory) override;
  void Broadcast(int root, std::span<std::byte> memory) override;
  void Abort(int exit_code) override;

 private:
  int InWhole(int rank) const { return first_ + rank * stride_; }

  std::shared_ptr<ProcessGroup> whole_;
  int first_;
  int stride_;
  int size_;
  int rank_;
};

// The R P processes of R replicas of a pipeline over P: replica r has the processes r P .. (r + 1) P - 1.
struct ReplicaGroups {
  std::shared_ptr<ProcessGroup> pipeline;  // those of this process's replica; null: it is alone
  std::shared_ptr<ProcessGroup> peers;     // those with the same stages; null: one replica
};

// `all` is null for a process that is alone; else `replicas` divides its size.
ReplicaGroups MakeReplicaGroups(const std::shared_ptr<ProcessGroup>& all, int replicas);

}  // namespace batchless::training
