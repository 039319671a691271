// Small things that processes do together.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>

#include "batchless/training/process_group.h"

namespace batchless::training {

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
  auto size = static_cast<std::uint64_t>(failure.size());
  group->Broadcast(0, std::as_writable_bytes(std::span(&size, 1)));
  failure.resize(size);
  group->Broadcast(0, std::as_writable_bytes(std::span(failure)));
  if (size > 0) throw std::runtime_error(failure);
}

}  // namespace batchless::training
