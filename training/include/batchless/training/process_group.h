// Processes that train one network together, on one machine or on many.
//
// All of them make trainers of the same options and call the same functions of theirs in the same
// order: those functions are collective. Process p of the P that run a pipeline has the workers
// p W .. p W + W - 1 of the P W workers that share the stages, and holds the weights and activations of
// their stages alone. With R replicas of the pipeline there are R P processes; those of replica r are
// the processes r P .. r P + P - 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace batchless::training {

/// A message that is sent or received again and again, through the same memory and with the same
/// partner. One thread at a time.
class RepeatedMessage {
 public:
  virtual ~RepeatedMessage() = default;
  RepeatedMessage(const RepeatedMessage&) = delete;
  RepeatedMessage& operator=(const RepeatedMessage&) = delete;

  /// Begins; returns at once. The memory is the message's until it is done.
  virtual void Start() = 0;
  /// Whether the last Start is done, or there was none. Asking is what brings it forward.
  virtual bool IsDone() = 0;

 protected:
  RepeatedMessage() = default;
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  virtual int rank() const = 0;  ///< of this process, from 0; the first one talks to users
  virtual int size() const = 0;
  /// A number of the machine that process `rank` runs on: those that share memory and processors have
  /// the same.
  virtual int machine_of(int rank) const = 0;

  /// Messages of one channel arrive in the order in which they were started. Callable by any thread.
  virtual std::unique_ptr<RepeatedMessage> MakeSend(int to, int channel,
                                                    std::span<const std::byte> memory) = 0;
  virtual std::unique_ptr<RepeatedMessage> MakeReceive(int from, int channel,
                                                       std::span<std::byte> memory) = 0;

  /// Return when the memory may be used again. Apart from all channels.
  virtual void Send(int to, std::span<const std::byte> memory) = 0;
  virtual void Receive(int from, std::span<std::byte> memory) = 0;

  /// Collective: everybody's memory becomes that of `root`.
  virtual void Broadcast(int root, std::span<std::byte> memory) = 0;

  /// Ends all processes at once, wherever they are.
  [[noreturn]] virtual void Abort(int exit_code) = 0;

  /// From now on Send, Receive and Broadcast throw std::runtime_error, which names the process that they
  /// wait for, when that has not come for so long; 0, as at the start: they wait for ever. A group that
  /// does not override it always waits.
  virtual void set_watchdog_seconds(double /*seconds*/) {}

 protected:
  ProcessGroup() = default;
};

/// What `root` has, for everybody. Collective.
std::int64_t BroadcastNumber(ProcessGroup& group, int root, std::int64_t number);
std::string BroadcastText(ProcessGroup& group, int root, const std::string& text);

}  // namespace batchless::training

// Example
//   // The first process decides, alone or not.
//   const std::shared_ptr<ProcessGroup> group = JoinMpiProcesses();
//   const std::int64_t seed = group == nullptr ? 7 : BroadcastNumber(*group, /*root=*/0, 7);
//   CHECK(seed == 7);
