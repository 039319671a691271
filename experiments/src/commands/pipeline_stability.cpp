#include "batchless/analysis/pipeline_stability.h"

#include <Eigen/Eigenvalues>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "commands/commands.h"
#include "npz.h"
#include "rule_arguments.h"
#include "spectrum.h"
#include "usage_error.h"

namespace batchless {
namespace {

using analysis::Delay;
using analysis::PipelineOptions;

constexpr auto kMaxWeights = static_cast<std::int64_t>(analysis::kMaxStateDimension);
constexpr IntegerRange kStagesRange{1, kMaxWeights};
constexpr IntegerRange kWidthRange{1, kMaxWeights};
constexpr IntegerRange kSeedRange{0, 4294967295};
constexpr NumberRange kEigenvalueRange{-1e12, 1e12};
constexpr NumberRange kLearningRateRange{0, analysis::kMaxRate};

constexpr std::array<std::string_view, 2> kSchedules = {"pb", "fill-drain"};

// The Hessian has to be symmetric up to the rounding of whatever computed it.
constexpr double kSymmetryTolerance = 1e-9;

// Read off the schedule's actions. Twice as many micro-batches as stages fill the pipeline and show
// its steady state.
std::vector<Delay> ScheduleDelays(std::size_t schedule, int stages) {
  const std::int64_t microbatches = 2 * std::int64_t{stages};
  const hwmodel::ScheduleSummary summary =
      hwmodel::Summarize(schedule == 0 ? hwmodel::PipelinedBackpropagation(stages, microbatches)
                                       : hwmodel::FillDrain(stages, microbatches, microbatches));
  std::vector<Delay> delays;
  for (const hwmodel::StageSummary& stage : summary.stages) {
    delays.push_back(stage.forward_delay_updates);
  }
  return delays;
}

// n weights over the stages, as evenly as they go, the first stages taking what is left over.
std::vector<std::size_t> EvenWidths(std::size_t weights, std::size_t stages) {
  std::vector<std::size_t> widths(stages, weights / stages);
  for (std::size_t s = 0; s < weights % stages; ++s) ++widths[s];
  return widths;
}

class PipelineStabilityCommand final : public Command {
 public:
  explicit PipelineStabilityCommand(CLI::App& root)
      : Command(
            root, "pipeline-stability",
            "Spectral radius of a quadratic whose blocks have the delays of a pipeline",
            "Either --hessian (an .npz file with the symmetric array `hessian`, n by n) or\n"
            "--spectrum (n eigenvalues, under a random rotation with --seed) is required. The n\n"
            "weights are dealt to the stages in order, evenly unless --widths says otherwise.\n"
            "Delays are read off the schedule's actions unless --delays gives one per stage.\n"
            "Either --rate (times the largest eigenvalue, as everywhere) or --learning-rate\n"
            "(as it is) is required.\n" +
                ListHelp(),
            {"pipeline-stability --spectrum log:0.001:1:16 --stages 4 --rule sgdm --momentum 0.9 "
             "--rate 0.02",
             "pipeline-stability --hessian H.npz --stages 8 --schedule pb --rule lwp-w+sc "
             "--momentum 0.9 --learning-rate 0.1 --json",
             "pipeline-stability --spectrum 1,0.1 --stages 2 --delays 4,4 --rule sc --momentum "
             "0.5 --rate 0.1"}),
        rule_(app(), RuleArguments::Form::kSingle),
        hessian_(app(), "--hessian", "H.npz", "File with the Hessian, array `hessian`"),
        spectrum_(app(), "--spectrum", "LIST", "Eigenvalues of the Hessian"),
        seed_(app(), "--seed", "N", "Seed of the spectrum's rotation (default: 0)"),
        stages_(app(), "--stages", "S", "Number of stages, required"),
        widths_(app(), "--widths", "LIST", "Weights of each stage (default: even)"),
        schedule_(app(), "--schedule", "NAME", "pb (default) or fill-drain"),
        delays_(app(), "--delays", "LIST", "Delay of each stage, in place of a schedule's"),
        momentum_(app(), "--momentum", "M", "Momentum from 0 to 1, required"),
        rate_(app(), "--rate", "X", "Learning rate times the largest eigenvalue"),
        learning_rate_(app(), "--learning-rate", "ETA", "Learning rate") {}

  void Run() override {
    PipelineOptions options;
    options.rule = rule_.Single();
    options.momentum = momentum_.Number(kMomentumRange);
    const auto stages = static_cast<int>(stages_.Integer(kStagesRange));
    CheckRates();
    if (delays_.given()) {
      schedule_.Refuse("nothing together with --delays");
      options.delays = delays_.IntegerList(kDelayRange, Repeats::kKeep);
      if (options.delays.size() != static_cast<std::size_t>(stages)) {
        throw UsageError("--delays", fmt::format("{} delays", options.delays.size()),
                         fmt::format("one for each of the {} stages", stages));
      }
    } else {
      options.delays = ScheduleDelays(schedule_.given() ? schedule_.Choice(kSchedules) : 0, stages);
    }
    SetHessian(options, static_cast<std::size_t>(stages));
    const double largest =
        Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(options.hessian, Eigen::EigenvaluesOnly)
            .eigenvalues()
            .maxCoeff();
    options.learning_rate = LearningRate(largest);
    std::string why;
    if (!options.IsValid(&why)) throw UsageError::FromLine(why);
    Report(options, analysis::PipelineStability(options), largest);
  }

