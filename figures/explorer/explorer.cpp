// What the pages call: the analyzer, networks and schedules, as functions of numbers.
//
// A function that returns a count leaves so many values at Values(); -1 says that the library refused
// the arguments, in the words at ErrorText(). No formula is written down here.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/analysis/frequency.h"
#include "batchless/analysis/limit.h"
#include "batchless/analysis/rates.h"
#include "batchless/analysis/roots.h"
#include "batchless/analysis/simulation.h"
#include "batchless/analysis/spectral_radius.h"
#include "batchless/analysis/stability.h"
#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"

namespace {

using namespace batchless;
using namespace batchless::analysis;

RuleSpec spec{FindRule("sgdm"), {}};
Delay delay = 0;
std::vector<double> values;
std::vector<float> map;
std::string text;
std::string error;

/// Runs `body`, which fills `values`.
template <class Body>
int Fill(const Body& body) {
  values.clear();
  try {
    body();
  } catch (const std::exception& failure) {
    error = failure.what();
    return -1;
  }
  return static_cast<int>(values.size());
}

template <class... Numbers>
void Add(Numbers... more) {
  (values.push_back(static_cast<double>(more)), ...);
}

const char* Keep(std::string_view view) {
  text = view;
  return text.c_str();
}

/// `points` numbers, evenly spaced, both ends included.
double Between(double low, double high, int index, int points) {
  return points == 1 ? low : low + (high - low) * index / (points - 1);
}

SimulationOptions Run(double momentum, double rate, int updates) {
  SimulationOptions options;
  options.rule = spec;
  options.momentum = momentum;
  options.delay = delay;
  options.learning_rate = rate;
  options.updates = static_cast<std::size_t>(updates);
  return options;
}

}  // namespace

// Emscripten exports what is marked as used.
#define EXPORTED extern "C" __attribute__((used))

EXPORTED const double* Values() { return values.data(); }
EXPORTED const float* MapValues() { return map.data(); }
EXPORTED const char* ErrorText() { return error.c_str(); }

EXPORTED int RuleCount() { return static_cast<int>(Rules().size()); }
EXPORTED const char* RuleName(int rule) { return Keep(Rules()[rule].name); }
EXPORTED const char* RuleTitle(int rule) { return Keep(Rules()[rule].title); }
EXPORTED const char* RuleEquation(int rule) { return Keep(Rules()[rule].equation); }

/// Whether the rule takes a horizon, and whether it takes coefficients a and b.
EXPORTED int RuleTakes(int rule) {
  const auto accepts = [rule](auto set) {
    RuleSpec trial{Rules()[rule], {}};
    set(trial.options);
    try {
      Validate(trial);
    } catch (const std::exception&) {
      return false;
    }
    return true;
  };
  return Fill([&] {
    Add(accepts([](RuleOptions& o) { o.horizon = 1; }),
        accepts([](RuleOptions& o) { o.sc_a = 1; }));
  });
}

/// NaN in place of a horizon or a coefficient leaves the rule's own.
EXPORTED int SetRule(int rule, int new_delay, double horizon, double a, double b) {
  return Fill([&] {
    RuleSpec next{Rules()[rule], {}};
    if (!std::isnan(horizon)) next.options.horizon = horizon;
    if (!std::isnan(a)) next.options.sc_a = a;
    if (!std::isnan(b)) next.options.sc_b = b;
    Validate(next);
    CheckDelay(new_delay);
    spec = next;
    delay = new_delay;
  });
}

/// ln |r_max| at MapValues(), (count, columns) row-major, of rows first to first + count - 1 of a map
/// of `rows` by `columns`: momenta 1 - 10^u and rates 10^v, both evenly spaced in u and v.
EXPORTED int MapRows(double u_low, double u_high, int rows, int first, int count, double v_low,
                     double v_high, int columns) {
  static std::vector<double> rates, log_radius, scratch;
  static std::vector<Track> tracks;
  return Fill([&] {
    rates.resize(columns);
    for (int j = 0; j < columns; ++j) rates[j] = std::pow(10.0, Between(v_low, v_high, j, columns));
    tracks.clear();
    for (int i = first; i < first + count; ++i) {
      const double momentum = 1 - std::pow(10.0, Between(u_low, u_high, i, rows));
      tracks.push_back(
          {MakeCharacteristic<double>(spec, momentum, delay), &spec, momentum, delay, rates});
    }
    const std::size_t size = static_cast<std::size_t>(count) * columns;
    log_radius.resize(size);
    scratch.resize(size);
    EvaluateTracksInDouble(tracks, log_radius, scratch);
    map.assign(log_radius.begin(), log_radius.end());
  });
}

/// Spectral radius, its error bound, half-life, 1 where stable; a, b, T.
EXPORTED int Point(double momentum, double rate) {
  return Fill([&] {
    const SpectralRadius r = ComputeSpectralRadius(spec, momentum, delay, rate);
    const auto c = ComputeCoefficients<double>(spec, momentum, delay);
    Add(r.radius, r.error_bound, r.half_life_updates(), r.stable(), c.a, c.b, c.horizon);
  });
}

