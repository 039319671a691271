#include "batchless/analysis/pipeline_stability.h"

#include <Eigen/Core>
#include <Eigen/QR>
#include <algorithm>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <boost/random/uniform_int_distribution.hpp>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "commands/commands.h"
#include "npz.h"
#include "rule_arguments.h"
#include "schedule_source.h"

namespace batchless {
namespace {

using analysis::Delay;
using analysis::PipelineOptions;

constexpr auto kMaxWeights = static_cast<std::int64_t>(analysis::kMaxPipelineWeights);

// The Hessian has to be symmetric up to the rounding of whatever computed it.
constexpr double kSymmetryTolerance = 1e-9;

// A pipeline's best half-life, and what it would be with the same delay for all stages.
struct BestOfPipeline {
  analysis::PipelineOptimum own;
  double mean_delay = 0;
  Delay largest_delay = 0;
  double mean_half_life_updates = 0;
  double largest_half_life_updates = 0;
};

BestOfPipeline FindBest(const PipelineOptions& options) {
  BestOfPipeline best;
  best.own = analysis::FindPipelineOptimum(options);
  double sum = 0;
  for (std::size_t s = 0; s < options.delays.size(); ++s) {
    sum += static_cast<double>(options.widths[s]) * static_cast<double>(options.delays[s]);
    best.largest_delay = std::max(best.largest_delay, options.delays[s]);
  }
  best.mean_delay = sum / static_cast<double>(options.hessian.rows());
  const auto uniform = [&](Delay delay) {
    PipelineOptions same = options;
    same.delays.assign(options.delays.size(), delay);
    same.horizons.assign(options.horizons.size(), static_cast<double>(delay));
    return analysis::FindPipelineOptimum(same).half_life_updates;
  };
  best.mean_half_life_updates = uniform(std::llround(best.mean_delay));
  best.largest_half_life_updates = uniform(best.largest_delay);
  return best;
}

// The Hessian Q diag(eigenvalues) Q' for an orthogonal Q drawn uniformly (Haar measure): the
// orthogonal factor of a matrix of standard normal numbers, signs made unique. The same seed gives
// the same Q on every machine up to rounding. A coupling c below 1 takes the factor of
// (1 - c) P + c G / sqrt(n) instead, G the normal numbers and P a random permutation: at 0 the Hessian
// is diagonal, its eigenvalues in random order.
Eigen::MatrixXd RotatedHessian(std::span<const double> eigenvalues, double coupling,
                               std::uint32_t seed) {
  const auto n = static_cast<Eigen::Index>(eigenvalues.size());
  // Not the standard library's distribution: how that uses its random bits is left open.
  boost::random::mt19937_64 generator(seed);
  boost::random::normal_distribution<double> normal;
  Eigen::MatrixXd gaussian(n, n);
  for (Eigen::Index column = 0; column < n; ++column) {
    for (Eigen::Index row = 0; row < n; ++row) gaussian(row, column) = normal(generator);
  }
  if (coupling < 1) {
    Eigen::VectorXi order = Eigen::VectorXi::LinSpaced(n, 0, static_cast<int>(n) - 1);
    for (Eigen::Index k = n; k-- > 1;) {
      std::swap(order[k],
                order[boost::random::uniform_int_distribution<Eigen::Index>(0, k)(generator)]);
    }
    gaussian *= coupling / std::sqrt(static_cast<double>(n));
    for (Eigen::Index k = 0; k < n; ++k) gaussian(order[k], k) += 1 - coupling;
  }
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(gaussian);
  Eigen::MatrixXd rotation = qr.householderQ();
  for (Eigen::Index column = 0; column < n; ++column) {
    if (qr.matrixQR()(column, column) < 0) rotation.col(column) *= -1;
  }
  const Eigen::Map<const Eigen::VectorXd> diagonal(eigenvalues.data(), n);
  const Eigen::MatrixXd hessian = rotation * diagonal.asDiagonal() * rotation.transpose();
  return 0.5 * (hessian + hessian.transpose());
}

class PipelineStabilityCommand final : public Command {
 public:
  explicit PipelineStabilityCommand(CLI::App& root)
      : Command(
            root, "pipeline-stability",
            "Spectral radius of a quadratic whose blocks have the delays of a pipeline",
            R"(The Hessian is --hessian (an .npz file with the symmetric array `hessian`, n by n),
--spectrum (n eigenvalues) or --condition (eigenvalues from 1/K to 1, evenly in their
logarithms), the last two under a random rotation with --seed: --coupling 1 is any
rotation, 0 none, so that no weight meets another. The n weights are dealt to the
stages in order, evenly unless --widths says otherwise. Delays are read off the
schedule's actions unless --delays gives one per stage. Either --momentum and --rate
(times the largest eigenvalue, as everywhere) or --learning-rate (as it is), or
--optimum, which searches for both and takes lists of rules, --stages and --coupling. Where
no rate is stable, its half-life, momentum and learning rate are empty cells, in JSON null.
)" + ListHelp(),
            {"pipeline-stability --spectrum log:0.001:1:16 --stages 4 --rule sgdm --momentum 0.9 "
             "--rate 0.02",
             "pipeline-stability --hessian H.npz --stages 8 --schedule 1f1b --rule lwp-w+sc "
             "--momentum 0.9 --learning-rate 0.1 --json",
             "pipeline-stability --condition 100 --stages 2,4 --rule sgdm --optimum"}) {}

