#include "command_host.h"

#include <csignal>

#include "interruption.h"

namespace batchless {

const CommandHost JsonOutput::kPrinting;

void CheckStopped(const WorkMonitor* monitor) {
  if (monitor != nullptr && monitor->stop) throw Interrupted(SIGINT, "interrupted");
}

void JsonOutput::Put(const Json& object) const {
  CheckStopped(host_->monitor);
  host_->take_result ? host_->take_result(object) : PrintText("{}\n", JsonText(object));
}

}  // namespace batchless
