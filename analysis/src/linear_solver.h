// Spectral radius, critical rate, gain crossovers and best rate of a rule that is given by its
// coefficients. Every spec here is of the rule `linear` and valid.
#pragma once

#include <vector>

#include "batchless/analysis/spectral_radius.h"
#include "point_solver.h"

namespace batchless::analysis {

/// Whether 50 digits follow where long double gives bounds, though wider ones than promised.
enum class Climb { kAlways, kWhereNeeded };

/// rho at one rate; long double and 50 digits until the tolerances of spectral_radius.h are met.
/// Along a row each point starts from its neighbour's root where `guess` is kept.
SpectralRadius SolveLinearPoint(const RuleSpec& spec, Delay delay, double rate,
                                RootGuess* guess = nullptr, Climb climb = Climb::kAlways);

/// Half the width, relative, of the bounds of ln rho over a spectrum. Arcs that tell a peak inside it
/// from its neighbours number as the root of this.
inline constexpr double kSpectrumTolerance = 1e-6;

/// The largest rho over all rates of [low, high]. The bounds enclose it and leave out no rate, because
/// the count of roots holds for the whole interval.
SpectralRadius SolveLinearSpectrum(const RuleSpec& spec, Delay delay, double low, double high);

OutsideCount CountLinearOutsideUnitCircle(const RuleSpec& spec, Delay delay, double rate);

/// sup { x : every rate in (0, x) is stable }, proven for whole intervals of rates down to the least
/// that long double arithmetic tells from 0; 0 where a pole is outside the unit circle.
double LinearCriticalRate(const RuleSpec& spec, Delay delay);

/// As GainCrossovers of point_solver.h, as many as there are.
std::vector<GainCrossover> LinearGainCrossovers(const RuleSpec& spec, Delay delay, double rate);

/// A spectrum of ln K in steps of a row of rates, each at most `most`: `window` of them; none where it is
/// so narrow that steps as long as it were too many.
struct SpectrumSteps {
  std::size_t window;
  double step;
};
SpectrumSteps StepsOfSpectrum(double condition, double most);

/// The rate eta * lambda_max for which the worst rho over [rate / condition, rate] is least; 0 where
/// none is stable.
double BestLinearRate(const RuleSpec& spec, Delay delay, double condition,
                      std::size_t* evaluations);

}  // namespace batchless::analysis
