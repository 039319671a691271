// Data sets of sequences of tokens: windows of one long text, each token's label the next one.
//
//   set      tokens                        vocabulary  split                            entropy
//   text     bytes of a file               256         the first 90 %, the rest         unknown
//   tokens   numbers of a list             any         the same                         unknown
//   markov   a Markov source of order 2    64          2^22 tokens, 2^16 others         2 bits a token
//
// Sample i of n = floor((tokens - 1) / C) is the window of C tokens that begins at token i C, with the
// tokens one later as its labels. The split is by position: no window lies in both parts.
//
// The source draws r = 0, 1, 2, ... with probability 2^-(r+1) (63 with 2^-63, too), and its next token is
// the r-th of an order of the 64 symbols that depends on the last token and on which of 4 classes the
// one before it is in. Orders and classes follow from the seed alone. Whatever came before, the next
// token's entropy is that of r, so the entropy rate is exactly
//
//   H = sum of (r + 1) 2^-(r+1) = 2 bits a token (2 - 2^-62)
//
// and a model's loss above it, in bits, is its excess. One that sees no more than a window cannot know
// what came before its first token: some hundredths of a bit at C = 128.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "batchless/training/dataset.h"

namespace batchless::training {

inline constexpr int kTextVocabulary = 256;
inline constexpr int kMarkovVocabulary = 64;
inline constexpr double kMarkovEntropyBits = 2;
inline constexpr std::uint64_t kMarkovSeed = 1;
inline constexpr std::int64_t kMarkovTrainTokens = std::int64_t{1} << 22;
inline constexpr std::int64_t kMarkovValidationTokens = std::int64_t{1} << 16;

/// `tokens`, in the split's share of them; `name` and `file` are what errors say. Throws DataError for
/// fewer tokens than both splits need, and naming the record for a token that is not from 0 to
/// vocabulary - 1; analysis::InvalidArgument unless context >= 1.
std::shared_ptr<const Dataset> MakeTokens(const std::string& name,
                                          const std::filesystem::path& file,
                                          const std::vector<std::int64_t>& tokens, Split split,
                                          int context, int vocabulary);

/// The bytes of a file, plain or with .gz. Throws DataError, for an empty one too.
std::vector<std::int64_t> ReadTextTokens(const std::filesystem::path& file);

/// Tokens of the source; those of a split are a prefix of every longer one of the seed.
std::shared_ptr<const Dataset> MakeMarkov(std::uint64_t seed, Split split, int context,
                                          std::int64_t train_tokens = kMarkovTrainTokens,
                                          std::int64_t validation_tokens = kMarkovValidationTokens);

}  // namespace batchless::training

// Example
//   const std::shared_ptr<const Dataset> data =
//       MakeMarkov(/*seed=*/1, Split::kTrain, /*context=*/16, /*train_tokens=*/1000, 100);
//   CHECK(data->size() == 999 / 16);
//   std::vector<std::int32_t> window(16 + 1);
//   data->ReadTokens(0, window);
//   CHECK(window[16] == data->label(0));
//   CHECK(data->entropy_bits() == 2);
