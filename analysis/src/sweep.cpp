#include "batchless/analysis/sweep.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <sstream>
#include <thread>

#include "batchless/analysis/argument.h"
#include "linear_solver.h"
#include "track_group.h"

namespace batchless::analysis {
namespace {

// Rows that a thread takes at a time: one group of the widest walk.
constexpr std::size_t kBlock = TrackGroup::kMaxLanes;

std::size_t ThreadCount(int asked, std::size_t blocks) {
  const std::size_t machine = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t wanted = asked > 0 ? static_cast<std::size_t>(asked) : machine;
  return std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(1, blocks));
}

/// The one row of the rule `linear`; each point starts from its neighbour's root.
void RunLinearRow(const SweepOptions& options, std::span<Precision> precision,
                  SweepSummary& summary) {
  RootGuess guess;
  for (std::size_t j = 0; j < options.rates.size(); ++j) {
    const SpectralRadius value =
        SolveLinearPoint(options.rule, options.delay, options.rates[j], &guess);
    summary.log_radius[j] = value.log_radius;
    summary.spectral_radius[j] = value.radius;
    summary.error_bound[j] = value.error_bound;
    precision[j] = value.precision;
  }
}

/// `scratch_error` and `precision` have the size of the rows.
void RunBlock(const SweepOptions& options, std::size_t first, std::size_t rows,
              std::span<double> scratch_error, std::span<Precision> precision,
              SweepSummary& summary) {
  if (options.rule.is_linear()) {
    RunLinearRow(options, precision, summary);
    return;
  }
  std::vector<Track> tracks(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const double momentum = options.momenta[first + i];
    tracks[i] = {MakeCharacteristic<double>(options.rule, momentum, options.delay), &options.rule,
                 momentum, options.delay, options.rates};
  }
  const std::size_t at = first * options.rates.size(), size = precision.size();
  EvaluateTracks(tracks,
                 {std::span(summary.log_radius).subspan(at, size), scratch_error,
                  std::span(summary.spectral_radius).subspan(at, size),
                  std::span(summary.error_bound).subspan(at, size), precision},
                 options.simd);
}

}  // namespace

void Validate(const SweepOptions& options) {
  const bool is_linear = options.rule.is_linear();
  Validate(options.rule);
  CheckDelay(options.delay);
  RefuseIf(options.momenta.empty(), "momenta", "none", "at least one momentum");
  RefuseIf(options.rates.empty(), "rates", "none", "at least one rate");
  RefuseIf(is_linear && options.momenta.size() > 1, "momenta",
           std::to_string(options.momenta.size()) + " momenta",
           "one row with rule linear, which has no momentum");
  for (const double m : options.momenta) {
    if (!is_linear) CheckMomentum(m);
  }
  for (const double x : options.rates) CheckRate(x);
  RefuseIf(options.threads < 0, "threads", options.threads, "an integer >= 0");
  RefuseIf(!IsAvailable(options.simd), "simd", Name(options.simd),
           "an instruction set that this machine has");
}

double SweepBytes(std::size_t momenta, std::size_t rates) {
  return 3.0 * sizeof(double) * static_cast<double>(momenta) * static_cast<double>(rates);
}

SweepSummary RunSweep(const SweepOptions& options) {
  Validate(options);

  const auto start = std::chrono::steady_clock::now();
  const std::size_t rows = options.momenta.size(), points = options.rates.size();
  const std::size_t blocks = (rows + kBlock - 1) / kBlock;
  SweepSummary summary;
  summary.log_radius.resize(rows * points);
  summary.spectral_radius.resize(rows * points);
  summary.error_bound.resize(rows * points);
  summary.simd = WalkerOf(options.simd).simd;

  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<std::size_t> next_block = 0;
  std::atomic<bool> stop = false;
  std::exception_ptr failure;
  std::size_t running = ThreadCount(options.threads, blocks);
  summary.threads = static_cast<int>(running);

  const auto work = [&] {
    try {
      std::vector<double> error;
      std::vector<Precision> precision;
      for (std::size_t block; !stop && (block = next_block++) < blocks;) {
        const std::size_t first = block * kBlock;
        const std::size_t count = std::min(kBlock, rows - first);
        error.resize(count * points);
        precision.resize(count * points);
        RunBlock(options, first, count, error, precision, summary);
        const auto solved_in = [&](Precision p) {
          return std::count(precision.begin(), precision.end(), p);
        };
        const std::lock_guard lock(mutex);
        summary.rows_done += count;
        summary.refined_long_double += solved_in(Precision::kLongDouble);
        summary.refined_fifty_digits += solved_in(Precision::kFiftyDigits);
        changed.notify_one();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      stop = true;
    }
    const std::lock_guard lock(mutex);
    --running;
    changed.notify_one();
  };

  std::vector<std::jthread> threads(running);
  for (std::jthread& thread : threads) thread = std::jthread(work);
  {
    std::unique_lock lock(mutex);
    std::size_t told = 0;
    const auto tell = [&] {
      if (!options.progress || stop) return;
      told = summary.rows_done;
      lock.unlock();
      if (!options.progress(told, rows)) stop = true;
      lock.lock();
    };
    while (running > 0) {
      changed.wait_for(lock, std::chrono::milliseconds(100));
      tell();
    }
    // The last rows may have been finished before the first wait or during the last call.
    if (told != summary.rows_done) tell();
  }
  threads.clear();
  if (failure) std::rethrow_exception(failure);

  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  summary.pixels_per_second = static_cast<double>(summary.rows_done * points) / summary.seconds;
  return summary;
}

std::string SweepSummary::BriefReport() const {
  std::ostringstream text;
  text << log_radius.size() << " points in " << seconds << " s (" << pixels_per_second
       << " pixels per second, " << threads << " threads, " << Name(simd) << "), "
       << refined_long_double << " finished in long double, " << refined_fifty_digits
       << " in 50 digits";
  return text.str();
}

}  // namespace batchless::analysis
