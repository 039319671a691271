#include "engine/evaluator.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <thread>
#include <utility>

namespace batchless::training {

template <class Real>
Evaluator<Real>::Evaluator(const hwmodel::Network& network,
                           std::shared_ptr<const Backend<Real>> backend, int threads,
                           ProcessGroup* group)
    : network_(&network), backend_(std::move(backend)), threads_(threads), group_(group) {}

template <class Real>
void Evaluator<Real>::RunShare(SamplePass<Real>& pass, const NetworkWeights<Real>& weights,
                               const SampleSource& source, std::int64_t first, std::int64_t last,
                               std::vector<SampleResult>& results) const {
  std::vector<float> image(network_->input.elements());
  MicrobatchSlot<Real> slot(1, hwmodel::LabelsOf(*network_));
  slot.microbatch.training = false;
  for (std::int64_t position = first; position < last; ++position) {
    source.ReadLabels(position, slot.labels);
    source.Read(position, image);
    slot.microbatch.first_sample = position;
    pass.Run(image, slot.microbatch, weights);
    results[position] = slot.Result(0);
  }
}

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
  std::vector<std::exception_ptr> failures(threads_);
  {
    const auto run = [&](int t) {
      try {
        RunShare(passes_[t], weights, source, share(rank, t), share(rank, t + 1), results);
      } catch (...) {
        failures[t] = std::current_exception();
      }
    };
    std::vector<std::jthread> running;
    for (int t = 1; t < threads_; ++t) running.emplace_back(run, t);
    run(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
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
