#include "engine/group_part.h"

#include <cstdlib>
#include <utility>

namespace batchless::training {

GroupPart::GroupPart(std::shared_ptr<ProcessGroup> whole, int first, int stride, int size)
    : whole_(std::move(whole)),
      first_(first),
      stride_(stride),
      size_(size),
      rank_((whole_->rank() - first) / stride) {}

std::unique_ptr<RepeatedMessage> GroupPart::MakeSend(int to, int channel,
                                                     std::span<const std::byte> memory) {
  return whole_->MakeSend(InWhole(to), channel, memory);
}

std::unique_ptr<RepeatedMessage> GroupPart::MakeReceive(int from, int channel,
                                                        std::span<std::byte> memory) {
  return whole_->MakeReceive(InWhole(from), channel, memory);
}

void GroupPart::Send(int to, std::span<const std::byte> memory) {
  whole_->Send(InWhole(to), memory);
}

void GroupPart::Receive(int from, std::span<std::byte> memory) {
  whole_->Receive(InWhole(from), memory);
}

void GroupPart::Broadcast(int root, std::span<std::byte> memory) {
  if (rank_ != root) return Receive(root, memory);
  for (int to = 0; to < size_; ++to) {
    if (to != root) Send(to, memory);
  }
}

void GroupPart::Abort(int exit_code) {
  whole_->Abort(exit_code);
  std::abort();  // compilers do not see that calls of virtual functions never return
}

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
