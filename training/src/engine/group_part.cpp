#include "engine/group_part.h"

#include <cstdlib>
#include <utility>

namespace batchless::training {
namespace {

class GroupPart final : public ProcessGroup {
 public:
  // `size` processes of `whole`: first, first + stride, ..., this one among them.
  GroupPart(std::shared_ptr<ProcessGroup> whole, int first, int stride, int size)
      : whole_(std::move(whole)),
        first_(first),
        stride_(stride),
        size_(size),
        rank_((whole_->rank() - first) / stride) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int machine_of(int rank) const override { return whole_->machine_of(InWhole(rank)); }

  std::unique_ptr<RepeatedMessage> MakeSend(int to, int channel,
                                            std::span<const std::byte> memory) override {
    return whole_->MakeSend(InWhole(to), channel, memory);
  }
  std::unique_ptr<RepeatedMessage> MakeReceive(int from, int channel,
                                               std::span<std::byte> memory) override {
    return whole_->MakeReceive(InWhole(from), channel, memory);
  }
  void Send(int to, std::span<const std::byte> memory) override {
    whole_->Send(InWhole(to), memory);
  }
  void Receive(int from, std::span<std::byte> memory) override {
    whole_->Receive(InWhole(from), memory);
  }
  void Broadcast(int root, std::span<std::byte> memory) override {
    if (rank_ != root) return Receive(root, memory);
    for (int to = 0; to < size_; ++to) {
      if (to != root) Send(to, memory);
    }
  }
  void Abort(int exit_code) override {
    whole_->Abort(exit_code);
    std::abort();  // compilers do not see that calls of virtual functions never return
  }

 private:
  int InWhole(int rank) const { return first_ + rank * stride_; }

  std::shared_ptr<ProcessGroup> whole_;
  int first_;
  int stride_;
  int size_;
  int rank_;
};

}  // namespace

ReplicaGroups MakeReplicaGroups(const std::shared_ptr<ProcessGroup>& all, int replicas) {
  if (all == nullptr || replicas == 1) return {all, nullptr};
  const int processes = all->size() / replicas;
  const int replica = all->rank() / processes;
  const int place = all->rank() % processes;
  ReplicaGroups groups;
  if (processes > 1) {
    groups.pipeline = std::make_shared<GroupPart>(all, replica * processes, 1, processes);
  }
  groups.peers = std::make_shared<GroupPart>(all, place, processes, replicas);
  return groups;
}

}  // namespace batchless::training
