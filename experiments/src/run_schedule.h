// From a configuration to the schedule of its run: a list of actions and a rule of versions.
#pragma once

#include <optional>
#include <string_view>

#include "batchless/analysis/delay_model.h"
#include "batchless/hwmodel/schedule.h"
#include "batchless/training/trainer.h"
#include "config.h"

namespace batchless {

// Whether that kind's stages update after every micro-batch.
bool UpdatesEach(std::string_view kind);

// Without actions for kinds whose mini-batches drain, on however many workers there are. `options` have
// network, workers, processes, replicas, batch and micro-batch already. Throws UsageError and
// analysis::InvalidArgument naming section.key.
hwmodel::Schedule ScheduleOf(const Configuration& configuration,
                             const training::TrainerOptions& options);

// The delays of the kind random-delay, nothing with the others. Throws as ScheduleOf does.
std::optional<analysis::DelayModel> RandomDelaysOf(const Configuration& configuration);

}  // namespace batchless
