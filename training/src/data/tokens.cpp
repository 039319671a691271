#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/training/data_error.h"
#include "batchless/training/sha256.h"
#include "batchless/training/token_dataset.h"
#include "data/data_file.h"

namespace batchless::training {
namespace {

using analysis::RefuseIf;

// Tokens as they are, whatever the windows.
class TokenDataset final : public Dataset {
 public:
  TokenDataset(std::string name, std::vector<std::int32_t> tokens, int context, int vocabulary,
               double entropy_bits)
      : Dataset(ContentOf(std::move(name), tokens, context, vocabulary, entropy_bits)),
        tokens_(std::move(tokens)) {}

 private:
  static Content ContentOf(std::string name, const std::vector<std::int32_t>& tokens, int context,
                           int vocabulary, double entropy_bits) {
    Content content;
    content.name = std::move(name);
    content.shape = {1, context, 1};
    content.classes = vocabulary;
    content.context = context;
    content.entropy_bits = entropy_bits;
    for (std::size_t end = static_cast<std::size_t>(context); end < tokens.size();
         end += static_cast<std::size_t>(context)) {
      content.labels.push_back(tokens[end]);
    }
    Sha256 digest;
    digest.Update(std::as_bytes(std::span(tokens)));
    content.digest = digest.HexDigest();
    return content;
  }

  void DoReadTokens(std::int64_t sample, std::span<std::int32_t> tokens) const override {
    std::copy_n(tokens_.begin() + sample * shape().height, tokens.size(), tokens.begin());
  }

  std::vector<std::int32_t> tokens_;
};

// Orders of the symbols by the class of the token before the last and by the last one.
class MarkovSource {
 public:
  explicit MarkovSource(std::uint64_t seed) {
    for (std::uint32_t class_number = 0; class_number < kClasses; ++class_number) {
      for (std::uint32_t last = 0; last < kMarkovVocabulary; ++last) {
        order_[class_number][last] =
            Shuffled(CounterRandom(seed, RandomStream::kMarkov, last, class_number));
      }
    }
    const Order shuffled = Shuffled(CounterRandom(seed, RandomStream::kMarkov, 0, kClasses));
    for (std::size_t i = 0; i < shuffled.size(); ++i) class_[shuffled[i]] = i % kClasses;
  }

  std::vector<std::int32_t> Draw(CounterRandom random, std::int64_t count) const {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    std::int32_t before = 0;
    std::int32_t last = 0;
    for (std::int32_t& token : tokens) {
      // Zeros at the end of 63 random bits: r with probability 2^-(r+1).
      const std::uint64_t bits = random.Next() | std::uint64_t{random.Next()} << 32;
      const int r = std::countr_zero(bits | std::uint64_t{1} << 63);
      token = order_[class_[before]][last][r];
      before = std::exchange(last, token);
    }
    return tokens;
  }

 private:
  static constexpr std::uint32_t kClasses = 4;
  using Order = std::array<std::uint8_t, kMarkovVocabulary>;

  static Order Shuffled(CounterRandom random) {
    Order order;
    std::iota(order.begin(), order.end(), std::uint8_t{0});
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random.Below(static_cast<std::uint32_t>(i))]);
    }
    return order;
  }

  std::array<std::array<Order, kMarkovVocabulary>, kClasses> order_;
  std::array<std::size_t, kMarkovVocabulary> class_;
};

}  // namespace

std::shared_ptr<const Dataset> MakeTokens(const std::string& name,
                                          const std::filesystem::path& file,
                                          const std::vector<std::int64_t>& tokens, Split split,
                                          int context, int vocabulary) {
  RefuseIf(context < 1, "context", context, "at least 1");
  const auto size = std::ssize(tokens);
  const std::int64_t train = size - size / 10;
  const std::int64_t least = std::int64_t{context} + 1;
  if (size / 10 < least) {
    throw DataError(file, std::to_string(size) +
                              " tokens, whose last tenth is shorter than a window of " +
                              std::to_string(context) + " and the token behind it: at least " +
                              std::to_string(10 * least));
  }
  std::vector<std::int32_t> kept;
  const std::int64_t begin = split == Split::kTrain ? 0 : train;
  const std::int64_t end = split == Split::kTrain ? train : size;
  kept.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t token = tokens[static_cast<std::size_t>(i)];
    if (token < 0 || token >= vocabulary) {
      throw DataError(
          file, i,
          "the token is " + std::to_string(token) + ", not 0 to " + std::to_string(vocabulary - 1));
    }
    kept.push_back(static_cast<std::int32_t>(token));
  }
  return std::make_shared<TokenDataset>(name, std::move(kept), context, vocabulary, 0);
}

std::vector<std::int64_t> ReadTextTokens(const std::filesystem::path& file) {
  const std::vector<std::uint8_t> bytes = ReadDataFile(file);
  return {bytes.begin(), bytes.end()};
}

std::shared_ptr<const Dataset> MakeMarkov(std::uint64_t seed, Split split, int context,
                                          std::int64_t train_tokens,
                                          std::int64_t validation_tokens) {
  RefuseIf(context < 1, "context", context, "at least 1");
  const std::int64_t count = split == Split::kTrain ? train_tokens : validation_tokens;
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 32;
  RefuseIf(count <= context || count > kMostTokens,
           split == Split::kTrain ? "train_tokens" : "validation_tokens", count,
           "more than the context's " + std::to_string(context) + ", at most 2^32");
  // Behind the orders' sequences, one for each split.
  const CounterRandom random(seed, RandomStream::kMarkov, kMarkovVocabulary,
                             static_cast<std::uint32_t>(split));
  return std::make_shared<TokenDataset>("markov", MarkovSource(seed).Draw(random, count), context,
                                        kMarkovVocabulary, kMarkovEntropyBits);
}

}  // namespace batchless::training
