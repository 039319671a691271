#include "batchless/hwmodel/action.h"

#include <charconv>
#include <system_error>

#include "checks.h"

namespace batchless::hwmodel {
namespace {

// In the order of ActionKind.
constexpr std::string_view kLetters = "FBWU";
constexpr std::array<std::string_view, 4> kActionNames = {"forward", "backward", "weight gradient",
                                                          "update"};

// Whether all of the text is a number without sign or spaces.
template <class Integer>
bool ReadNumber(std::string_view text, Integer& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end && text.front() != '-';
}

}  // namespace

char Letter(ActionKind kind) { return kLetters.at(static_cast<std::size_t>(kind)); }

std::string_view Name(ActionKind kind) { return kActionNames.at(static_cast<std::size_t>(kind)); }

std::string ToText(const Action& action) {
  return std::to_string(action.stage) + Letter(action.kind) + std::to_string(action.microbatch);
}

Action ParseAction(std::string_view text) {
  Action action;
  const std::size_t place = text.find_first_of(kLetters);
  RefuseIf(place == std::string_view::npos || !ReadNumber(text.substr(0, place), action.stage) ||
               !ReadNumber(text.substr(place + 1), action.microbatch),
           "action", text, "stage, one of F B W U, micro-batch, such as 2F0");
  action.kind = kActionKinds.at(kLetters.find(text[place]));
  return action;
}

}  // namespace batchless::hwmodel
