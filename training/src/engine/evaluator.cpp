#include "engine/evaluator.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <thread>
#include <utility>

namespace batchless::training {

template <class Real>
class Evaluator<Real>::Passes {
 public:
  Passes(const hwmodel::Network& network, const std::shared_ptr<const Backend<Real>>& backend)
      : pass_(network, backend, network.stage_count()),
        image_(network.input.elements()),
        labels_(hwmodel::LabelsOf(network)),
        correct_(labels_.size()) {}

  // The results of positions first .. last-1 go to results[0 .. last-first).
  void Run(const NetworkWeights<Real>& weights, const SampleSource& source, std::int64_t first,
           std::int64_t last, SampleResult* results) {
    for (std::int64_t position = first; position < last; ++position) {
      source.ReadLabels(position, labels_);
      source.Read(position, image_);
      Real loss = 0;
      Microbatch<Real> microbatch;
      microbatch.first_sample = position;
      microbatch.training = false;
      microbatch.labels = labels_.data();
      microbatch.losses = &loss;
      microbatch.correct = correct_.data();
      pass_.Run(image_, microbatch, weights);
      results[position - first] = MakeSampleResult<Real>(position, labels_, loss, correct_);
    }
  }

 private:
  SamplePass<Real> pass_;
  std::vector<float> image_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint8_t> correct_;
};

template <class Real>
Evaluator<Real>::Evaluator(const hwmodel::Network& network,
                           std::shared_ptr<const Backend<Real>> backend, int threads,
                           ProcessGroup* group)
    : network_(&network), backend_(std::move(backend)), threads_(threads), group_(group) {}

template <class Real>
Evaluator<Real>::~Evaluator() = default;

template <class Real>
Evaluation Evaluator<Real>::Run(const NetworkWeights<Real>& weights, const SampleSource& source,
                                std::int64_t samples) {
  while (std::ssize(passes_) < threads_) {
    passes_.push_back(std::make_unique<Passes>(*network_, backend_));
  }
  const int processes = group_ == nullptr ? 1 : group_->size();
  const int rank = group_ == nullptr ? 0 : group_->rank();
  const auto share = [&](int process, int thread) {
    return samples * (process * threads_ + thread) / (processes * threads_);
  };
  std::vector<SampleResult> results(samples);
  std::vector<std::exception_ptr> failures(threads_);
  {
    std::vector<std::jthread> running;
    for (int t = 0; t < threads_; ++t) {
      const auto run = [&, t] {
        try {
          const std::int64_t first = share(rank, t);
          passes_[t]->Run(weights, source, first, share(rank, t + 1), results.data() + first);
        } catch (...) {
          failures[t] = std::current_exception();
        }
      };
      if (t + 1 < threads_) {
        running.emplace_back(run);
      } else {
        run();
      }
    }
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
