// Some of the processes of a group, as groups of their own.
#pragma once

#include <memory>

#include "batchless/training/process_group.h"

namespace batchless::training {

// The R P processes of R replicas of a pipeline over P: replica r has the processes r P .. (r + 1) P - 1.
struct ReplicaGroups {
  std::shared_ptr<ProcessGroup> pipeline;  // those of this process's replica; null: it is alone
  std::shared_ptr<ProcessGroup> peers;     // those with the same stages; null: one replica
};

// `all` is null for a process that is alone; else `replicas` divides its size.
ReplicaGroups MakeReplicaGroups(const std::shared_ptr<ProcessGroup>& all, int replicas);

}  // namespace batchless::training
