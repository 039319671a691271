// What made a run: everything but the configuration that its numbers may depend on.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint.h"
#include "config.h"
#include "run_options.h"
#include "text_output.h"

namespace batchless {

// Now, "2026-01-31T23:59:59Z".
std::string UtcText();

// `started` and `finished` as UtcText says them; `finished` empty while the run goes on.
Json MakeManifest(const Configuration& configuration, const RunData& data, int processes,
                  const RunState& state, std::int64_t resumed_from_sample,
                  const std::string& started, const std::string& finished);

}  // namespace batchless
