#include "batchless/analysis/cancellation.h"

#include <utility>

namespace batchless::analysis {
namespace {

thread_local const std::function<void()>* current = nullptr;

}  // namespace

CancellationCheck::CancellationCheck(std::function<void()> check)
    : check_(std::move(check)), before_(std::exchange(current, &check_)) {}

CancellationCheck::~CancellationCheck() { current = before_; }

void CheckCancellation() {
  if (current != nullptr) (*current)();
}

}  // namespace batchless::analysis
