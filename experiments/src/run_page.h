// Pages of runs: one file of HTML with pictures in it, which needs no network and follows the reader's
// choice of light or dark.
#pragma once

#include <string>
#include <vector>

#include "chart.h"
#include "run_record.h"

namespace batchless {

// The quantities of metrics.csv that are drawn, against samples: a chart each, a curve a run.
std::vector<std::string> RunCharts(const std::vector<RunRecord>& runs);

class Page {
 public:
  explicit Page(const std::string& title);

  void AddHeading(const std::string& text);
  void AddText(const std::string& text);
  // The first row is the head.
  void AddTable(const std::vector<std::vector<std::string>>& rows);
  // SVG or HTML as it is.
  void AddElement(const std::string& element);

  std::string Text() const;

 private:
  std::string body_;
};

// What runs have come to: a row each, below a head. "–" stands for what is not known.
std::vector<std::vector<std::string>> OutcomeTable(const std::vector<RunRecord>& runs);
// What a run has come to, by the names of the JSON.
Json Outcome(const RunRecord& run);

// "Key, first run, second run": what the configurations do not share.
std::vector<std::vector<std::string>> DifferenceTable(const std::vector<RunRecord>& runs);

}  // namespace batchless
