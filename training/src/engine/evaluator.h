// Loss and accuracy with the newest weights: forward passes alone, sample by sample, shared among
// threads and processes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "batchless/training/process_group.h"
#include "batchless/training/trainer.h"
#include "engine/pipeline.h"

namespace batchless::training {

template <class Real>
class Evaluator {
 public:
  // `group` null: this process alone.
  Evaluator(const hwmodel::Network& network, std::shared_ptr<const Backend<Real>> backend,
            int threads, ProcessGroup* group);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // Means over positions 0 .. samples-1. Collective.
  Evaluation Run(const NetworkWeights<Real>& weights, const SampleSource& source,
                 std::int64_t samples);

 private:
  class Passes;  // one thread's stages and memory

  const hwmodel::Network* network_;
  std::shared_ptr<const Backend<Real>> backend_;
  int threads_;
  ProcessGroup* group_;
  std::vector<std::unique_ptr<Passes>> passes_;  // by thread, from the first Run on
};

}  // namespace batchless::training
