// Numbers and lists of numbers as they are written on the command line.
//
//   NUMBER   decimal, with or without exponent; an INTEGER may be written as 1e3
//   LIST     items separated by commas, each a NUMBER or one of
//              lin:LO:HI:N     N values evenly spaced over [LO, HI]
//              log:LO:HI:N     N values with evenly spaced logarithms over [LO, HI]; where LO <= 0,
//                              over [10^LO, 10^HI]
//              log1m:LO:HI:N   1 - 10^u for N values u evenly spaced over [LO, HI]: momenta that
//                              crowd towards 1
//
// LO and HI are met exactly; N = 1 gives LO alone. In a list of integers the values of lin, log and
// log1m are rounded, and what repeats is dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace batchless {

// Words of which a text has to be one.
using Choices = std::vector<std::string_view>;

// What LIST stands for, in the help of a command that takes one.
std::string ListHelp();

// Accepted values, both ends included.
struct NumberRange {
  double low;
  double high;
  std::string_view why = {};  // follows the text: "; ..."

  bool Contains(double value) const { return value >= low && value <= high; }  // no NaN
  std::string Text() const;      // "a number from LOW to HIGH"
  std::string ListText() const;  // the same for LIST
};

struct IntegerRange {
  std::int64_t low;
  std::int64_t high;

  bool Contains(double value) const;
  std::string Text() const;
  std::string ListText() const;
};

// Seeds of random numbers, and samples in a micro-batch.
inline constexpr IntegerRange kSeedRange{0, 4'294'967'295};
inline constexpr IntegerRange kMicrobatchRange{1, 65'536};

// Most values that one range of a list may ask for.
inline constexpr std::int64_t kMaxListCount = 10'000'000;

enum class Repeats { kDrop, kKeep };

// Each throws UsageError with `name`, the text that is wrong and what is accepted.
double ParseNumber(std::string_view name, std::string_view text, const NumberRange& range);
std::int64_t ParseInteger(std::string_view name, std::string_view text, const IntegerRange& range);
std::vector<double> ParseNumberList(std::string_view name, std::string_view text,
                                    const NumberRange& range);
std::vector<std::int64_t> ParseIntegerList(std::string_view name, std::string_view text,
                                           const IntegerRange& range,
                                           Repeats repeats = Repeats::kDrop);

// The items between the commas; at least one, any of them may be empty.
std::vector<std::string_view> SplitList(std::string_view text, char separator = ',');

}  // namespace batchless
