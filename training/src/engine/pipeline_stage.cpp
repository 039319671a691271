#include "engine/pipeline_stage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "engine/link.h"

namespace batchless::training {
namespace {

using hwmodel::ActionKind;
using hwmodel::WeightVersions;

template <class Real>
double SquaredNorm(std::span<const Real> x) {
  // Sums side by side, whose order does not depend on a processor's vectors.
  std::array<double, 16> sums{};
  for (std::size_t first = 0; first < x.size(); first += sums.size()) {
    const std::size_t count = std::min(sums.size(), x.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const double number = x[first + i];
      sums[i] += number * number;
    }
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// As torch.nn.utils.clip_grad_norm_ does.
template <class Real>
void ClipGradient(const std::vector<ParameterTensor>& tensors, double most, Real* gradient) {
  const auto part = [&](const ParameterTensor& tensor) {
    return std::span(gradient + tensor.offset, static_cast<std::size_t>(tensor.stored_size));
  };
  double squares = 0;
  for (const ParameterTensor& tensor : tensors) squares += SquaredNorm<Real>(part(tensor));
  const double factor = most / (std::sqrt(squares) + 1e-6);
  if (factor >= 1) return;
  for (const ParameterTensor& tensor : tensors) {
    for (Real& number : part(tensor)) number *= static_cast<Real>(factor);
  }
}

template <class Real>
VersionCounts CountVersions(const PipelineOptions<Real>& options, int stage) {
  const std::int64_t age = options.plan.version_ages[stage];
  const bool keeps_raw = options.optimizer().keeps_forward_weights;
  return {.forward = age > 0 || options.plan.predicts_forward ? age + 1 : 0,
          .predicted_backward = options.plan.predicts_backward,
          .raw = keeps_raw ? options.plan.delays[stage] + 1 : 0};
}

}  // namespace

// Updates a tensor while a backward makes its gradient: weights, gradient and predictions pass through
// the caches once.
template <class Real>
class PipelineStage<Real>::PieceUpdate final : public GradientConsumer<Real> {
 public:
  explicit PieceUpdate(PipelineStage& stage) : stage_(stage) {}

  void Take(std::int64_t first, std::int64_t size, const Real* gradient) override {
    stage_.parameters_.UpdatePiece(stage_.updated_in_backward_, first, size, gradient,
                                   stage_.coefficients_, stage_.stale_version_);
  }

 private:
  PipelineStage& stage_;
};

template <class Real>
PipelineStage<Real>::PipelineStage(const PipelineOptions<Real>& options, int number)
    : options_(options),
      number_(number),
      description_(options.run.network.stages[number]),
      compute_(options.make_stage
                   ? options.make_stage(number)
                   : MakeStage<Real>(options.run.network, number,
                                     static_cast<int>(options.run.microbatch), options.backend)),
      parameters_(layout(), CountVersions(options, number), options.optimizer(),
                  options.backend->block()) {}

template <class Real>
void PipelineStage<Real>::Allocate(MicrobatchMemory<Real>& memory, const GradientParts& parts,
                                   Real* gradient) {
  memory_ = &memory;
  parts_ = &parts;
  parameters_.Allocate();
  forward_versions_.resize(memory.InFlight(number_));
  gradient_size_ = Aligned(layout().parameter_size);
  gradient_ = gradient;
  if (gradient != nullptr) {
    const int tensor = layout().consumed;
    // A norm is of the whole gradient.
    const bool takes_pieces = tensor >= 0 && parameters_.TakesPieces(tensor);
    if (takes_pieces && !options_.run.max_gradient_norm) updated_in_backward_ = tensor;
    return;
  }
  own_gradient_ = AlignedBuffer<Real>(parts.slots() * gradient_size_);
  gradient_ = own_gradient_.data();
  if (options_.replicas() == 1 || gradient_size_ == 0) return;
  exchange_ = std::make_unique<GradientExchange<Real>>(
      *options_.peers, options_.backend, options_.run.gradient_parts, ExchangeChannel(number_),
      gradient_, gradient_size_);
}

template <class Real>
std::int64_t PipelineStage<Real>::VersionAfter(std::int64_t updates, std::int64_t k) const {
  if (options_.plan.schedule.weights == WeightVersions::kDoubleBuffered) {
    return std::max<std::int64_t>(0, k / options_.microbatches_per_update - 1);
  }
  const std::int64_t lag = options_.draws != nullptr ? options_.draws->At(options_.StartOfUpdate(k))
                                                     : options_.plan.forward_lags[number_];
  return std::max<std::int64_t>(0, updates - lag);
}

template <class Real>
void PipelineStage<Real>::LookAhead(ActionKind pass, std::int64_t k, Prefetcher& ahead) {
  const auto add_parameters = [&](const Real* parameters) {
    ahead.Add(std::as_bytes(std::span(parameters, parameters_.size())));
  };
  if (pass == ActionKind::kForward) {
    for (const int v : description_.outputs) ahead.Add(std::as_bytes(memory_->ValueSpan(v, k)));
    add_parameters(ForwardParameters(ForwardVersion(k)));
    return;
  }
  if (layout().passes_gradient) return;
  for (const int v : description_.outputs) ahead.Add(std::as_bytes(memory_->GradientSpan(v, k)));
  if (layout().keeps_input) {
    ahead.Add(std::as_bytes(memory_->ValueSpan(description_.inputs[0], k)));
  }
  add_parameters(BackwardParameters(k));
  for (const AlignedBuffer<Real>& array : parameters_.optimizer_states()) {
    ahead.Add(std::as_bytes(std::span(array)));
  }
}

template <class Real>
void PipelineStage<Real>::Forward(std::int64_t k, Real* workspace, Prefetcher* ahead) {
  *forward_version(k) = ForwardVersion(k);
  RunForward(k,
             {.saved = memory_->ForwardSaved(number_, k),
              .state = parameters_.state(),
              .workspace = workspace,
              .ahead = ahead},
             [&](int v) { return memory_->Value(v, k); });
}

template <class Real>
void PipelineStage<Real>::ForwardAgain(std::int64_t k, Real* workspace) {
  // Statistics have counted the micro-batch already.
  state_again_.assign(parameters_.state(), parameters_.state() + layout().state_size);
  RunForward(
      k,
      {.saved = memory_->Saved(number_, k), .state = state_again_.data(), .workspace = workspace},
      [&](int v) { return memory_->KeptValue(v, number_, k); });
}

template <class Real>
template <class ValueOf>
void PipelineStage<Real>::RunForward(std::int64_t k, ForwardArguments<Real> arguments,
                                     ValueOf value_of) {
  const std::int64_t version = *forward_version(k);
  if (options_.on_read) {
    options_.on_read({ActionKind::kForward, number_, options_.InRun(k), version});
  }
  arguments.microbatch = &memory_->At(k).microbatch;
  arguments.parameters = ForwardParameters(version);
  for (std::size_t i = 0; i < description_.inputs.size(); ++i) {
    arguments.inputs[i] = value_of(description_.inputs[i]);
  }
  for (std::size_t i = 0; i < description_.outputs.size(); ++i) {
    arguments.outputs[i] = value_of(description_.outputs[i]);
  }
  compute_->Forward(arguments);
}

template <class Real>
void PipelineStage<Real>::Backward(std::int64_t k, Real* workspace, Prefetcher* ahead) {
  const std::int64_t version = reads_newest() ? parameters_.updates() : *forward_version(k);
  if (options_.on_read) {
    options_.on_read({ActionKind::kBackward, number_, options_.InRun(k), version});
  }
  BackwardArguments<Real> arguments;
  arguments.microbatch = &memory_->At(k).microbatch;
  arguments.parameters = BackwardParameters(k);
  for (std::size_t i = 0; i < description_.inputs.size(); ++i) {
    const int v = description_.inputs[i];
    if (layout().keeps_input) arguments.inputs[i] = memory_->KeptValue(v, number_, k);
    arguments.input_gradients[i] = memory_->Gradient(v, k);
    arguments.add_input_gradients[i] = options_.run.network.values[v].consumers.back() != number_;
  }
  if (layout().keeps_output) {
    arguments.output = memory_->KeptValue(description_.outputs[0], number_, k);
  }
  arguments.saved = memory_->Saved(number_, k);
  for (std::size_t i = 0; i < description_.outputs.size(); ++i) {
    arguments.output_gradients[i] = memory_->Gradient(description_.outputs[i], k);
  }
  arguments.workspace = workspace;
  arguments.ahead = ahead;
  if (splits()) {
    arguments.part = BackwardPart::kInput;
    arguments.gradient = memory_->Held(number_, k);
    if (layout().splits) {
      const std::span<const Real> dy = memory_->GradientSpan(description_.outputs[0], k);
      std::copy(dy.begin(), dy.end(), arguments.gradient + layout().input_part);
    }
    compute_->Backward(arguments);
    ShrinkGradient(k);
    return;
  }
  arguments.gradient = GradientOf(k);
  arguments.add_gradient = has_pending_gradient_;
  stale_version_ = *forward_version(k);
  PieceUpdate update(*this);
  if (updated_in_backward_ >= 0) {
    coefficients_ = Coefficients(k);
    arguments.consumer = &update;
  }
  compute_->Backward(arguments);
  ShrinkGradient(k);
  Complete(k);
}

// Where it shrinks, the stage has one input and is the first that reads it: all the others have been gone
// through by now.
template <class Real>
void PipelineStage<Real>::ShrinkGradient(std::int64_t k) {
  if (options_.run.gradient_shrink == 1 || !options_.plan.shrinks[number_]) return;
  const auto factor = static_cast<Real>(options_.run.gradient_shrink);
  for (Real& number : memory_->GradientSpan(description_.inputs[0], k)) number *= factor;
}

template <class Real>
void PipelineStage<Real>::WeightGradient(std::int64_t k, Real* workspace) {
  if (layout().parameter_size == 0) return;
  Real* gradient = GradientOf(k);
  const Real* held = memory_->Held(number_, k);
  const std::int64_t input_part = layout().input_part;
  if (has_pending_gradient_) {
    options_.backend->Add(input_part, gradient, held, gradient);
  } else {
    std::copy_n(held, input_part, gradient);
  }
  if (layout().splits) {
    BackwardArguments<Real> arguments;
    arguments.part = BackwardPart::kWeights;
    arguments.inputs[0] = memory_->KeptValue(description_.inputs[0], number_, k);
    arguments.saved = memory_->Saved(number_, k);
    arguments.output_gradients[0] = held + input_part;
    arguments.gradient = gradient;
    arguments.add_gradient = has_pending_gradient_;
    arguments.workspace = workspace;
    compute_->Backward(arguments);
  }
  stale_version_ = *forward_version(k);
  Complete(k);
}

template <class Real>
void PipelineStage<Real>::Complete(std::int64_t k) {
  has_pending_gradient_ = true;
  const std::int64_t share = options_.microbatches_per_update;
  if (options_.run.gradient_parts == 1 || (k + 1) % (share / parts_->count()) != 0) return;
  const std::int64_t part = PartOf(k);
  std::int64_t last = parts_->slot(part);
  for (int i = 0; i < parts_->additions(part); ++i, --last) AddSums(last);
  // The next one has a slot of its own.
  has_pending_gradient_ = false;
}

template <class Real>
void PipelineStage<Real>::AddSums(std::int64_t last) {
  Real* from = gradient_ + last * gradient_size_;
  Real* to = from - gradient_size_;
  options_.backend->Add(gradient_size_, to, from, to);
}

template <class Real>
void PipelineStage<Real>::Update(std::int64_t k, Real* workspace) {
  if (exchange_) {
    exchange_->Start();
    exchanged_ = k;
    return;
  }
  for (auto last = static_cast<std::int64_t>(parts_->sums().size()) - 1; last > 0; --last) {
    AddSums(last);
  }
  UpdateParameters(k, workspace);
}

template <class Real>
void PipelineStage<Real>::ProgressExchange(Real* workspace) {
  if (!is_exchanging() || !exchange_->Progress()) return;
  UpdateParameters(exchanged_, workspace);
  exchanged_ = -1;
}

template <class Real>
void PipelineStage<Real>::UpdateParameters(std::int64_t k, Real* workspace) {
  if (options_.run.max_gradient_norm) {
    ClipGradient(layout().parameters, *options_.run.max_gradient_norm, gradient_);
  }
  // A backward that updates has them already, and a stage without parameters wants none.
  if (updated_in_backward_ < 0 && gradient_size_ > 0) coefficients_ = Coefficients(k);
  parameters_.Update(gradient_, coefficients_, stale_version_, workspace, updated_in_backward_);
  has_pending_gradient_ = false;
}

template <class Real>
std::int64_t PipelineStage<Real>::bytes() const {
  std::int64_t bytes = own_gradient_.bytes() + parameters_.bytes();
  if (exchange_) bytes += exchange_->bytes();
  return bytes;
}

template class PipelineStage<float>;
template class PipelineStage<double>;

}  // namespace batchless::training
