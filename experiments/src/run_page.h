// Pages of runs: one file of HTML with pictures in it, which needs no network and follows the reader's
// choice of light or dark.
#pragma once

#include <string>
#include <vector>

#include "chart.h"
#include "run_record.h"

namespace batchless {

// A page of the pieces below.
std::string PageText(const std::string& title, const std::string& body);
std::string HeadingText(const std::string& text);

// The first row is the head.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

// The quantities of metrics.csv that are drawn, against samples: a chart each, a curve a run. `further` charts
// come behind them.
std::string ChartsText(const std::vector<RunRecord>& runs, const std::string& further = "");

// What runs have come to: a row each, below a head. "–" stands for what is not known.
std::vector<std::vector<std::string>> OutcomeTable(const std::vector<RunRecord>& runs);
// What a run has come to, by the names of the JSON.
Json Outcome(const RunRecord& run);

// "Key, first run, second run": what the configurations do not share.
std::vector<std::vector<std::string>> DifferenceTable(const std::vector<RunRecord>& runs);

}  // namespace batchless
