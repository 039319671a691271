// What a call throws.
#pragma once

#include <string>

#include "batchless/analysis/argument.h"

namespace batchless::test {

// What the exception says; empty where none is thrown.
template <class Error = analysis::InvalidArgument, class Call>
std::string MessageOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The name of the argument that is refused; empty where none is.
template <class Call>
std::string RefusedName(const Call& call) {
  try {
    call();
  } catch (const analysis::InvalidArgument& error) {
    return error.name();
  }
  return "";
}

}  // namespace batchless::test
