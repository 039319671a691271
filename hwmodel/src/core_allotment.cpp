#include "batchless/hwmodel/core_allotment.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <string>
#include <utility>

#include "checks.h"

namespace batchless::hwmodel {
namespace {

using Workers = std::span<const std::vector<CoreWork>>;

void Check(Workers workers) {
  for (const std::vector<CoreWork>& worker : workers) {
    for (const CoreWork& part : worker) {
      CheckNotNegative("cost", part.seconds);
      CheckNotNegative("exchange_seconds", part.exchange_seconds);
      RefuseIf(!(part.most_cores >= 1), "most_cores", part.most_cores, "numbers >= 1");
    }
  }
}

// Cores that each worker needs for its minimum and for the period.
bool Allot(Workers workers, std::span<const std::int64_t> minimums, double period,
           std::int64_t cores, std::vector<std::int64_t>& allotted) {
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const double need = std::max(static_cast<double>(minimums[w]), CoresWithin(workers[w], period));
    if (need > static_cast<double>(cores)) return false;
    allotted[w] = static_cast<std::int64_t>(need);
    cores -= allotted[w];
  }
  return true;
}

// Where they are more than one.
double SecondsShared(const CoreWork& part, double sharing) {
  return std::max(part.seconds / sharing, part.exchange_seconds / std::sqrt(sharing));
}

}  // namespace

double MostCores(std::span<const CoreWork> work) {
  double most = 1;
  for (const CoreWork& part : work) {
    if (part.seconds > 0) most = std::max(most, part.most_cores);
  }
  return most;
}

double CoresUsed(const CoreWork& part, double cores) {
  const double sharing = std::min(cores, part.most_cores);
  return sharing > 1 && SecondsShared(part, sharing) >= part.seconds ? 1 : sharing;
}

double SecondsOn(std::span<const CoreWork> work, double cores) {
  double seconds = 0;
  for (const CoreWork& part : work) {
    const double used = CoresUsed(part, cores);
    seconds += used > 1 ? SecondsShared(part, used) : part.seconds / used;
  }
  return seconds;
}

double CoresWithin(std::span<const CoreWork> work, double seconds) {
  // Further cores never take longer.
  constexpr double kMost = 1e12;
  double high = std::min(kMost, std::ceil(MostCores(work)));
  if (SecondsOn(work, high) > seconds) return std::numeric_limits<double>::infinity();
  double low = 0;
  while (high - low > 1) {
    const double middle = std::floor(low + (high - low) / 2);
    (SecondsOn(work, middle) <= seconds ? high : low) = middle;
  }
  return high;
}

std::vector<std::int64_t> AllotCores(Workers workers, std::int64_t cores,
                                     std::span<const std::int64_t> minimums) {
  RefuseIf(!minimums.empty() && minimums.size() != workers.size(), "minimums", minimums.size(),
           "one for each of " + std::to_string(workers.size()) + " workers");
  std::vector<std::int64_t> least(minimums.begin(), minimums.end());
  least.resize(workers.size(), 1);
  for (const std::int64_t minimum : least) {
    RefuseIf(minimum < 1, "minimums", minimum, "integers >= 1");
  }
  Check(workers);
  const std::int64_t needed = std::accumulate(least.begin(), least.end(), std::int64_t{0});
  RefuseIf(workers.empty() || cores < needed, "cores", cores,
           "at least the " + std::to_string(needed) + " needed");

  // Bisection of the period, to the last bit.
  double high = 0;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    high = std::max(high, SecondsOn(workers[w], static_cast<double>(least[w])));
  }
  double low = 0;
  std::vector<std::int64_t> allotted = least;
  std::vector<std::int64_t> trial = least;
  for (;;) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    if (Allot(workers, least, middle, cores, trial)) {
      high = middle;
      allotted = trial;
    } else {
      low = middle;
    }
  }

  // Seconds of each worker, and how many come from it on: of equals the first one is on top.
  std::priority_queue<std::pair<double, std::size_t>> queue;
  const auto push = [&](std::size_t w) {
    queue.push({SecondsOn(workers[w], static_cast<double>(allotted[w])), workers.size() - w});
  };
  for (std::size_t w = 0; w < workers.size(); ++w) push(w);
  std::int64_t left = cores - std::accumulate(allotted.begin(), allotted.end(), std::int64_t{0});
  for (; left > 0; --left) {
    const auto [seconds, from] = queue.top();
    const std::size_t w = workers.size() - from;
    if (SecondsOn(workers[w], static_cast<double>(allotted[w] + left)) >= seconds) break;
    queue.pop();
    ++allotted[w];
    push(w);
  }
  return allotted;
}

}  // namespace batchless::hwmodel
