// The pass over memory of every optimizer, for each instruction set that the including file is compiled
// for. An optimizer is a template over its lanes L, a number or a block of them:
//
//   template <class L> struct NAME {
//     static constexpr int kStates;                 arrays beside the weights that the pass changes
//     const Numbers<L>& own;                        what it is made of: the update's numbers of its own
//     Step<L> operator()(Element<L>& e) const;      u, p and w0; changes e.states
//
//     L Along(const Element<L>& e) const;           what velocity look-aheads go along, in place of u
//     static constexpr bool kReadsStale = true;     e.stale is wanted
//     L Backward(const L& old, const L& updated, Element<L>& e) const;    instead of the look-ahead
//     static constexpr int kSums;                   sums over the tensor before the update, of
//     std::array<L, kSums> Terms(const Element<L>& e) const;    and what follows from them:
//     static void Use(const std::array<double, kSums>& sums, std::int64_t size, Numbers<L>& own);
//                                                   size: the tensor's numbers without padding
//     static void Prepare(const ParameterTensor&, UpdateArguments<Real>&, Real* workspace);
//   };                                              a whole tensor's, where nothing else will do
//
// The last ones, from Along on, are there where an optimizer needs them.
#if defined(BATCHLESS_TRAINING_UPDATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATCHLESS_TRAINING_UPDATE_INL_H_
#undef BATCHLESS_TRAINING_UPDATE_INL_H_
#else
#define BATCHLESS_TRAINING_UPDATE_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "backends/lanes-inl.h"
#include "optimizers/definition.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// One number. `kFused`: as a vector's lane, which rounds a product and a sum together.
template <class R, bool kFused>
struct Number {
  using Real = R;
  static constexpr int kSize = 1;

  R v;

  static Number Set(R value) { return {value}; }
  static Number Load(const R* from) { return {*from}; }
  void Store(R* to) const { *to = v; }
  void Stream(R* to) const { *to = v; }
  static Number Add(Number a, Number b) { return {a.v + b.v}; }
  static Number Sub(Number a, Number b) { return {a.v - b.v}; }
  static Number Mul(Number a, Number b) { return {a.v * b.v}; }
  static Number Div(Number a, Number b) { return {a.v / b.v}; }
  static Number Sqrt(Number a) { return {std::sqrt(a.v)}; }
  static Number MulAdd(Number a, Number b, Number c) {
    if constexpr (kFused) {
      return {std::fma(a.v, b.v, c.v)};
    } else {
      return {a.v * b.v + c.v};
    }
  }
  R Sum() const { return v; }
};

// For what is left past the last whole block.
template <class L>
using Rest = Number<typename L::Real, (L::kSize > 1 && HWY_NATIVE_FMA != 0)>;

template <class L>
using Numbers = OwnNumbers<typename L::Real>;

template <class L>
struct Step {
  L u;
  L p;
  L w0;
};

template <class L>
struct Element {
  L gradient;
  L weight;
  L stale;
  std::array<L, kMaxStates> states;
};

// What becomes of the forward's weights.
enum class Forward : unsigned char { kNone, kStored, kStreamed, kCopied };

template <class L>
struct LookAhead {
  explicit LookAhead(const Extrapolation<typename L::Real>& horizon)
      : velocity(L::Set(horizon.velocity)), weight(L::Set(horizon.weight)) {}

  HWY_INLINE L operator()(const L& old, const L& updated, const L& u) const {
    return L::MulAdd(weight, L::Sub(updated, old), L::MulAdd(velocity, u, updated));
  }

  L velocity;
  L weight;
};

// The pass of one optimizer over lanes L.
template <template <class> class Optimizer, class L>
class Pass {
 public:
  using Real = typename L::Real;
  using Of = Optimizer<L>;
  using Arguments = UpdateArguments<Real>;

  explicit Pass(const UpdateCoefficients<Real>& c)
      : optimizer_{c.own},
        state_step_(L::Set(c.state_step)),
        gradient_step_(L::Set(c.gradient_step)),
        forward_(c.forward_horizon),
        backward_(c.backward_horizon) {}

  static HWY_INLINE Element<L> Read(const Arguments& c, std::int64_t i) {
    Element<L> e;
    e.gradient = L::Load(c.gradient + i);
    e.weight = L::Load(c.weights + i);
    for (int s = 0; s < Of::kStates; ++s) e.states[s] = L::Load(c.states[s] + i);
    if constexpr (requires { Of::kReadsStale; }) e.stale = L::Load(c.stale + i);
    return e;
  }

