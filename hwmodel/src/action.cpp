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

// Reads a number without sign or spaces from the front of `text` and removes it.
template <class Integer>
bool TakeNumber(std::string_view& text, Integer& number) {
  if (text.empty() || text.front() == '-') return false;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;
  text = std::string_view(rest, static_cast<std::size_t>(end - rest));
  return true;
}

bool TakeKind(std::string_view& text, ActionKind& kind) {
  const std::size_t found = text.empty() ? std::string_view::npos : kLetters.find(text.front());
  if (found == std::string_view::npos) return false;
  kind = kActionKinds.at(found);
  text.remove_prefix(1);
  return true;
}

}  // namespace

char Letter(ActionKind kind) { return kLetters.at(static_cast<std::size_t>(kind)); }

std::string_view Name(ActionKind kind) { return kActionNames.at(static_cast<std::size_t>(kind)); }

std::string ToText(const Action& action) {
  return std::to_string(action.stage) + Letter(action.kind) + std::to_string(action.microbatch);
}

Action ParseAction(std::string_view text) {
  Action action;
  std::string_view rest = text;
  RefuseIf(!TakeNumber(rest, action.stage) || !TakeKind(rest, action.kind) ||
               !TakeNumber(rest, action.microbatch) || !rest.empty(),
           "action", text, "stage, one of F B W U, micro-batch, such as 2F0");
  return action;
}

}  // namespace batchless::hwmodel
