// What is made at its first use, where several threads come to it at once.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "../../analysis/src/scalar_lanes.h"
#include "catch.h"

namespace batchless::analysis {
namespace {

// Whether two threads, the second of them later by some turns of a loop, both find ln 3.
bool FindIt(int lag) {
  const FiftyDigits expected("1.09861228866810969139524523692252570464749055782274945");
  std::atomic<int> waiting = 2;
  std::array<FiftyDigits, 2> found;
  const auto find = [&](int thread) {
    FiftyDigits& x = found.at(thread);
    x = 3;
    --waiting;
    while (waiting > 0) {
    }
    for (std::atomic<int> turn = thread * lag; turn > 0; --turn) {
    }
    x = log(x);
  };
  std::thread second(find, 1);
  find(0);
  second.join();
  return abs(found[0] - expected) < 1e-45 && abs(found[1] - expected) < 1e-45;
}

// Without what scalar_lanes.h does, one process of some hundreds ends with a wrong logarithm, or not for minutes.
TEST_CASE("Logarithms of 50 digits are right where two threads begin with them") {
  constexpr int kProcesses = 1500;
  constexpr unsigned kSeconds = 20;  // of milliseconds that one takes
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(kSeconds);
      _exit(FindIt(i % 200) ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    INFO("process " << i);
    REQUIRE(status == 0);
  }
}

}  // namespace
}  // namespace batchless::analysis
