#include "parallel_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "batchless/analysis/cancellation.h"
#include "progress_bar.h"
#include "usage_error.h"

namespace batchless {

void ParallelRows(std::size_t rows, int threads, const std::function<void(std::size_t)>& row,
                  WorkMonitor* monitor) {
  const std::size_t machine = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t count =
      std::min(threads > 0 ? static_cast<std::size_t>(threads) : machine, rows);
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> done = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  std::size_t first_failed = rows;
  std::exception_ptr failure;
  ProgressBar bar("rows", rows, monitor);

  const auto work = [&] {
    const analysis::CancellationCheck cancellation([&] { CheckStopped(monitor); });
    while (!failed) {
      const std::size_t i = next++;
      if (i >= rows) return;
      try {
        row(i);
      } catch (...) {
        failed = true;
        const std::lock_guard lock(mutex);
        // Rows start in order, so every row before this one runs to its end: the least failing
        // index is the same whatever the threads.
        if (i < first_failed) {
          first_failed = i;
          failure = std::current_exception();
        }
      }
      if (!bar.Update(++done)) return;
    }
  };
  {
    std::vector<std::jthread> workers;
    for (std::size_t k = 1; k < count; ++k) workers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  CheckStopped(monitor);
}

int ThreadsOf(const Argument& threads) { return static_cast<int>(threads.IntegerOr(0, {0, 1024})); }

void CheckRows(std::initializer_list<std::size_t> factors, const char* names) {
  double rows = 1;
  for (const std::size_t factor : factors) rows *= static_cast<double>(factor);
  RefuseIf(rows > kMaxRows, names, fmt::format("lists that multiply to {} rows", rows),
           fmt::format("at most {:.0f} rows", kMaxRows));
}

}  // namespace batchless
