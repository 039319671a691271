#include <array>
#include <complex>
#include <functional>
#include <string_view>
#include <vector>

#include "batchless/analysis/roots.h"
#include "batchless/analysis/spectral_radius.h"
#include "commands/commands.h"
#include "rule_arguments.h"
#include "values.h"

namespace batchless {
namespace {

using analysis::SpectralRadius;

std::string_view Name(analysis::Precision precision) {
  // In the order of the enumeration.
  constexpr std::array<std::string_view, 3> kNames = {"double", "long double", "fifty digits"};
  return kNames.at(static_cast<std::size_t>(precision));
}

class StabilityCommand final : public Command {
 public:
  explicit StabilityCommand(CLI::App& root)
      : Command(
            root, "stability", "Certified spectral radius of a rule at one point",
            "The rate is eta * lambda, the learning rate times an eigenvalue of the Hessian. The\n"
            "half-life is the number of updates after which an error is halved.\n" +
                ListHelp() + DelaysHelp() +
                "log_rate is the logarithm of the growth per update that a long run shows.\n",
            {"stability --rule sgdm --delay 4 --momentum 0.9 --rate 0.001",
             "stability --rule lwp-w+sc --delay 4 --momentum 0.98 --rate 0.01 --json",
             "stability --rule sc --delay 4 --sc-delay 8 --momentum 0.9 --rate 0.01 --roots",
             "stability --rule sc --delays uniform:0:8 --momentum 0.9 --rate 0.02"}) {}

  void Run() override {
    const RulePoint point = point_.Single(kDelayRange, &delays_);
    const double rate = rate_.Number(kRateRange);
    point.varying ? RunVarying(point, rate) : RunConstant(point, rate);
  }

 private:
  void RunConstant(const RulePoint& point, double rate) const {
    RefuseIf(roots_.given() && point.delay > analysis::kMaxRootsDelay, "--roots",
             fmt::format("--delay {}", point.delay),
             fmt::format("delays up to {}", analysis::kMaxRootsDelay));
    const SpectralRadius radius =
        analysis::ComputeSpectralRadius(point.rule, point.momentum, point.delay, rate);
    std::vector<std::complex<double>> roots;
    if (roots_.given()) {
      roots = analysis::AllRoots(point.rule, point.momentum, point.delay, rate);
    }
    if (json()) {
      Json object = Describe(point);
      object["rate"] = rate;
      object["spectral_radius"] = radius.radius;
      object["error_bound"] = radius.error_bound;
      object["log_spectral_radius"] = radius.log_radius;
      object["log_error_bound"] = radius.log_radius_error;
      object["half_life_updates"] = radius.half_life_updates();
      object["stable"] = radius.stable();
      object["precision"] = Name(radius.precision);
      if (roots_.given()) object["roots"] = RootsAsJson(roots);
      json().Put(object);
      return;
    }
    PrintText("{}, rate {}: {}\n", PointText(point), rate,
              radius.stable() ? "stable" : "not stable");
    PrintText("  spectral radius  {} +- {:.2g}\n", radius.radius, radius.error_bound);
    PrintText("  its logarithm    {} +- {:.2g}\n", radius.log_radius, radius.log_radius_error);
    if (radius.stable()) PrintText("  half-life        {} updates\n", radius.half_life_updates());
    PrintText("  arithmetic       {}\n", Name(radius.precision));
    if (roots_.given()) PrintText("  roots (real part, imaginary part, modulus)\n");
    for (const std::complex<double>& root : roots) {
      PrintText("    {:>24} {:>24} {:>24}\n", root.real(), root.imag(), std::abs(root));
    }
  }

  void RunVarying(const RulePoint& point, double rate) const {
    const analysis::VaryingDelay varying = point.AtVaryingDelays();
    if (roots_.given()) throw UsageError("--roots", "the flag", "nothing together with --delays");
    double radius = 0, mean = 0, half_life = 0;
    bool stable = false, mean_stable = false;
    analysis::LogRate log_rate;
    if (const auto constant = analysis::ConstantDelayRadius(varying, rate)) {
      radius = mean = constant->radius;
      stable = mean_stable = constant->stable();
      half_life = constant->half_life_updates();
      log_rate.rate = constant->log_radius;
    } else {
      const std::array<std::function<void()>, 3> parts = {
          [&] { radius = analysis::MeanSquareRadius(varying, rate); },
          [&] { mean = analysis::MeanRadius(varying, rate); },
          [&] { log_rate = analysis::SimulateLogRate(varying, rate); }};
      ParallelRows(
          parts.size(), 0, [&](std::size_t i) { parts[i](); }, monitor());
      stable = radius < 1;
      mean_stable = mean < 1;
      half_life = analysis::HalfLife(radius);
    }
    if (json()) {
      Json object = Describe(point);
      object["rate"] = rate;
      object["spectral_radius"] = radius;
      object["half_life_updates"] = half_life;
      object["stable"] = stable;
      object["mean_spectral_radius"] = mean;
      object["mean_stable"] = mean_stable;
      object["log_rate"] = log_rate.rate;
      object["log_rate_standard_error"] = log_rate.standard_error;
      json().Put(object);
      return;
    }
    PrintText("{}, rate {}: {} in the mean square\n", PointText(point), rate,
              stable ? "stable" : "not stable");
    PrintText("  mean-square radius  {}\n", radius);
    if (stable) {
      PrintText("  half-life           {} updates\n", half_life);
    }
    PrintText("  radius of the mean  {}\n", mean);
    if (log_rate.standard_error > 0) {
      PrintText("  log rate of a run   {:.4g} +- {:.1g}\n", log_rate.rate, log_rate.standard_error);
    } else {
      PrintText("  log rate of a run   {}\n", log_rate.rate);
    }
  }

  RulePointArguments point_{app(), RuleArguments::Form::kSingle};
  Argument rate_{app(), "--rate", "X", "Normalised rate eta * lambda, required"};
  DelaysArguments delays_{app()};
  Flag roots_{app(), "--roots", "All roots of the characteristic polynomial as well"};
};

}  // namespace

const CommandMaker kStabilityCommand = MakeCommand<StabilityCommand>;

}  // namespace batchless