  void Run() override {
    const std::vector<analysis::RuleSpec> rules = rule_.All();
    const std::vector<std::int64_t> stages = stages_.IntegerList({1, kMaxWeights});
    const std::vector<double> couplings = coupling_.NumberListOr("1", {0, 1});
    const std::vector<std::int64_t> seeds = seed_.IntegerListOr(0, kSeedRange);
    std::vector<Case> cases;
    for (const auto& [rule, count, coupling, seed] :
         Combinations("--stages, --coupling, --seed", rules, stages, couplings, seeds)) {
      cases.push_back({PipelineFor(rule, static_cast<int>(count), coupling, seed), coupling, seed});
    }
    if (optimum_.given()) {
      for (const Argument* argument : {&momentum_, &rate_, &learning_rate_}) {
        argument->Refuse("nothing together with --optimum");
      }
      ReportOptima(cases);
      return;
    }
    out_.Refuse("nothing without --optimum");
    for (const auto& [argument, values] :
         {std::pair(&stages_, stages.size()), std::pair(&coupling_, couplings.size()),
          std::pair(&seed_, seeds.size())}) {
      if (values > 1) argument->Refuse("one number");
    }
    if (rules.size() > 1) throw UsageError("--rule", "several rules", "one rule");
    PipelineOptions& options = cases[0].options;
    options.momentum = MomentumOf(options.rule, momentum_);
    const double rate = GivenRate();
    const double largest = analysis::HessianEigenvalues(options.hessian).maxCoeff();
    options.learning_rate = learning_rate_.given() ? rate : LearningRate(rate, largest);
    analysis::Validate(options);
    Report(options, analysis::PipelineStability(options), largest);
  }

  UsageError Refused(const analysis::InvalidArgument& error) const override {
    return OptionError(error, {{"delays", stages_.name()},
                               {"hessian", (spectrum_.given() ? spectrum_ : hessian_).name()},
                               {"learning_rate", learning_rate_.name()}});
  }

 private:
  struct Case {
    PipelineOptions options;
    double coupling = 1;
    std::int64_t seed = 0;
  };

  PipelineOptions PipelineFor(const analysis::RuleSpec& rule, int stages, double coupling,
                              std::int64_t seed) const {
    PipelineOptions options;
    options.rule = rule;
    if (delays_.given()) {
      RefuseIf(rule.rule.predicts_by_schedule(), "--rule", rule.rule.name,
               "another rule with --delays: its horizons follow from a schedule");
      schedule_.Refuse("nothing together with --delays");
      options.delays = delays_.IntegerList(kDelayRange, Repeats::kKeep);
      RefuseIf(options.delays.size() != static_cast<std::size_t>(stages), "--delays",
               fmt::format("{} delays", options.delays.size()),
               fmt::format("one for each of the {} stages", stages));
    } else {
      ForwardTimes times = ForwardTimesOf(schedule_, stages);
      options.delays = std::move(times.delays);
      if (rule.rule.predicts_to_last_backward)
        options.horizons = std::move(times.spectrain_horizons);
      if (rule.rule.predicts_by_place) options.horizons = std::move(times.xpipe_horizons);
    }
    SetHessian(options, static_cast<std::size_t>(stages), coupling, seed);
    return options;
  }

