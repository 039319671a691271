// A schedule: who does what when in a pipeline of four stages, and what follows from the list.
#include <cstdio>

#include "batchless/hwmodel/schedule_file.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"

using namespace batchless::hwmodel;

int main() {
  std::puts("kind              delays by stage  versions  in flight  utilisation");
  for (const ScheduleKind& kind : ScheduleKinds()) {
    const Schedule schedule = kind.make(
        {.stages = 4, .microbatches = 32, .microbatches_per_update = kind.updates_each ? 1 : 8});
    const ScheduleSummary summary = Summarize(schedule);
    std::printf("%-16.*s ", static_cast<int>(kind.name.size()), kind.name.data());
    for (const StageSummary& stage : summary.stages) {
      std::printf(" %3d", static_cast<int>(stage.forward_delay_updates));
    }
    std::printf("  %8d  %9d  %11.3f\n", static_cast<int>(summary.stages.front().weight_versions),
                static_cast<int>(summary.stages.front().activations_in_flight),
                summary.utilisation);
  }

  // Each action is a stage, what it does and a micro-batch: 0F1 is the forward of the second one.
  std::printf("\n%s", ToText(OneForwardOneBackward(/*stages=*/4, /*microbatches=*/4)).c_str());
}
