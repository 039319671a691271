#include "engine/evaluator.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <utility>

namespace batchless::training {

template <class Real>
Evaluator<Real>::Evaluator(const hwmodel::Network& network,
                           std::shared_ptr<const Backend<Real>> backend, int threads,
                           ProcessGroup* group)
    : network_(&network), backend_(std::move(backend)), threads_(threads), group_(group) {}

template <class Real>
Evaluation Evaluator<Real>::Run(const NetworkWeights<Real>& weights, const SampleSource& source,
                                std::int64_t samples) {
  while (std::ssize(passes_) < threads_) {
    passes_.emplace_back(*network_, backend_, network_->stage_count());
  }
  const int processes = group_ == nullptr ? 1 : group_->size();
  const int rank = group_ == nullptr ? 0 : group_->rank();
  const auto share = [&](int process, int thread) {
    return samples * (process * threads_ + thread) / (processes * threads_);
  };
  std::vector<SampleResult> results(samples);
  const auto run = [&](int thread) {
    std::vector<float> image(network_->input.elements());
    MicrobatchSlot<Real> slot(1, hwmodel::LabelsOf(*network_));
    slot.microbatch.training = false;
    const std::int64_t last = share(rank, thread + 1);
    for (std::int64_t position = share(rank, thread); position < last; ++position) {
      source.ReadLabels(position, slot.labels);
      source.Read(position, image);
      slot.microbatch.first_sample = position;
      passes_[thread].Run(image, slot.microbatch, weights);
      results[position] = slot.Result(0);
    }
  };
  {
    // Each of them waits in its end for its thread.
    std::vector<std::future<void>> running;
    for (int t = 1; t < threads_; ++t) running.push_back(std::async(std::launch::async, run, t));
    run(0);
    for (std::future<void>& each : running) each.get();
  }
  for (int p = 0; p < processes && group_ != nullptr; ++p) {
    const std::int64_t first = share(p, 0);
    group_->Broadcast(
        p, std::as_writable_bytes(std::span(results).subspan(first, share(p + 1, 0) - first)));
  }
  Evaluation evaluation{.samples = samples};
  for (const SampleResult& result : results) {
    evaluation.loss += result.loss;
    evaluation.accuracy += result.correct;
  }
  evaluation.loss /= static_cast<double>(samples);
  evaluation.accuracy /= static_cast<double>(samples);
  return evaluation;
}

template class Evaluator<float>;
template class Evaluator<double>;

}  // namespace batchless::training
