// A thread on one processor for as long as what PinThread returns lives.
#pragma once

#include <cstddef>
#include <memory>

namespace batchless::training {

// The calling thread goes to the n-th of the processors that it may use, round and round, and in the end,
// which has to come in this thread, back to all of them. Where the system has no such thing, or refuses,
// nothing happens.
std::shared_ptr<const void> PinThread(std::size_t number);

}  // namespace batchless::training
