// A group of processes that are threads of this one: what goes through memory here goes over a wire
// there. Messages arrive as late as they may.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "batchless/training/process_group.h"

namespace batchless::training {

class ThreadExchange {
 public:
  using Line = std::tuple<int, int, int>;  // from, to, channel

  // Messages are received in the order in which they were started, whichever comes first.
  std::int64_t NumberToSend(const Line& line) {
    const std::lock_guard lock(mutex_);
    return lines_[line].sent++;
  }
  void Deposit(const Line& line, std::int64_t number, std::span<const std::byte> memory) {
    const std::lock_guard lock(mutex_);
    lines_[line].content[number] = {memory.begin(), memory.end()};
    arrived_.notify_all();
  }
  std::int64_t TakeNumber(const Line& line) {
    const std::lock_guard lock(mutex_);
    return lines_[line].received++;
  }
  // Takes the newest number back, which will not be collected.
  void ReturnNumber(const Line& line) {
    const std::lock_guard lock(mutex_);
    --lines_[line].received;
  }
  bool Collect(const Line& line, std::int64_t number, std::span<std::byte> memory) {
    const std::lock_guard lock(mutex_);
    return CollectLocked(line, number, memory);
  }
  void Await(const Line& line, std::int64_t number, std::span<std::byte> memory) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return CollectLocked(line, number, memory); });
  }

 private:
  struct State {
    std::int64_t sent = 0;
    std::int64_t received = 0;
    std::map<std::int64_t, std::vector<std::byte>> content;
  };

  bool CollectLocked(const Line& line, std::int64_t number, std::span<std::byte> memory) {
    State& state = lines_[line];
    const auto found = state.content.find(number);
    if (found == state.content.end()) return false;
    // A message of another length is a mistake that no waiting mends.
    if (found->second.size() != memory.size()) std::abort();
    std::copy(found->second.begin(), found->second.end(), memory.begin());
    state.content.erase(found);
    return true;
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Line, State> lines_;
};

class ThreadGroup final : public ProcessGroup {
 public:
  ThreadGroup(int rank, int size, std::shared_ptr<ThreadExchange> exchange)
      : rank_(rank), size_(size), exchange_(std::move(exchange)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int machine_of(int /*rank*/) const override { return 0; }

  std::unique_ptr<RepeatedMessage> MakeSend(int to, int channel,
                                            std::span<const std::byte> memory) override {
    return std::make_unique<SendMessage>(*exchange_, std::tuple(rank_, to, channel), memory);
  }
  std::unique_ptr<RepeatedMessage> MakeReceive(int from, int channel,
                                               std::span<std::byte> memory) override {
    return std::make_unique<ReceiveMessage>(*exchange_, std::tuple(from, rank_, channel), memory);
  }
  void Send(int to, std::span<const std::byte> memory) override {
    const ThreadExchange::Line line{rank_, to, kPlain};
    exchange_->Deposit(line, exchange_->NumberToSend(line), memory);
  }
  void Receive(int from, std::span<std::byte> memory) override {
    const ThreadExchange::Line line{from, rank_, kPlain};
    exchange_->Await(line, exchange_->TakeNumber(line), memory);
  }
  void Broadcast(int root, std::span<std::byte> memory) override {
    for (int to = 0; rank_ == root && to < size_; ++to) {
      if (to != root) Send(to, memory);
    }
    if (rank_ != root) Receive(root, memory);
  }
  void Abort(int /*exit_code*/) override { std::abort(); }

 private:
  static constexpr int kPlain = -1;

  class SendMessage final : public RepeatedMessage {
   public:
    SendMessage(ThreadExchange& exchange, ThreadExchange::Line line,
                std::span<const std::byte> memory)
        : exchange_(exchange), line_(std::move(line)), memory_(memory) {}
    void Start() override {
      left_ = kDelay;
      number_ = exchange_.NumberToSend(line_);
    }
    // Leaves when it has been asked for a few times, or by force when it ends.
    bool IsDone() override {
      if (left_ > 0 && --left_ == 0) exchange_.Deposit(line_, number_, memory_);
      return left_ == 0;
    }

   private:
    static constexpr int kDelay = 3;
    ThreadExchange& exchange_;
    ThreadExchange::Line line_;
    std::span<const std::byte> memory_;
    std::int64_t number_ = 0;
    int left_ = 0;
  };

  class ReceiveMessage final : public RepeatedMessage {
   public:
    ReceiveMessage(ThreadExchange& exchange, ThreadExchange::Line line, std::span<std::byte> memory)
        : exchange_(exchange), line_(std::move(line)), memory_(memory) {}
    ~ReceiveMessage() override {
      if (number_ >= 0) exchange_.ReturnNumber(line_);
    }
    ReceiveMessage(const ReceiveMessage&) = delete;
    ReceiveMessage& operator=(const ReceiveMessage&) = delete;
    ReceiveMessage(ReceiveMessage&&) = delete;
    ReceiveMessage& operator=(ReceiveMessage&&) = delete;
    void Start() override { number_ = exchange_.TakeNumber(line_); }
    bool IsDone() override {
      if (number_ >= 0 && exchange_.Collect(line_, number_, memory_)) number_ = -1;
      return number_ < 0;
    }

   private:
    ThreadExchange& exchange_;
    ThreadExchange::Line line_;
    std::span<std::byte> memory_;
    std::int64_t number_ = -1;
  };

  int rank_;
  int size_;
  std::shared_ptr<ThreadExchange> exchange_;
};

// Runs `work(group)` as that many processes. Throws what the first one of them threw.
inline void RunAsProcesses(int processes,
                           const std::function<void(const std::shared_ptr<ProcessGroup>&)>& work) {
  const auto exchange = std::make_shared<ThreadExchange>();
  std::vector<std::exception_ptr> failures(processes);
  {
    std::vector<std::jthread> threads;
    threads.reserve(processes);
    for (int p = 0; p < processes; ++p) {
      threads.emplace_back([&, p] {
        try {
          work(std::make_shared<ThreadGroup>(p, processes, exchange));
        } catch (...) {
          failures[p] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace batchless::training
