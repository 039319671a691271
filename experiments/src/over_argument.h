// --over: for which functions a rule is tuned.
#pragma once

#include <array>
#include <string_view>

#include "argument.h"

namespace batchless {

class OverArgument {
 public:
  explicit OverArgument(CLI::App& command)
      : over_(
            command, "--over", "FUNCTIONS",
            "Tuned for quadratic functions (default) or convex, every smooth strongly convex one") {
  }

  // Every smooth strongly convex function; quadratics where the option is not given.
  bool IsConvex() const {
    constexpr std::array<std::string_view, 2> kFunctions = {"quadratic", "convex"};
    return over_.given() && over_.Choice(kFunctions) == 1;
  }
  void Refuse(std::string_view accepted) const { over_.Refuse(accepted); }

 private:
  Argument over_;
};

}  // namespace batchless
