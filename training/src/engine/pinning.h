// A thread on one processor for as long as this lives: the n-th of those that the process may use,
// round and round. Where the system has no such thing, or refuses, nothing happens.
#pragma once

#include <cstddef>
#include <memory>

namespace batchless::training {

class PinnedThread {
 public:
  explicit PinnedThread(std::size_t number);
  ~PinnedThread();
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

}  // namespace batchless::training
