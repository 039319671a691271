#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <tuple>
#include <vector>

#include "argument.h"
#include "command_host.h"

namespace batchless {

// Calls row(i) for every i below `rows`, on `threads` threads (0: as many as the machine has), and
// shows the progress on a terminal. Rows start in order and write their own results, so the outcome
// does not depend on the threads. Throws what the first failing row threw; later rows may not have
// run then. A `monitor` sees the progress, and its owner's wish to stop is Interrupted here.
void ParallelRows(std::size_t rows, int threads, const std::function<void(std::size_t)>& row,
                  WorkMonitor* monitor);

// As many threads as the option says; 0 where it is not given. Throws UsageError.
int ThreadsOf(const Argument& threads);

// Most rows of one table.
inline constexpr double kMaxRows = 1e6;

// Throws UsageError where a table of that many rows is too large; `names` are the options whose
// lists multiply to it.
void CheckRows(std::initializer_list<std::size_t> factors, const char* names);

// Every combination of a value from each list, the last list's going fastest; they refer to the lists.
// Throws as CheckRows does.
template <class... Values>
std::vector<std::tuple<const Values&...>> Combinations(const char* names,
                                                       const std::vector<Values>&... lists) {
  CheckRows({lists.size()...}, names);
  const std::size_t count = (lists.size() * ...);
  std::vector<std::tuple<const Values&...>> combinations;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t stride = count;
    const auto next = [&](const auto& list) -> const auto& {
      stride /= list.size();
      return list[i / stride % list.size()];
    };
    // Braces take the lists in their order.
    const std::tuple<const Values&...> combination{next(lists)...};
    combinations.push_back(combination);
  }
  return combinations;
}

}  // namespace batchless
