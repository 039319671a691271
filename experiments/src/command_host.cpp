#include "command_host.h"

#include <csignal>

#include "interruption.h"

namespace batchless {

void CheckStopped(const WorkMonitor* monitor) {
  if (monitor != nullptr && monitor->stop) throw Interrupted(SIGINT, "interrupted");
}

void JsonOutput::Put(const Json& object) const {
  CheckStopped(host.monitor);
  host.take_result ? host.take_result(object) : PrintText("{}\n", JsonText(object));
}

}  // namespace batchless