  void ReportOptima(const std::vector<Case>& cases) const {
    for (const Case& one : cases) analysis::Validate(one.options);
    TableOutput table(out_);
    const auto best = Solved(0, cases, [](const Case& one) { return FindBest(one.options); });
    const auto row = [&](std::size_t i) -> Json {
      const PipelineOptions& options = cases[i].options;
      Json cells = {{"rule", options.rule.rule.name},
                    {"stages", options.delays.size()},
                    {"weights", options.hessian.rows()},
                    {"coupling", cases[i].coupling},
                    {"seed", cases[i].seed},
                    {"half_life_updates", best[i].own.half_life_updates},
                    {"momentum", best[i].own.momentum},
                    {"learning_rate", best[i].own.learning_rate},
                    {"mean_delay", best[i].mean_delay},
                    {"mean_half_life_updates", best[i].mean_half_life_updates},
                    {"largest_delay", best[i].largest_delay},
                    {"largest_half_life_updates", best[i].largest_half_life_updates}};
      cells.update(DescribeGivenRule(options.rule));
      return cells;
    };
    table.Report(json(), Json::object(),
                 "rule,stages,weights,coupling,seed,half_life_updates,momentum,learning_rate,"
                 "mean_delay,mean_half_life_updates,largest_delay,largest_half_life_updates,"
                 "horizon,horizon_scale,sc_delay,sc_delay_scale,sc_a,sc_b",
                 cases.size(), row);
  }

  // --learning-rate, or else --rate.
  double GivenRate() const {
    if (learning_rate_.given()) {
      rate_.Refuse("nothing together with --learning-rate");
      return learning_rate_.Number({0, analysis::kMaxRate});
    }
    static_cast<void>(rate_.Text(kRateRange.Text() + ", or --learning-rate in its place"));
    return rate_.Number(kRateRange);
  }

  double LearningRate(double rate, double largest_eigenvalue) const {
    if (!(largest_eigenvalue > 0)) {
      rate_.Refuse(fmt::format("--learning-rate instead, because the largest eigenvalue is {}",
                               largest_eigenvalue));
    }
    const double learning_rate = rate / largest_eigenvalue;
    if (learning_rate > analysis::kMaxRate) {
      rate_.Refuse(fmt::format("at most {} times the largest eigenvalue, {}",
                               analysis::ToText(analysis::kMaxRate), largest_eigenvalue));
    }
    return learning_rate;
  }

  void SetHessian(PipelineOptions& options, std::size_t stages, double coupling,
                  std::int64_t seed) const {
    if (!spectrum_.given() && !condition_.given()) {
      seed_.Refuse("nothing without --spectrum");
      coupling_.Refuse("nothing without --spectrum");
      options.hessian =
          ReadHessian(hessian_.Text("a file with a Hessian, or --spectrum in its place"));
      options.widths = Widths(stages, static_cast<std::size_t>(options.hessian.rows()));
      return;
    }
    hessian_.Refuse("nothing together with --spectrum or --condition");
    std::vector<double> eigenvalues;
    if (spectrum_.given()) {
      condition_.Refuse("nothing together with --spectrum");
      eigenvalues = spectrum_.NumberList({-1e12, 1e12});
      options.widths = Widths(stages, eigenvalues.size());
    } else {
      const double condition = condition_.Number(kConditionRange);
      options.widths = Widths(stages);
      const std::size_t weights =
          std::accumulate(options.widths.begin(), options.widths.end(), std::size_t{0});
      for (std::size_t k = 0; k < weights; ++k) {
        eigenvalues.push_back(std::pow(
            condition,
            weights == 1 ? 0 : static_cast<double>(k) / static_cast<double>(weights - 1) - 1));
      }
    }
    RefuseIf(eigenvalues.size() > analysis::kMaxPipelineWeights,
             spectrum_.given() ? spectrum_.name() : widths_.name(),
             fmt::format("{} weights", eigenvalues.size()), fmt::format("at most {}", kMaxWeights));
    options.hessian = RotatedHessian(eigenvalues, coupling, static_cast<std::uint32_t>(seed));
  }

  Eigen::MatrixXd ReadHessian(const std::string& path) const {
    const auto refuse = [&](std::string_view why) {
      throw UsageError(hessian_.name(), path,
                       fmt::format("an .npz file with a symmetric array 'hessian' of n x n finite "
                                   "numbers ({})",
                                   why));
    };
    training::NamedTensor array;
    try {
      array =
          ReadNpz(path, "hessian", analysis::kMaxPipelineWeights * analysis::kMaxPipelineWeights);
    } catch (const ArrayFileError& error) {
      refuse(error.what());
    }
    if (array.shape.size() != 2 || array.shape[0] != array.shape[1] || array.values.empty()) {
      refuse(fmt::format("here its shape is ({})", fmt::join(array.shape, ", ")));
    }
    const auto n = static_cast<Eigen::Index>(array.shape[0]);
    // Row-major or not makes no difference to a symmetric matrix.
    const Eigen::MatrixXd hessian = Eigen::Map<const Eigen::MatrixXd>(array.values.data(), n, n);
    if (!hessian.allFinite()) refuse("here one is not finite");
    const double asymmetry = (hessian - hessian.transpose()).cwiseAbs().maxCoeff();
    if (asymmetry > kSymmetryTolerance * hessian.cwiseAbs().maxCoeff()) {
      refuse(fmt::format("here H and its transpose differ by {}", asymmetry));
    }
    return 0.5 * (hessian + hessian.transpose());
  }

