#include "mpi_group.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "engine/waiting.h"

// The C interface alone.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace batchless::training {
namespace {

void Check(int status, const char* what) {
  if (status != MPI_SUCCESS) throw std::runtime_error(std::string("MPI: ") + what + " failed");
}

// A persistent request.
class MpiMessage final : public RepeatedMessage {
 public:
  explicit MpiMessage(MPI_Request request) : request_(request) {}
  ~MpiMessage() override {
    if (is_started_) {
      // A receive that nothing will come for.
      MPI_Cancel(&request_);
      MPI_Wait(&request_, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request_);
  }
  MpiMessage(const MpiMessage&) = delete;
  MpiMessage& operator=(const MpiMessage&) = delete;

  void Start() override {
    Check(MPI_Start(&request_), "starting a message");
    is_started_ = true;
  }
  bool IsDone() override {
    if (!is_started_) return true;
    int done = 0;
    Check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "testing a message");
    is_started_ = done == 0;
    return done != 0;
  }

 private:
  MPI_Request request_;
  bool is_started_ = false;
};

// Ends the process when its launcher is lost: MPI's start and end would wait for it for ever.
class LauncherWatch {
 public:
  LauncherWatch()
      : thread_([this, launcher = getppid()](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          while (!wakes_.wait_for(lock, stop, kPeriod, [&] { return stop.stop_requested(); })) {
            if (getppid() == launcher) continue;
            std::fputs("batchless: the launcher is lost\n", stderr);
            std::_Exit(1);
          }
        }) {}

 private:
  static constexpr auto kPeriod = std::chrono::milliseconds(50);

  std::mutex mutex_;
  std::condition_variable_any wakes_;
  std::jthread thread_;
};

class MpiGroup final : public ProcessGroup {
 public:
  MpiGroup() {
    int provided = 0;
    Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "the start");
    if (provided != MPI_THREAD_MULTIPLE) {
      MPI_Finalize();
      throw std::runtime_error("MPI: it does not serve several threads (MPI_THREAD_MULTIPLE)");
    }
    Check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "asking for the rank");
    Check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "asking for the size");
    // A machine's number is its first process's rank.
    MPI_Comm neighbours = MPI_COMM_NULL;
    Check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL,
                              &neighbours),
          "asking for the processes of this machine");
    int machine = rank_;
    Check(MPI_Bcast(&machine, 1, MPI_INT, 0, neighbours), "a broadcast");
    MPI_Comm_free(&neighbours);
    machines_.resize(static_cast<std::size_t>(size_));
    Check(MPI_Allgather(&machine, 1, MPI_INT, machines_.data(), 1, MPI_INT, MPI_COMM_WORLD),
          "asking for the processes' machines");
  }
  ~MpiGroup() override { MPI_Finalize(); }
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int machine_of(int rank) const override { return machines_[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<RepeatedMessage> MakeSend(int to, int channel,
                                            std::span<const std::byte> memory) override {
    MPI_Request request = MPI_REQUEST_NULL;
    Check(MPI_Send_init(memory.data(), Count(memory.size()), MPI_BYTE, to, channel, MPI_COMM_WORLD,
                        &request),
          "planning a message");
    return std::make_unique<MpiMessage>(request);
  }
  std::unique_ptr<RepeatedMessage> MakeReceive(int from, int channel,
                                               std::span<std::byte> memory) override {
    MPI_Request request = MPI_REQUEST_NULL;
    Check(MPI_Recv_init(memory.data(), Count(memory.size()), MPI_BYTE, from, channel,
                        MPI_COMM_WORLD, &request),
          "planning a message");
    return std::make_unique<MpiMessage>(request);
  }
  void Send(int to, std::span<const std::byte> memory) override {
    Transfer(memory, to, "to take a message", [&](auto* data, int bytes, MPI_Request* request) {
      Check(MPI_Isend(data, bytes, MPI_BYTE, to, kPlainChannel, MPI_COMM_WORLD, request),
            "sending");
    });
  }
  void Receive(int from, std::span<std::byte> memory) override {
    Transfer(memory, from, "to send a message", [&](auto* data, int bytes, MPI_Request* request) {
      Check(MPI_Irecv(data, bytes, MPI_BYTE, from, kPlainChannel, MPI_COMM_WORLD, request),
            "receiving");
    });
  }
  void Broadcast(int root, std::span<std::byte> memory) override {
    // What a root waits for may be any of the others.
    Transfer(memory, root, root == rank_ ? "to be heard in a broadcast" : "to broadcast",
             [&](auto* data, int bytes, MPI_Request* request) {
               Check(MPI_Ibcast(data, bytes, MPI_BYTE, root, MPI_COMM_WORLD, request),
                     "a broadcast");
             });
  }
  void Abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::abort();
  }

  void set_watchdog_seconds(double seconds) override { watchdog_seconds_ = seconds; }

 private:
  // start(data, bytes, request) and waits for it, piece by piece. MPI's own waits have no end: a process
  // that was stopped would stop all others.
  template <class Byte, class Start>
  void Transfer(std::span<Byte> memory, int partner, const char* what, Start start) const {
    for (std::size_t first = 0; first < memory.size(); first += kPiece) {
      const std::span<Byte> piece = memory.subspan(first, std::min(kPiece, memory.size() - first));
      MPI_Request request = MPI_REQUEST_NULL;
      start(piece.data(), Count(piece.size()), &request);
      const std::atomic<bool> never = false;
      const auto is_done = [&] {
        int done = 0;
        Check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "testing a message");
        return done != 0;
      };
      Await(
          never, watchdog_seconds_, is_done, [] {},
          [&](double seconds) {
            return "it has waited " + std::to_string(std::llround(seconds)) + " s for process " +
                   std::to_string(partner) + " " + what + ": it is stuck (watchdog_seconds)";
          });
    }
  }

  static constexpr int kPlainChannel = 32767;  // the last one that every MPI has
  static constexpr std::size_t kPiece = std::size_t{1} << 30;

  // MPI counts in int.
  static int Count(std::size_t bytes) {
    if (bytes > kPiece) throw std::runtime_error("MPI: a message of more than 1 GiB");
    return static_cast<int>(bytes);
  }

  LauncherWatch watch_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<int> machines_;  // by rank
  double watchdog_seconds_ = 0;
};

}  // namespace

std::shared_ptr<ProcessGroup> MakeMpiGroup() { return std::make_shared<MpiGroup>(); }

}  // namespace batchless::training
