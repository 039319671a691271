// The unit of computation: forward and backward of one stage, as functions of their arguments.
//
//   forward    outputs = f(inputs, parameters);  saved = what the backward cannot read elsewhere
//   backward   (input gradients, parameter gradients) = J(inputs or outputs, saved, parameters)' *
//              output gradients
//
// A stage object owns no weights and no activations. Everything that depends on a micro-batch or on
// a version of the weights is handed in, because many of both are alive at once in a pipeline:
//
//   parameters  one version of the stage's block (StageLayout::parameters)
//   inputs      values that the stages before have made. The backward gets those it asks for
//               (keeps_input, keeps_output), unchanged since the forward
//   saved       a block for each micro-batch in flight; the forward fills it
//   state       what a stage keeps of its own from one micro-batch to the next: the running
//               statistics of batch normalisation; nothing elsewhere
//   workspace   scratch of the worker, shared by all its stages, of no meaning between calls
//   ahead       what the worker reads next, to be fetched meanwhile; null: nothing
//
// The parameters that a backward gets may be of another version than the forward's. What depends on
// the forward's version (normalised values, ReLU masks) is computed from `saved`, never from them.
//
// An object serves one thread at a time; calls on different objects are independent. Nothing is
// allocated in a call. Tensors are (micro-batch, channels / B, height, width, B) with channels
// padded with zeros to a multiple of B, the block of the value's layout; B = 1 is plain (n, c, h,
// w), and B = channels has the channels of a token side by side. All pointers are aligned to 64 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "batchless/hwmodel/network.h"
#include "batchless/training/gradient_consumer.h"
#include "batchless/training/parameter_tensor.h"
#include "batchless/training/prefetcher.h"

namespace batchless::training {

/// What is known of a micro-batch beside its tensors.
template <class Real>
struct Microbatch {
  std::int64_t first_sample = 0;         ///< position in the run of its first sample
  std::uint64_t seed = 0;                ///< of the run
  bool training = true;                  ///< false: no dropout, running statistics
  Real gradient_scale = 1;               ///< of each sample's loss: 1 / samples of an update
  const std::int32_t* labels = nullptr;  ///< (n, labels of a sample)
  Real* losses = nullptr;                ///< (n), written by the loss: means over a sample's labels
  std::uint8_t* correct = nullptr;       ///< as the labels, written by the loss: 1 where one won
};

template <class Real>
struct ForwardArguments {
  const Microbatch<Real>* microbatch = nullptr;
  const Real* parameters = nullptr;
  std::array<const Real*, 2> inputs{};
  std::array<Real*, 2> outputs{};
  Real* saved = nullptr;
  Real* state = nullptr;
  Real* workspace = nullptr;
  Prefetcher* ahead = nullptr;
};

/// A split backward makes the gradient of its input first, that of its weights later.
enum class BackwardPart : unsigned char { kWhole, kInput, kWeights };

template <class Real>
struct BackwardArguments {
  /// kInput: nothing is done for the parameters behind the layout's input_part; kWeights: these alone,
  /// from input, saved and the gradient of the first output. Stages without `splits` do not look at it.
  BackwardPart part = BackwardPart::kWhole;
  const Microbatch<Real>* microbatch = nullptr;
  const Real* parameters = nullptr;
  std::array<const Real*, 2> inputs{};  ///< null unless keeps_input
  const Real* output = nullptr;         ///< the first; null unless keeps_output
  const Real* saved = nullptr;
  std::array<const Real*, 2> output_gradients{};
  std::array<Real*, 2> input_gradients{};  ///< null at the network's input
  /// Whether an input's gradient already holds that of a later consumer and is added to.
  std::array<bool, 2> add_input_gradients{};
  Real* gradient = nullptr;   ///< of the parameters, in the forward's order
  bool add_gradient = false;  ///< whether it is added to
  /// Takes the gradient of the layout's `consumed` parameter, whose place in `gradient` is scratch
  /// then; null: not wanted. Called once the parameter is no longer read. Not with add_gradient.
  GradientConsumer<Real>* consumer = nullptr;
  Real* workspace = nullptr;
  Prefetcher* ahead = nullptr;
};

struct StageLayout {
  std::vector<ParameterTensor> parameters;
  std::int64_t parameter_size = 0;  ///< elements of the block
  std::vector<ParameterTensor> state;
  std::int64_t state_size = 0;
  std::int64_t saved_size = 0;      ///< elements, for one micro-batch
  std::int64_t workspace_size = 0;  ///< elements
  /// The parameter whose gradient a consumer can take; -1: none.
  int consumed = -1;
  /// Whether its backward has two parts, and up to where the first makes the parameters' gradients:
  /// elements from the start of the block, a multiple of the alignment.
  bool splits = false;
  std::int64_t input_part = 0;
  bool keeps_input = false;
  bool keeps_output = false;
  /// The gradient of every input is that of the output (a sum). Where the engine lets them share memory, a
  /// backward has nothing to do.
  bool passes_gradient = false;
};

template <class Real>
class Stage {
 public:
  virtual ~Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  const StageLayout& layout() const { return layout_; }

  virtual void Forward(const ForwardArguments<Real>& arguments) = 0;
  virtual void Backward(const BackwardArguments<Real>& arguments) = 0;

 protected:
  Stage() = default;
  StageLayout layout_;
};

template <class Real>
class Backend;

/// A value's tensor for a micro-batch.
struct ValueLayout {
  hwmodel::FeatureShape shape;
  int block = 1;
  std::int64_t stored_size = 0;  ///< elements for one sample, with padding

  /// Where a sample's channel `c` at pixel `p` is.
  std::int64_t At(std::int64_t sample, std::int64_t c, std::int64_t p) const {
    return sample * stored_size + (c / block * shape.pixels() + p) * block + c % block;
  }
};

/// Layouts of all values of `network` under kernels whose block is `block`.
std::vector<ValueLayout> PlanValues(const hwmodel::Network& network, int block);

/// The stage number `stage` of `network` for micro-batches of `microbatch` samples. Throws
/// analysis::InvalidArgument naming `network` for a stage that cannot add to its input's gradient where
/// others read that input after it, and for one whose kernels need another order of its input.
template <class Real>
std::unique_ptr<Stage<Real>> MakeStage(const hwmodel::Network& network, int stage, int microbatch,
                                       std::shared_ptr<const Backend<Real>> backend);

}  // namespace batchless::training

// Example
//   const batchless::hwmodel::Network network = batchless::hwmodel::MakeNetwork({.name = "linear"});
//   const auto stage = MakeStage<double>(network, /*stage=*/0, /*microbatch=*/1,
//                                        MakeReferenceBackend<double>());
//   CHECK(stage->layout().parameters[0].name == "classifier.0.weight");
//   CHECK(stage->layout().keeps_input);
//   CHECK(PlanValues(network, /*block=*/1)[0].stored_size == network.input.elements());
