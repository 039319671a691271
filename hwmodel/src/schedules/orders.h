// Schedules that are given by what each worker does in order. The steps follow: a worker does its
// next action in the first step in which its input is there and no other computation is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

/// What one worker does, in order.
using Order = std::vector<Action>;

/// Fills in the actions of a schedule of one slot a step. orders: (P), by worker. Throws
/// std::logic_error where the workers wait for each other for ever.
void SetActions(Schedule& schedule, const std::vector<Order>& orders);

/// The schedule with the actions of all its workers: append(order, worker, first) adds what a worker does in
/// the mini-batch of `count` micro-batches that begins with `first`.
template <class Append>
Schedule InOrder(Schedule schedule, std::int64_t count, const Append& append) {
  std::vector<Order> orders(static_cast<std::size_t>(schedule.workers()));
  int worker = 0;
  for (Order& order : orders) {
    for (std::int64_t first = 0; first < schedule.microbatches; first += count) {
      append(order, worker, first);
    }
    ++worker;
  }
  SetActions(schedule, orders);
  return schedule;
}

}  // namespace batchless::hwmodel
