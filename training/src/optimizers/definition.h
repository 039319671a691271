// What an engine needs of an optimizer, beside its row of the table: the numbers of an update, and the
// loops that make it, for each kind of lanes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "batchless/analysis/rule.h"
#include "batchless/training/optimizer.h"
#include "batchless/training/own_optimizer.h"
#include "batchless/training/parameter_tensor.h"

namespace batchless::training {

// Most arrays beside a tensor.
inline constexpr int kMaxTensorArrays = 4;

// Horizons of a look-ahead; at most one is not zero.
template <class Real>
struct Extrapolation {
  Real velocity = 0;  // of u
  Real weight = 0;    // of w_new - w
};

// The numbers of an update. `rate` scales steps and look-aheads along u.
struct UpdateNumbers {
  double rate = 0;
  double a = 1;
  double b = 0;
  OwnNumbers<double> own{};
};

template <class Real>
struct UpdateCoefficients {
  Real state_step = 0;     // of u: -eta a
  Real gradient_step = 0;  // of p: -eta b
  Extrapolation<Real> forward_horizon;
  Extrapolation<Real> backward_horizon;
  OwnNumbers<Real> own{};
};

// A later update whose passes read the weights that this one makes, and how far they look ahead.
template <class Real>
struct ForwardReader {
  std::int64_t update = 0;  // its number in the pipeline, from 0
  Extrapolation<Real> matrices;
  Extrapolation<Real> vectors;
};

// The coefficients of a stage's matrices, and of its other tensors where another optimizer updates these.
template <class Real>
struct StageCoefficients {
  UpdateCoefficients<Real> matrices;
  UpdateCoefficients<Real> vectors;
  // Where the delays are drawn; else the forward's weights are kept by their version.
  std::optional<std::vector<ForwardReader<Real>>> readers;
};

// A copy of the new weights that looks ahead.
template <class Real>
struct ForwardCopy {
  Extrapolation<Real> horizon;
  Real* weights = nullptr;
};

// One pass over `size` numbers of a tensor. Arrays that are not wanted are null.
template <class Real>
struct UpdateArguments {
  UpdateCoefficients<Real> coefficients;
  std::int64_t size = 0;
  const Real* gradient = nullptr;
  Real* weights = nullptr;
  std::array<Real*, kMaxStates> states{};
  std::array<Real*, kMaxTensorArrays> tensor_arrays{};  // null where they hold nothing
  Real* forward = nullptr;
  std::vector<ForwardCopy<Real>> copies;  // in place of it
  Real* backward = nullptr;
  // The raw weights that the gradient's forward read, and where the new ones are kept for later.
  const Real* stale = nullptr;
  Real* kept = nullptr;
  // Whether `forward` is written past the caches, where its alignment lets it.
  bool streams_forward = false;
  OwnLoop<Real> own = nullptr;  // of an optimizer of the user's
};

template <class Real>
struct UpdateKernels {
  void (*update)(const UpdateArguments<Real>&) = nullptr;
  // Comes first, with the arguments of a whole tensor, whose offset is 0, and may change gradient and
  // coefficients; null: pieces of a tensor can be updated one by one.
  void (*prepare)(const ParameterTensor&, UpdateArguments<Real>&, Real* workspace) = nullptr;
};

struct OptimizerKernels {
  UpdateKernels<float> single;  // one number at a time, products and sums rounded apart
  UpdateKernels<double> twofold;
  UpdateKernels<float> vectors;
};

struct OptimizerDefinition {
  Optimizer row;
  // Replaces what is not the learning rate as it is and the rule's own coefficients.
  void (*set)(const OptimizerSpec&, const UpdatePoint&, UpdateNumbers&) = nullptr;
  OptimizerKernels kernels = {};
  // Numbers of scratch that `prepare` takes for a tensor; null: none.
  std::int64_t (*workspace_size)(const ParameterTensor&) = nullptr;
  // Shape of the tensor's array of that number among those with sizes of their own; empty: it has none.
  // Null: as there are no such arrays.
  std::vector<std::int64_t> (*tensor_array_shape)(const ParameterTensor&,
                                                  std::size_t number) = nullptr;
  // What a user's optimizer is made of; the table's have nothing there.
  OwnFunctions own = {};
};

const OptimizerDefinition& DefinitionOf(const Optimizer& optimizer);

// The one that updates a tensor of that many dimensions.
const OptimizerDefinition& DefinitionFor(const Optimizer& optimizer, std::size_t dimensions);

// For a backend's block; 1: plain loops.
template <class Real>
UpdateKernels<Real> KernelsOf(const OptimizerDefinition& definition, [[maybe_unused]] int block) {
  if constexpr (std::is_same_v<Real, double>) {
    return definition.kernels.twofold;
  } else {
    return block == 1 ? definition.kernels.single : definition.kernels.vectors;
  }
}

// Null where it has none of that name.
const Hyperparameter* FindHyperparameter(const Optimizer& optimizer, std::string_view name);

// The number that a rule takes for m: of an optimizer with that row, beside a run's momentum.
double MomentumOf(const Optimizer& row, const OptimizerSpec& spec, double momentum);

// The optimizer and the rule have to be valid.
template <class Real>
StageCoefficients<Real> MakeCoefficients(const OptimizerSpec& spec, const analysis::RuleSpec& rule,
                                         const UpdatePoint& point);

// Those of the files of this folder, of which DefinitionOf keeps one each.
OptimizerDefinition SgdmDefinition();
OptimizerDefinition AdamDefinition();
OptimizerDefinition AdamwDefinition();
OptimizerDefinition NadamDefinition();
OptimizerDefinition NadamwDefinition();
OptimizerDefinition AdaptiveBrakingDefinition();
OptimizerDefinition DcAsgdDefinition();
OptimizerDefinition GapAwareDefinition();
OptimizerDefinition PipemareDefinition();
OptimizerDefinition EmaNesterovDefinition();
OptimizerDefinition CgadDefinition();
OptimizerDefinition MuonDefinition();
OptimizerDefinition BasisRotationDefinition();
OptimizerDefinition LinearDefinition();

}  // namespace batchless::training
