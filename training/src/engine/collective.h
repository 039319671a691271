// Small things that processes do together.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "batchless/training/process_group.h"

namespace batchless::training {

// Everybody's values become those of `root`.
template <class Value>
void BroadcastVector(ProcessGroup& group, int root, std::vector<Value>& values) {
  values.resize(BroadcastNumber(group, root, static_cast<std::int64_t>(values.size())));
  group.Broadcast(root, std::as_writable_bytes(std::span(values)));
}

// Everybody's values, by process; `group` null: one's own.
template <class Value>
std::vector<Value> Gather(ProcessGroup* group, std::vector<Value> own) {
  if (group == nullptr) return own;
  std::vector<Value> all;
  for (int p = 0; p < group->size(); ++p) {
    std::vector<Value> values = own;
    BroadcastVector(*group, p, values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Runs `work` on the first process; everybody throws what it throws, as std::runtime_error.
template <class Work>
void RunOnFirst(ProcessGroup* group, Work work) {
  if (group == nullptr) return work();
  std::string failure;
  if (group->rank() == 0) {
    try {
      work();
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }
  failure = BroadcastText(*group, 0, failure);
  if (!failure.empty()) throw std::runtime_error(failure);
}

}  // namespace batchless::training
