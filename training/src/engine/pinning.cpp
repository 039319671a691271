#include "engine/pinning.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace batchless::training {

std::shared_ptr<const void> PinThread([[maybe_unused]] std::size_t number) {
#if defined(__linux__)
  cpu_set_t before;
  if (pthread_getaffinity_np(pthread_self(), sizeof before, &before) != 0) return nullptr;
  auto left = number % static_cast<std::size_t>(CPU_COUNT(&before));
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before) || left-- > 0) ++cpu;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) != 0) return nullptr;
  return {nullptr, [before](const void*) {
            pthread_setaffinity_np(pthread_self(), sizeof before, &before);
          }};
#else
  return nullptr;
#endif
}

}  // namespace batchless::training