 private:
  void CheckRates() const {
    if (learning_rate_.given()) {
      rate_.Refuse("nothing together with --learning-rate");
      static_cast<void>(learning_rate_.Number(kLearningRateRange));
    } else {
      static_cast<void>(rate_.Text(kRateRange.Text() + ", or --learning-rate in its place"));
      static_cast<void>(rate_.Number(kRateRange));
    }
  }

  double LearningRate(double largest_eigenvalue) const {
    if (learning_rate_.given()) return learning_rate_.Number(kLearningRateRange);
    const double rate = rate_.Number(kRateRange);
    if (!(largest_eigenvalue > 0)) {
      throw UsageError(rate_.name(), rate_.Text(""),
                       fmt::format("--learning-rate instead, because the largest eigenvalue is {}",
                                   largest_eigenvalue));
    }
    return rate / largest_eigenvalue;
  }

  // Hessian and widths. The size of the state is looked at as soon as it is known: building and
  // diagonalising a Hessian takes a while.
  void SetHessian(PipelineOptions& options, std::size_t stages) const {
    if (!spectrum_.given()) {
      seed_.Refuse("nothing without --spectrum");
      options.hessian =
          ReadHessian(hessian_.Text("a file with a Hessian, or --spectrum in its place"));
      options.widths = Widths(static_cast<std::size_t>(options.hessian.rows()), stages);
      CheckState(options);
      return;
    }
    hessian_.Refuse("nothing together with --spectrum");
    const std::vector<double> eigenvalues = spectrum_.NumberList(kEigenvalueRange);
    if (eigenvalues.size() > analysis::kMaxStateDimension) {
      throw UsageError(spectrum_.name(), fmt::format("{} eigenvalues", eigenvalues.size()),
                       fmt::format("at most {}", kMaxWeights));
    }
    const auto seed = static_cast<std::uint32_t>(seed_.IntegerOr(0, kSeedRange));
    options.widths = Widths(eigenvalues.size(), stages);
    CheckState(options);
    options.hessian = RotatedHessian(eigenvalues, seed);
  }

  void CheckState(const PipelineOptions& options) const {
    const std::size_t dimension = analysis::StateDimension(options);
    if (dimension <= analysis::kMaxStateDimension) return;
    const Argument& cause = delays_.given() ? delays_ : stages_;
    throw UsageError(
        cause.name(),
        fmt::format("{}, which makes a state of {} numbers", cause.Text(""), dimension),
        fmt::format("at most {} numbers: fewer stages, shorter delays or fewer weights",
                    analysis::kMaxStateDimension));
  }

  Eigen::MatrixXd ReadHessian(const std::string& path) const {
    const auto refuse = [&](std::string_view why) {
      throw UsageError(hessian_.name(), path,
                       fmt::format("an .npz file with a symmetric array 'hessian' of n x n finite "
                                   "numbers ({})",
                                   why));
    };
    NpzArray array;
    try {
      array = ReadNpz(path, "hessian", analysis::kMaxStateDimension * analysis::kMaxStateDimension);
    } catch (const NpzError& error) {
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

  std::vector<std::size_t> Widths(std::size_t weights, std::size_t stages) const {
    if (!widths_.given()) {
      if (stages > weights) {
        throw UsageError(stages_.name(), stages_.Text(""),
                         fmt::format("at most one for each of the {} weights", weights));
      }
      return EvenWidths(weights, stages);
    }
    std::size_t sum = 0;
    std::vector<std::size_t> widths;
    for (const std::int64_t width : widths_.IntegerList(kWidthRange, Repeats::kKeep)) {
      widths.push_back(static_cast<std::size_t>(width));
      sum += widths.back();
    }
    if (widths.size() != stages || sum != weights) {
      throw UsageError(widths_.name(), widths_.Text(""),
                       fmt::format("{} widths that sum to the {} weights", stages, weights));
    }
    return widths;
  }

  void Report(const PipelineOptions& options, const analysis::PipelineSummary& summary,
              double largest_eigenvalue) const {
    const double radius = summary.spectral_radius;
    const bool stable = radius < 1;
    const double half_life = stable ? -std::log(2.0) / std::log(radius) : std::nan("");
    if (json()) {
      Json object;
      const analysis::RuleOptions& rule = options.rule.options;
      const auto optional = [](const std::optional<double>& value) {
        return value ? Json(*value) : Json(nullptr);
      };
      object["rule"] = options.rule.rule.name;
      object["horizon"] = optional(rule.horizon);
      object["horizon_scale"] = rule.horizon_scale;
      object["sc_delay"] = optional(rule.sc_delay);
      object["sc_delay_scale"] = rule.sc_delay_scale;
      object["sc_a"] = optional(rule.sc_a);
      object["sc_b"] = optional(rule.sc_b);
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
      PrintJson(object);
      return;
    }
    TextOutput output;
    output.Print("{}, {} stages with delays {}: {}\n", options.rule.rule.name,
                 options.delays.size(), fmt::join(options.delays, ", "),
                 stable ? "stable" : "not stable");
    output.Print("  spectral radius  {}\n", radius);
    if (stable) output.Print("  half-life        {} updates\n", half_life);
    output.Print("  learning rate    {}\n", options.learning_rate);
    output.Print("  state dimension  {}\n", summary.state_dimension);
    output.Close();
  }

  RuleArguments rule_;
  Argument hessian_;
  Argument spectrum_;
  Argument seed_;
  Argument stages_;
  Argument widths_;
  Argument schedule_;
  Argument delays_;
  Argument momentum_;
  Argument rate_;
  Argument learning_rate_;
};

}  // namespace

std::unique_ptr<Command> MakePipelineStabilityCommand(CLI::App& root) {
  return std::make_unique<PipelineStabilityCommand>(root);
}

}  // namespace batchless
