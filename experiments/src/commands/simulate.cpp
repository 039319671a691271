#include <algorithm>
#include <cmath>
#include <vector>

#include "batchless/analysis/simulation.h"
#include "batchless/training/trainer.h"
#include "commands/commands.h"
#include "memory.h"
#include "rule_arguments.h"
#include "values.h"

namespace batchless {
namespace {

using analysis::TrajectoryPoint;

class SimulateCommand final : public Command {
 public:
  explicit SimulateCommand(CLI::App& root)
      : Command(
            root, "simulate", "Literal simulation of a rule on a one-dimensional quadratic",
            "Row i holds the state before update i: weight, velocity and the forward weight that\n"
            "gradient i is taken at. The learning rate is the rate, on the quadratic w^2 / 2.\n"
            "With --impulse a single unit gradient arrives late at weights that start at 0. What "
            "there\n"
            "is not, a prediction after the last update for instance, and what is beyond a double\n"
            "is an empty cell, in JSON null.\n" +
                ListHelp(),
            {"simulate --rule sgdm --delay 4 --momentum 0.9 --rate 0.01 --steps 100",
             "simulate --rule sc --delay 4 --momentum 0.9 --rate 1 --steps 60 --impulse "
             "--out impulse.csv"}) {}

  void Run() override {
    analysis::SimulationOptions options;
    const RulePoint point = point_.Single();
    options.rule = point.rule;
    options.delay = point.delay;
    options.momentum = point.momentum;
    options.learning_rate = rate_.Number(kRateRange);
    options.updates = static_cast<std::size_t>(steps_.Integer({1, analysis::kMaxUpdates}));
    options.initial_weight = initial_weight_.NumberOr(1, {-1e100, 1e100});
    if (impulse_.given()) initial_weight_.Refuse("nothing together with --impulse");
    analysis::Validate(options);
    RequireMemory(steps_.name(), fmt::format("{}, which takes", options.updates),
                  static_cast<double>(options.updates) * sizeof(TrajectoryPoint), "as many as fit");
    TableOutput table(out_);
    const std::vector<TrajectoryPoint> points = impulse_.given()
                                                    ? analysis::ImpulseResponse(options)
                                                    : analysis::SimulateQuadratic(options);

    if (table.has_file() || !json()) {
      table.Write([&](TextOutput& output) {
        output.Print("update,weight,velocity,predicted_weight\n");
        for (std::size_t i = 0; i < points.size(); ++i) {
          output.Print("{}", i);
          for (const double value :
               {points[i].weight, points[i].velocity, points[i].predicted_weight}) {
            // What there is not, and what is beyond a double.
            std::isfinite(value) ? output.Print(",{}", value) : output.Print(",");
          }
          output.Print("\n");
        }
      });
    }
    if (json()) Report(options, points, table.has_file());
  }

 private:
  // One value of each point, as an array where the host takes arrays.
  template <class Value>
  void PutColumn(Json& object, const char* name, const std::vector<TrajectoryPoint>& points,
                 Value value) const {
    std::vector<double> values(points.size());
    std::transform(points.begin(), points.end(), values.begin(), value);
    if (json().host.take_array) {
      json().host.take_array({name, {std::ssize(values)}, std::move(values)});
    } else {
      object[name] = values;
    }
  }

  void Report(const analysis::SimulationOptions& options,
              const std::vector<TrajectoryPoint>& points, bool has_file) const {
    Json object = Describe(RulePoint{options.rule, options.delay, options.momentum});
    object["rate"] = options.learning_rate;
    object["steps"] = options.updates;
    object["impulse"] = impulse_.given();
    object["final_weight"] = points.back().weight;
    object["final_velocity"] = points.back().velocity;
    if (has_file) {
      object["out"] = out_.Text("");
    } else {
      PutColumn(object, "weight", points, [](const auto& point) { return point.weight; });
      PutColumn(object, "velocity", points, [](const auto& point) { return point.velocity; });
      PutColumn(object, "predicted_weight", points,
                [](const auto& point) { return point.predicted_weight; });
    }
    json().Put(object);
  }

  RulePointArguments point_{app(), RuleArguments::Form::kSingle};
  Argument rate_{app(), "--rate", "X", "Normalised rate eta * lambda, required"};
  Argument steps_{app(), "--steps", "N", "Number of updates, required"};
  Argument initial_weight_{app(), "--initial-weight", "W", "Weight to start from (default: 1)"};
  Argument out_{app(), "--out", "F.csv", "Write the trajectory to this file"};
  Flag impulse_{app(), "--impulse", "Response to one unit gradient instead"};
};

}  // namespace

const CommandMaker kSimulateCommand = MakeCommand<SimulateCommand>;

}  // namespace batchless
