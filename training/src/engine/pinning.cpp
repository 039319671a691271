#include "engine/pinning.h"

#include <utility>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace batchless::training {

#if defined(__linux__)

struct PinnedThread::Before {
  cpu_set_t processors;
};

PinnedThread::PinnedThread(std::size_t number) {
  auto before = std::make_unique<Before>();
  if (pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), &before->processors) != 0) return;
  auto left = number % static_cast<std::size_t>(CPU_COUNT(&before->processors));
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before->processors) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0) before_ = std::move(before);
    return;
  }
}

PinnedThread::~PinnedThread() {
  if (before_) pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), &before_->processors);
}

#else

struct PinnedThread::Before {};
PinnedThread::PinnedThread(std::size_t /*number*/) {}
PinnedThread::~PinnedThread() = default;

#endif

}  // namespace batchless::training
