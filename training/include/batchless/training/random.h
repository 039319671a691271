// Random numbers as a function of where they are used, not of when.
//
//   block_j = Philox4x32-10(key = seed, counter = (j, stream, a, b))      j = 0, 1, ...
//
//   seed     of the run, 64 bits
//   stream   what the numbers are for
//   a, b     which one: a sample, a parameter, an epoch, a stage
//
// Whoever knows (seed, stream, a, b) gets the same numbers, whatever the thread, the process or the
// order of work; so nothing has to be saved in a checkpoint or sent to another machine.
//
// Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC'11; its authors' Random123.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace batchless::training {

/// What a sequence of random numbers is for; the values are part of every recorded result.
enum class RandomStream : std::uint32_t {
  kInitialization = 1,  ///< a: parameter tensor
  kOrder = 2,           ///< a: epoch
  kAugmentation = 3,    ///< a: sample of the data set, b: epoch
  kDropout = 4,         ///< a: sample of the run, b: stage
  kSynthetic = 5,       ///< a: sample of the set, or class, b: which of them
  kMarkov = 6,          ///< a: symbol, b: class of an order; then a: 64, b: split
  kDelay = 7,           ///< a: first sample of the run in the update's mini-batch
};

/// One sequence of random numbers; cheap to make, at any place of the computation.
class CounterRandom {
 public:
  /// `a` below 2^56.
  CounterRandom(std::uint64_t seed, RandomStream stream, std::uint64_t a, std::uint32_t b = 0);

  std::uint32_t Next();
  /// Uniform over [0, 1), a multiple of 2^-53.
  double Uniform();
  /// Uniform over 0 .. bound-1, without bias; bound >= 1.
  std::uint32_t Below(std::uint32_t bound);
  /// Normal with mean 0 and variance 1 (Box and Muller).
  double Normal();

 private:
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;
  std::optional<double> normal_;  // the second of a pair
};

}  // namespace batchless::training

// Example
//   // The same place has the same numbers, whoever asks.
//   CounterRandom here(/*seed=*/1, RandomStream::kDropout, /*a=*/5);
//   CounterRandom there(1, RandomStream::kDropout, 5);
//   CHECK(here.Next() == there.Next());
//   CHECK(here.Uniform() == there.Uniform());
//   CHECK(here.Below(6) < 6);
