// Delays that vary, as commands and configurations write them.
//
//   uniform:LO:HI   all delays from LO to HI alike
//   geometric:P     d with probability P (1 - P)^d
//   F.csv           columns delay, probability
//   markov:F.csv    the delays in the first line, then for each the probabilities of the next one
//   trace:F.csv     column delay, repeated for ever
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "argument.h"
#include "batchless/analysis/random_delay.h"
#include "text_output.h"

namespace batchless {

inline constexpr std::string_view kDelaysForms =
    "uniform:LO:HI, geometric:P, F.csv, markov:F.csv or trace:F.csv";
// Those whose delays are drawn independently, which runs train under.
inline constexpr std::string_view kDrawnDelaysForms = "uniform:LO:HI, geometric:P or F.csv";
inline constexpr std::string_view kCompensateChoices[] = {"mean", "own"};

// Throws UsageError that names `name`.
analysis::DelayModel ParseDrawnDelays(std::string_view name, const std::string& text);

// A line for each delay: the delay and its share.
std::string DelaysText(const analysis::DelayModel& model);

// What --delays and --compensate say.
struct VaryingDelays {
  std::string text;  // as it was written
  analysis::DelayModel model;
  analysis::DelayCompensation compensation = analysis::DelayCompensation::kMean;
};

// --delays, --compensate and --largest-delay, in place of --delay.
class DelaysArguments {
 public:
  explicit DelaysArguments(CLI::App& command);

  // Throws UsageError where one of the others is given alone.
  bool given() const;
  // Where they are given; `delay` is refused then.
  std::shared_ptr<const VaryingDelays> Read(const Argument& delay) const;
  const std::string& text() const;

 private:
  Argument delays_;
  Argument compensate_;
  Argument largest_;
};

// What --help says of the results under --delays.
std::string DelaysHelp();

}  // namespace batchless
