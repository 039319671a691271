// Forward passes alone, sample by sample, with the newest weights.
#pragma once

#include <memory>
#include <vector>

#include "aligned_buffer.h"
#include "engine/pipeline.h"

namespace batchless::training {

// One thread's stages and memory for evaluation.
template <class Real>
class Evaluator {
 public:
  Evaluator(const hwmodel::Network& network, const std::shared_ptr<const Backend<Real>>& backend);

  // The results of positions first .. last-1 go to results[0 .. last-first).
  void Run(const NetworkWeights<Real>& weights, const SampleSource& source, std::int64_t first,
           std::int64_t last, SampleResult* results);

 private:
  const hwmodel::Network* network_;
  std::vector<std::unique_ptr<Stage<Real>>> stages_;
  std::vector<AlignedBuffer<Real>> values_;
  AlignedBuffer<Real> saved_;
  AlignedBuffer<Real> workspace_;
  std::vector<float> image_;
};

}  // namespace batchless::training