/// Critical rate; gain margin, phase margin, delay margin, gain crossover.
EXPORTED int StabilityMargins(double momentum, double rate) {
  return Fill([&] {
    const Margins m = ComputeMargins(spec, momentum, delay, rate);
    Add(CriticalRate(spec, momentum, delay), m.gain_margin, m.phase_margin_radians,
        m.delay_margin_updates, m.gain_crossover_radians);
  });
}

/// Real and imaginary parts, by falling modulus.
EXPORTED int Roots(double momentum, double rate) {
  return Fill([&] {
    for (const auto& z : AllRoots(spec, momentum, delay, rate)) Add(z.real(), z.imag());
  });
}

EXPORTED int Trajectory(double momentum, double rate, int updates) {
  return Fill([&] {
    for (const auto& point : SimulateQuadratic(Run(momentum, rate, updates))) Add(point.weight);
  });
}

/// Weights in units of the learning rate.
EXPORTED int Impulse(double momentum, int updates) {
  return Fill([&] {
    for (const auto& point : ImpulseResponse(Run(momentum, 1, updates))) Add(point.weight);
  });
}

/// Frequency, magnitude and phase at `points` frequencies 10^v up to pi.
EXPORTED int Bode(double momentum, double rate, double v_low, int points) {
  return Fill([&] {
    const double pi = std::numbers::pi;
    std::vector<double> frequencies(points, pi);
    for (int j = 0; j + 1 < points; ++j) {
      frequencies[j] = std::pow(10.0, Between(v_low, std::log10(pi), j, points));
    }
    for (const auto& p : FrequencyResponse(spec, momentum, delay, rate, frequencies)) {
      Add(p.frequency, p.magnitude, p.phase_radians);
    }
  });
}

/// Half-life, momentum and rate of the best point; the least half-life of any linear rule.
EXPORTED int BestPoint(double condition) {
  return Fill([&] {
    OptimumOptions options;
    options.rule = spec;
    options.delay = delay;
    options.condition = condition;
    const Optimum best = FindOptimum(options);
    Add(best.half_life_updates, best.momentum, best.rate,
        LimitOfLinearRules(delay, condition).half_life_updates);
  });
}

EXPORTED int ScheduleKindCount() { return static_cast<int>(hwmodel::ScheduleKinds().size()); }
EXPORTED const char* ScheduleKindName(int kind) {
  return Keep(hwmodel::ScheduleKinds()[kind].name);
}
EXPORTED const char* ScheduleKindTitle(int kind) {
  return Keep(hwmodel::ScheduleKinds()[kind].title);
}

EXPORTED int NetworkCount() { return static_cast<int>(hwmodel::NetworkNames().size()); }
EXPORTED const char* NetworkName(int network) { return Keep(hwmodel::NetworkNames()[network]); }
EXPORTED int NetworkStages(int network) {
  return Fill([&] {
    const std::string name{hwmodel::NetworkNames()[network]};
    Add(hwmodel::MakeNetwork({.name = name}).stage_count());
  });
}

/// Workers, slots a step, steps, utilisation; then for each stage, once the pipeline
/// runs, forward delay, backward delay, micro-batches in flight, weight versions; then for each action
/// step, worker, stage, kind (0 forward, 1 backward, 2 weight gradient, 3 update), micro-batch, and the
/// version of the weights that it reads or an update makes, -1 for a weight gradient, which reads none.
EXPORTED int Schedule(int kind, int stages, int microbatches, int per_update) {
  return Fill([&] {
    hwmodel::ScheduleOptions options;
    options.stages = stages;
    options.microbatches = microbatches;
    options.microbatches_per_update = per_update;
    const auto schedule = hwmodel::MakeSchedule(hwmodel::ScheduleKinds()[kind].name, options);
    const auto summary = hwmodel::Summarize(schedule);
    // The first micro-batches meet smaller delays, so the stages are those of a longer run.
    const std::int64_t cycle = hwmodel::MicrobatchesPerUpdate(schedule);
    options.microbatches =
        std::max(options.microbatches, hwmodel::EnoughMicrobatches(stages, cycle));
    options.microbatches_per_update =
        hwmodel::ScheduleKinds()[kind].updates_each ? 0 : static_cast<int>(cycle);
    options.microbatches = (options.microbatches + cycle - 1) / cycle * cycle;
    const auto steady =
        hwmodel::Summarize(hwmodel::MakeSchedule(hwmodel::ScheduleKinds()[kind].name, options));
    Add(summary.workers, schedule.slots_per_step, summary.steps, summary.utilisation);
    for (const auto& stage : steady.stages) {
      Add(stage.forward_delay_updates, stage.backward_delay_updates, stage.activations_in_flight,
          stage.weight_versions);
    }
    for (const auto& [step, action] : schedule.actions) {
      const auto& own = summary.stages[action.stage].microbatches[action.microbatch];
      // By kind, as these are listed.
      const std::array versions = {own.forward, own.backward, std::int64_t{-1}, own.update + 1};
      const auto code = static_cast<std::size_t>(action.kind);
      Add(step, schedule.worker(action), action.stage, code, action.microbatch, versions[code]);
    }
  });
}
