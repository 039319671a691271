#include "batchless/training/process_group.h"

namespace batchless::training {

std::int64_t BroadcastNumber(ProcessGroup& group, int root, std::int64_t number) {
  group.Broadcast(root, std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

std::string BroadcastText(ProcessGroup& group, int root, const std::string& text) {
  std::string all = text;
  all.resize(BroadcastNumber(group, root, static_cast<std::int64_t>(text.size())));
  group.Broadcast(root, std::as_writable_bytes(std::span(all)));
  return all;
}

}  // namespace batchless::training
