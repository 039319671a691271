// Long computations ask now and then whether their caller still wants them.
#pragma once

#include <functional>

namespace batchless::analysis {

/// While it lives, long computations of this thread call `check` several times a second; what it throws
/// ends them, and comes out of the function that was called. The last one counts.
class CancellationCheck {
 public:
  explicit CancellationCheck(std::function<void()> check);
  ~CancellationCheck();
  CancellationCheck(const CancellationCheck&) = delete;
  CancellationCheck& operator=(const CancellationCheck&) = delete;
  CancellationCheck(CancellationCheck&&) = delete;
  CancellationCheck& operator=(CancellationCheck&&) = delete;

 private:
  std::function<void()> check_;
  const std::function<void()>* before_;
};

/// Calls this thread's check, if there is one.
void CheckCancellation();

}  // namespace batchless::analysis

// Example
//   bool is_wanted = true;
//   const CancellationCheck cancellation([&] { if (!is_wanted) throw std::runtime_error("cancelled"); });
//   CHECK(DesignRule({.delay = 1, .condition = 10, .order = 2}).worst.radius < 1);
//   is_wanted = false;
//   CHECK_THROWS_AS(DesignRule({.delay = 1, .condition = 10, .order = 2}), std::runtime_error);
