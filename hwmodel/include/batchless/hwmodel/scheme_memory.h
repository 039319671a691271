// Memory of each worker under every scheme of the literature, by what it keeps.
//
//   d   workers in a pipeline, g = 0 (input) .. d-1    m   micro-batches an update, of b samples
//   W   a worker's weights   A(b)   all activations of its stages for a micro-batch, I(b) its input
//   v   weight versions, n   micro-batches in flight: derived from the scheme's list of actions
//
//   scheme            list               weights        activations
//   pb                pb                 W              n A            n = 2(d-1-g) + 1
//   stale             pb                 W              n A            Zhang and Abdelrahman
//   pipedream         1f1b, stashed      v W            n A            v = n = d - g
//   pipemare          pb                 2 W            n A            an average of the weights' steps
//   2bw               2bw                2 W            n (A + I)      n = d - g
//   2bw-recompute     2bw                2 W            A + n I
//   gpipe             gpipe              W              m A
//   gpipe-recompute   gpipe              W              A + m I
//   reversible        pb                 W              A              PETRA: inputs computed back
//
// At the first worker of equal ones 2bw's rows are the formulas of its paper, 2|W|/d + |A|/d + d |I|
// and 2|W|/d + d |A|/d + d |I|. Optimizer states and gradients, the same for all, are left out.
//
// Sources: arXiv 2006.09503 (2BW, its formula for GPipe), 1806.03377 (PipeDream), 1910.05124
// (PipeMare; recalled), 1912.12675 (stale weights), 2003.11666 (PB), 2406.02052 (PETRA; recalled).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/workload.h"

namespace batchless::hwmodel {

struct MemoryScheme {
  std::string_view name;
  std::string_view schedule;
  bool weight_stashing = false;
  bool recomputes = false;     ///< keeps inputs alone, and one micro-batch's activations
  bool counts_inputs = false;  ///< beside the activations
  bool reversible = false;     ///< keeps one micro-batch's activations
  int further_weight_copies = 0;
};

std::span<const MemoryScheme> MemorySchemes();

/// Throws analysis::InvalidArgument naming `scheme` and the nearest name.
const MemoryScheme& FindMemoryScheme(std::string_view name);

struct SchemeMemory {
  double weight_bytes = 0;
  double activation_bytes = 0;

  double total() const { return weight_bytes + activation_bytes; }
};

/// Sizes of one worker's stages, bytes.
struct WorkerSizes {
  double weights = 0;      ///< W, of one version
  double activations = 0;  ///< A(b)
  double input = 0;        ///< I(b)
};

/// The sizes of the stages first .. end - 1 for micro-batches of b samples.
WorkerSizes MeasureWorker(const Workload& workload, int first, int end, std::int64_t microbatch);

/// What a worker keeps by the table, with v versions of its weights and n micro-batches in flight.
SchemeMemory KeptBytes(const MemoryScheme& scheme, const WorkerSizes& worker, double versions,
                       double in_flight);

struct SchemeMemoryOptions {
  std::int64_t microbatch = 1;               ///< b
  std::int64_t microbatches_per_update = 0;  ///< m; 0: as many as there are workers
};

/// (d), by worker. ends: (d), one past each worker's last stage. Throws analysis::InvalidArgument
/// naming `ends` or an option.
std::vector<SchemeMemory> PredictSchemeMemory(const MemoryScheme& scheme, const Workload& workload,
                                              std::span<const int> ends,
                                              const SchemeMemoryOptions& options);

}  // namespace batchless::hwmodel
