// Optimizers: what an update makes of a gradient.
//
// An optimizer keeps arrays of numbers beside the weights, one of each for every parameter; some keep
// arrays of other sizes beside each tensor, too. From the gradient g, the weight w and these it makes, in
// one pass over memory,
//
//   u    what it steps along, a sum over past gradients (the velocity of SGDM)
//   p    the last gradient by itself, in the units of u
//   w0   the weight after decoupled decay; w where there is none
//
// A rule of analysis/rule.h is a transformation of any optimizer, with coefficients by the delay:
//
//   w_new    = w0 - eta (a u + b p)         spike compensation
//   forward  = w_new - eta T u              velocity form, T the forward's horizon
//            = w_new + T (w_new - w)        weight form
//   backward = the same with the backward's horizon
//
//   eta  learning rate        a, b  spike compensation, made for the optimizer's m (momentum or beta1)
//
// A forward that comes D updates before its gradient reads the newest weights there are, so the
// look-ahead from the newest state, made once at each update, is the one that every forward needs until
// the next. With T = 0 `forward` equals w_new bit for bit; with a = 1 and b = 0 the update is the
// optimizer's own bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/analysis/rule.h"

namespace batchless::training {

/// A number that an optimizer takes beside the learning rate, the momentum and the weight decay.
struct Hyperparameter {
  std::string_view name;  ///< in a configuration, "beta1"
  double initial = 0;
  double low = 0;
  double high = 1;
  bool low_is_open = false;   ///< whether `low` itself is refused
  bool high_is_open = false;  ///< likewise
  std::string_view help = {};
};

struct OptimizerDefinition;

/// One row of the table of optimizers.
struct Optimizer {
  std::string_view name = {};  ///< in a configuration, "adamw"
  std::string_view title = {};
  std::string_view equation = {};
  std::string_view source = {};
  std::string_view reduces_to = {};                  ///< what it equals, and when
  std::string_view also = {};                        ///< other names, and with what options
  std::vector<std::string_view> arrays = {};         ///< kept beside each weight
  std::vector<std::string_view> tensor_arrays = {};  ///< beside each tensor, of sizes of their own
  std::vector<Hyperparameter> hyperparameters = {};
  /// The number that spike compensation takes for m; empty: takes neither it nor another rule.
  std::string_view momentum = "momentum";
  double learning_rate = 0.1;          ///< where none is given
  bool keeps_forward_weights = false;  ///< the raw ones that each forward in flight read
  bool sets_backward_weights = false;  ///< that backwards read instead of the newest
  std::string_view for_vectors = {};   ///< updates tensors that are no matrices; empty: itself
  bool takes_quotients = false;        ///< OptimizerSpec::by_delay
  /// Divides by what a mean of so many updates has of its limit: arrays and count go on together.
  bool counts_updates = false;
  /// What own_optimizer.h made; null: it is one of the table.
  std::shared_ptr<const OptimizerDefinition> own = nullptr;
};

/// All optimizers, in the order in which they are listed to users.
std::vector<Optimizer> Optimizers();

/// Throws analysis::InvalidArgument, `optimizer`, naming the nearest valid name.
const Optimizer& FindOptimizer(std::string_view name);

/// Arrays beside a tensor of that many dimensions that `after` goes on with from `before`, where a run
/// changes its optimizer: those of the same names, but all or none where it counts updates.
std::vector<std::string_view> ArraysThatGoOn(const Optimizer& before, const Optimizer& after,
                                             std::size_t dimensions);

/// Largest degree of D that the optimizer `linear` takes: two arrays beside the weights.
inline constexpr std::size_t kMaxLinearOrder = 3;

/// An optimizer together with whatever departs from its defaults.
struct OptimizerSpec {
  Optimizer optimizer = FindOptimizer("sgdm");
  std::map<std::string, double, std::less<>> values = {};  ///< by hyperparameter
  /// N and D of the rule `linear` of analysis/rule.h for each delay that a stage has, up to degree
  /// kMaxLinearOrder, where the optimizer takes quotients.
  std::map<analysis::Delay, analysis::RuleSpec> by_delay = {};

  /// The value of a hyperparameter that the optimizer has.
  double Value(std::string_view name) const;
};

/// Updates that are in an optimizer's arrays already, of an optimizer that counts them. A mean with decay b
/// has 1 - product b^alike of its limit then.
struct PastUpdates {
  std::int64_t count = 0;
  std::int64_t alike = 0;    ///< the last of them, with the betas of those to come
  double beta1_product = 1;  ///< of the others
  double beta2_product = 1;

  friend bool operator==(const PastUpdates&, const PastUpdates&) = default;
};

/// For tensors of that many dimensions, where `after` goes on from `updates` updates of `before`, whose own
/// past is `past`.
PastUpdates PastAfter(const OptimizerSpec& before, const PastUpdates& past, std::int64_t updates,
                      const OptimizerSpec& after, std::size_t dimensions);

/// Throws analysis::InvalidArgument, by the hyperparameter's name, where a value is out of range or of no
/// use; `by_delay` where a quotient is none that the optimizer takes.
void Validate(const OptimizerSpec& spec);

}  // namespace batchless::training

// Example
//   OptimizerSpec spec;
//   spec.optimizer = FindOptimizer("adamw");
//   spec.values["beta1"] = 0.95;
//   Validate(spec);
//   CHECK(spec.Value("beta1") == 0.95);
//   CHECK(spec.Value("beta2") == 0.999);
//   CHECK(spec.optimizer.arrays.size() == 2);
