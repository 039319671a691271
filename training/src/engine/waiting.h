// How a worker waits: it spins, because a neighbour is rarely far behind, then it yields and naps,
// because the neighbour may need the processor. A worker that waits for too long says what for.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

#include "batchless/hwmodel/action.h"
#include "engine/program.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace batchless::training {

// Thrown in workers that wait for one that failed.
struct Stopped {};

// What a worker waits for.
struct Wait {
  hwmodel::ActionKind kind = hwmodel::ActionKind::kForward;
  std::size_t worker = 0;
  std::size_t neighbour = 0;
  std::int64_t microbatch = 0;
  bool is_full = false;      // until the neighbour has taken something
  int exchange_stage = -1;   // whose gradient other replicas have to exchange; -1: none
  int missing_replica = -1;  // the one that has not
};

// "worker 1 (stages 3 to 5) has waited ..."
std::string Describe(const Wait& wait, const Program& program, int replica, double seconds);

inline void PauseProcessor() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Returns the seconds waited until is_ready(). poll() is called again and again. Throws Stopped once
// `stop` is set, and std::runtime_error with describe(seconds) when `watchdog_seconds` are over; 0:
// never.
template <class IsReady, class Poll, class DescribeWait>
double Await(const std::atomic<bool>& stop, double watchdog_seconds, IsReady is_ready, Poll poll,
             DescribeWait describe) {
  using Clock = std::chrono::steady_clock;
  if (is_ready()) return 0;
  const Clock::time_point start = Clock::now();
  const auto waited = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  constexpr int kSpins = 2000;
  constexpr double kYieldSeconds = 0.005;
  constexpr auto kNap = std::chrono::microseconds(50);
  // A process that was stopped for an hour has not waited for an hour.
  constexpr double kLongestLook = 1;
  double looked = 0;
  double last = 0;
  for (int spins = 0; !is_ready(); ++spins) {
    poll();
    if (stop.load(std::memory_order_relaxed)) throw Stopped();
    if (spins < kSpins) {
      PauseProcessor();
      continue;
    }
    const double now = waited();
    looked += std::min(now - last, kLongestLook);
    last = now;
    if (watchdog_seconds > 0 && looked > watchdog_seconds) {
      throw std::runtime_error(describe(looked));
    }
    if (now < kYieldSeconds) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
  return waited();
}

}  // namespace batchless::training
