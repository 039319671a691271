// A command of the program, and what every one uses: arguments, refusals of them, text and JSON.
#pragma once

#include <complex>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "argument.h"
#include "batchless/analysis/argument.h"
#include "command_host.h"
#include "parallel_rows.h"
#include "table_output.h"
#include "text_output.h"
#include "usage_error.h"

namespace batchless {

// One command of the program. A new one is a class in a file of its own under commands/, with its maker, and
// listed in commands/commands.h.
class Command {
 public:
  // `description` is one line for the list of commands; `explanation` goes below the options in the
  // command's own help, followed by the examples, which are written without "batchless".
  Command(CLI::App& root, const std::string& name, const std::string& description,
          const std::string& explanation, const std::vector<std::string>& examples);
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  bool chosen() const;
  // Where the result goes; `wants_json`: as one object in any case.
  void SetHost(const CommandHost& host, bool wants_json) {
    json_.host = host;
    json_.is_wanted = json_.is_wanted || wants_json;
  }
  CLI::App& app() const { return *app_; }
  const std::string& explanation() const { return explanation_; }
  const std::vector<std::string>& examples() const { return examples_; }

  // Throws UsageError or analysis::InvalidArgument for what cannot be worked with, before the long
  // part of the work starts; any other exception is a failure on the way.
  virtual void Run() = 0;

  // What a library refused in the run, by the name of the option that stands for its argument.
  virtual UsageError Refused(const analysis::InvalidArgument& error) const {
    return OptionError(error);
  }

 protected:
  const JsonOutput& json() const { return json_; }
  WorkMonitor* monitor() const { return json_.host.monitor; }

  // solve(point) of every point, in their order.
  template <class Point, class Solve>
  auto Solved(int threads, const std::vector<Point>& points, const Solve& solve) const {
    using Solution = std::invoke_result_t<Solve, const Point&>;
    static_assert(!std::is_same_v<Solution, bool>,
                  "threads would write to the same words of a std::vector<bool>");
    std::vector<Solution> solutions(points.size());
    const auto row = [&](std::size_t i) { solutions[i] = solve(points[i]); };
    ParallelRows(points.size(), threads, row, monitor());
    return solutions;
  }

  // The same as rows: describe(point, solution) in JSON and, of its `columns`, in CSV; one point alone is
  // printed by print(point, solution).
  template <class Point, class Solve, class Describe, class Print>
  void ReportPoints(const Argument& out, int threads, std::string_view columns,
                    const std::vector<Point>& points, const Solve& solve, const Describe& describe,
                    const Print& print) const {
    TableOutput table(out);
    const auto solutions = Solved(threads, points, solve);
    const auto row = [&](std::size_t i) { return describe(points[i], solutions[i]); };
    if (table.ReportPoints(json(), columns, points.size(), row)) print(points[0], solutions[0]);
  }

 private:
  CLI::App* app_;
  std::string explanation_;
  std::vector<std::string> examples_;
  JsonOutput json_;
};

// What makes a command for the program.
using CommandMaker = std::unique_ptr<Command> (*)(CLI::App& root);

template <class Kind>
std::unique_ptr<Command> MakeCommand(CLI::App& root) {
  return std::make_unique<Kind>(root);
}

// Each as [real part, imaginary part].
Json RootsAsJson(const std::vector<std::complex<double>>& roots);

}  // namespace batchless