  // How many weights each stage has: as --widths says, where one number is that of every stage; or the weights,
  // by default one a stage, dealt evenly, the first stages taking what is left over.
  std::vector<std::size_t> Widths(std::size_t stages,
                                  std::optional<std::size_t> weights = std::nullopt) const {
    std::vector<std::size_t> widths;
    if (!widths_.given()) {
      const std::size_t all = weights.value_or(stages);
      if (stages > all) stages_.Refuse(fmt::format("at most one for each of the {} weights", all));
      for (std::size_t s = 0; s < stages; ++s) {
        widths.push_back(all / stages + (s < all % stages ? 1 : 0));
      }
      return widths;
    }
    for (const std::int64_t width : widths_.IntegerList({1, kMaxWeights}, Repeats::kKeep)) {
      widths.push_back(static_cast<std::size_t>(width));
    }
    if (widths.size() == 1) widths.assign(stages, widths[0]);
    if (widths.size() != stages) {
      widths_.Refuse(fmt::format("one number, or one for each of {} stages", stages));
    }
    if (weights && std::accumulate(widths.begin(), widths.end(), std::size_t{0}) != *weights) {
      widths_.Refuse(fmt::format("{} widths that sum to the {} weights", stages, *weights));
    }
    return widths;
  }

  void Report(const PipelineOptions& options, const analysis::PipelineSummary& summary,
              double largest_eigenvalue) const {
    const double radius = summary.spectral_radius;
    const bool stable = radius < 1;
    const double half_life = stable ? -std::log(2.0) / std::log(radius) : std::nan("");
    if (json()) {
      Json object = DescribeGivenRule(options.rule);
      object["stages"] = options.delays.size();
      object["delays"] = options.delays;
      object["widths"] = options.widths;
      object["momentum"] = options.momentum;
      object["learning_rate"] = options.learning_rate;
      object["rate"] = options.learning_rate * largest_eigenvalue;
      object["largest_eigenvalue"] = largest_eigenvalue;
      object["spectral_radius"] = radius;
      object["half_life_updates"] = half_life;
      object["stable"] = stable;
      object["state_dimension"] = summary.state_dimension;
      json().Put(object);
      return;
    }
    PrintText("{}, {} stages with delays {}: {}\n", options.rule.rule.name, options.delays.size(),
              fmt::join(options.delays, ", "), stable ? "stable" : "not stable");
    PrintText("  spectral radius  {}\n", radius);
    if (stable) PrintText("  half-life        {} updates\n", half_life);
    PrintText("  learning rate    {}\n", options.learning_rate);
    PrintText("  state dimension  {}\n", summary.state_dimension);
  }

  RuleArguments rule_{app(), RuleArguments::Form::kLists, RuleArguments::Rules::kOfSchedules};
  Argument hessian_{app(), "--hessian", "H.npz", "File with the Hessian, array `hessian`"};
  Argument spectrum_{app(), "--spectrum", "LIST", "Eigenvalues of the Hessian"};
  Argument condition_{app(), "--condition", "K",
                      "Condition number, one eigenvalue for each weight"};
  Argument coupling_{app(), "--coupling", "LIST",
                     "From 0, no weight meets another, to 1 (default: 1)"};
  Argument seed_{app(), "--seed", "LIST", "Seeds of the spectrum's rotation (default: 0)"};
  Argument stages_{app(), "--stages", "LIST", "Numbers of stages, required"};
  Argument widths_{app(), "--widths", "LIST",
                   "Weights of each stage, or of all (default: even, 1 with --condition)"};
  Argument schedule_{app(), "--schedule", "NAME",
                     "A kind of `schedule`, or a list in F.csv or F.txt (default: pb)"};
  Argument delays_{app(), "--delays", "LIST", "Delay of each stage, in place of a schedule's"};
  Argument momentum_{app(), "--momentum", "M", "Momentum from 0 to 1; none with linear"};
  Argument rate_{app(), "--rate", "X", "Learning rate times the largest eigenvalue"};
  Argument learning_rate_{app(), "--learning-rate", "ETA", "Learning rate"};
  Flag optimum_{app(), "--optimum", "The best momentum and rate, beside one delay for all stages"};
  Argument out_{app(), "--out", "F.csv", "Write the rows of --optimum to this file"};
};

}  // namespace

const CommandMaker kPipelineStabilityCommand = MakeCommand<PipelineStabilityCommand>;

}  // namespace batchless
