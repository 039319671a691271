// Files of the optimizer `linear`: its quotient of polynomials for each delay, as `batchless design
// --json` prints its rows.
#pragma once

#include <map>
#include <string>

#include "batchless/analysis/rule.h"

namespace batchless {

// {"rows": [{"delay": 4, "numerator": [...], "denominator": [...]}, ...]}; other members are not read.
// Throws UsageError, naming the row.
std::map<analysis::Delay, analysis::RuleSpec> ReadQuotientFile(const std::string& argument,
                                                               const std::string& path);

// The same quotients as one text, for a digest.
std::string QuotientText(const std::map<analysis::Delay, analysis::RuleSpec>& quotients);

}  // namespace batchless