  template <Forward kForward, bool kBackward>
  HWY_INLINE void Update(const Arguments& c, std::int64_t i) const {
    Element<L> e = Read(c, i);
    const L old = e.weight;
    const Step<L> step = optimizer_(e);
    const L updated = L::MulAdd(state_step_, step.u, L::MulAdd(gradient_step_, step.p, step.w0));
    L along = step.u;
    if constexpr (requires { optimizer_.Along(e); }) along = optimizer_.Along(e);
    L backward = updated;
    if constexpr (requires { optimizer_.Backward(old, updated, e); }) {
      backward = optimizer_.Backward(old, updated, e);
    } else if constexpr (kBackward) {
      backward = backward_(old, updated, along);
    }
    for (int s = 0; s < Of::kStates; ++s) e.states[s].Store(c.states[s] + i);
    updated.Store(c.weights + i);
    if constexpr (kForward == Forward::kStored) forward_(old, updated, along).Store(c.forward + i);
    if constexpr (kForward == Forward::kStreamed) {
      forward_(old, updated, along).Stream(c.forward + i);
    }
    if constexpr (kForward == Forward::kCopied) {
      for (const ForwardCopy<Real>& copy : c.copies) {
        LookAhead<L>(copy.horizon)(old, updated, along).Store(copy.weights + i);
      }
    }
    if constexpr (kBackward) backward.Store(c.backward + i);
    if constexpr (requires { Of::kReadsStale; }) updated.Store(c.kept + i);
  }

  HWY_INLINE auto Terms(const Arguments& c, std::int64_t i) const {
    return optimizer_.Terms(Read(c, i));
  }

 private:
  Of optimizer_;
  L state_step_;
  L gradient_step_;
  LookAhead<L> forward_;
  LookAhead<L> backward_;
};

template <template <class> class Optimizer, class L, Forward kForward, bool kBackward>
void UpdateAll(const UpdateArguments<typename L::Real>& c) {
  const Pass<Optimizer, L> lanes(c.coefficients);
  std::int64_t i = 0;
  for (; i + L::kSize <= c.size; i += L::kSize) lanes.template Update<kForward, kBackward>(c, i);
  if constexpr (L::kSize > 1) {
    constexpr Forward kRest = kForward == Forward::kStreamed ? Forward::kStored : kForward;
    const Pass<Optimizer, Rest<L>> rest(c.coefficients);
    for (; i < c.size; ++i) rest.template Update<kRest, kBackward>(c, i);
  }
  if constexpr (kForward == Forward::kStreamed) hwy::FlushStream();
}

template <template <class> class Optimizer, class L, Forward kForward>
void UpdateBoth(const UpdateArguments<typename L::Real>& c) {
  c.backward != nullptr ? UpdateAll<Optimizer, L, kForward, true>(c)
                        : UpdateAll<Optimizer, L, kForward, false>(c);
}

template <template <class> class Optimizer, class L>
void Update(const UpdateArguments<typename L::Real>& c) {
  if (!c.copies.empty()) return UpdateAll<Optimizer, L, Forward::kCopied, false>(c);
  if (c.forward == nullptr) return UpdateBoth<Optimizer, L, Forward::kNone>(c);
  if constexpr (L::kSize > 1) {
    // Rows of a linear layer may begin anywhere.
    const bool aligned = reinterpret_cast<std::uintptr_t>(c.forward) % sizeof(L) == 0;
    if (c.streams_forward && aligned) return UpdateBoth<Optimizer, L, Forward::kStreamed>(c);
  }
  UpdateBoth<Optimizer, L, Forward::kStored>(c);
}

// The optimizer's sums over the tensor; lanes add up a stretch in their own precision.
template <template <class> class Optimizer, class L>
void Gather(const ParameterTensor& tensor, UpdateArguments<typename L::Real>& c,
            typename L::Real* /*workspace*/) {
  constexpr std::int64_t kStretch = 64 * L::kSize;
  constexpr int kSums = Optimizer<L>::kSums;
  std::array<double, kSums> sums{};
  const auto add = [&]<class Lane>(const Pass<Optimizer, Lane>& lanes, std::int64_t first,
                                   std::int64_t end) HWY_ATTR {
    std::array<Lane, kSums> partial = lanes.Terms(c, first);
    for (std::int64_t i = first + Lane::kSize; i < end; i += Lane::kSize) {
      const std::array<Lane, kSums> terms = lanes.Terms(c, i);
      for (int t = 0; t < kSums; ++t) partial[t] = Lane::Add(partial[t], terms[t]);
    }
    for (int t = 0; t < kSums; ++t) sums[t] += partial[t].Sum();
  };
  const Pass<Optimizer, L> lanes(c.coefficients);
  const std::int64_t whole = c.size / L::kSize * L::kSize;
  for (std::int64_t i = 0; i < whole; i += kStretch) add(lanes, i, std::min(i + kStretch, whole));
  const Pass<Optimizer, Rest<L>> rest(c.coefficients);
  if (whole < c.size) add(rest, whole, c.size);
  Optimizer<L>::Use(sums, tensor.size(), c.coefficients.own);
}

template <template <class> class Optimizer, class L>
UpdateKernels<typename L::Real> KernelsFor() {
  UpdateKernels<typename L::Real> kernels{.update = Update<Optimizer, L>, .prepare = nullptr};
  if constexpr (requires { Optimizer<L>::kSums; }) kernels.prepare = Gather<Optimizer, L>;
  if constexpr (requires { &Optimizer<L>::Prepare; }) kernels.prepare = Optimizer<L>::Prepare;
  return kernels;
}

template <template <class> class Optimizer>
OptimizerKernels MakeKernels() {
  return {.single = KernelsFor<Optimizer, Number<float, false>>(),
          .twofold = KernelsFor<Optimizer, Number<double, false>>(),
          .vectors = KernelsFor<Optimizer, Lanes<kBlock>>()};
}

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#endif  // include guard that each target toggles
