// Schedules that are given by what each worker does in order. The steps follow: a worker does its
// next action in the first step in which its input is there and no other computation is.
#pragma once

#include <vector>

#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

/// What one worker does, in order.
using Order = std::vector<Action>;

/// Fills in the actions of a schedule of one slot a step. orders: (P), by worker. Throws
/// std::logic_error where the workers wait for each other for ever.
void SetActions(Schedule& schedule, const std::vector<Order>& orders);

}  // namespace batchless::hwmodel
