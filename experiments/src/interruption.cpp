#include "interruption.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <stdexcept>

namespace batchless {
namespace {

constexpr std::size_t kPathBytes = 4096;

// Fixed storage: a signal handler may not allocate, lock or touch a std::string.
struct Slot {
  std::atomic<bool> taken = false;
  std::atomic<bool> armed = false;
  std::array<char, kPathBytes> path = {};
};
std::array<Slot, 8> slots;
static_assert(std::atomic<bool>::is_always_lock_free);

std::atomic<bool> deferred = false;
std::atomic<int> noted_signal = 0;
std::atomic<std::int64_t> noted_at = 0;
std::atomic<int> silent_exit_code = 0;
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t NowMilliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1000} * now.tv_sec + now.tv_nsec / 1'000'000;
}

template <std::size_t n>
void WriteText(const char (&text)[n]) {
  // Nothing can be done about an error stream that cannot be written.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, n - 1);
}

void HandleInterrupt(int signal_number) {
  const int exit_code = silent_exit_code;
  if (exit_code == 0 && deferred) {
    // Programs like `timeout` send one signal to a process and then to its group: the same one twice.
    constexpr std::int64_t kOneInterruption = 500;
    int none = 0;
    if (noted_signal.compare_exchange_strong(none, signal_number)) {
      noted_at = NowMilliseconds();
      return;
    }
    if (NowMilliseconds() - noted_at < kOneInterruption) return;
  }
  for (Slot& slot : slots) {
    if (slot.armed) unlink(slot.path.data());
  }
  if (exit_code != 0) _exit(exit_code);
  // Takes the place of a progress bar's line.
  if (isatty(STDERR_FILENO) != 0) WriteText("\r\033[K");
  WriteText("batchless: interrupted\n");
  _exit(128 + signal_number);
}

}  // namespace

void InstallInterruptHandlers() {
  // A file at its size limit is a failed write, reported like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  struct sigaction action = {};
  action.sa_handler = HandleInterrupt;
  sigfillset(&action.sa_mask);
  // A noted interruption must not make a write fail half-way.
  action.sa_flags = SA_RESTART;
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction previous = {};
    sigaction(signal_number, nullptr, &previous);
    if (signal_number == SIGHUP && previous.sa_handler == SIG_IGN) continue;
    sigaction(signal_number, &action, nullptr);
  }
}

void InterruptSilently(int exit_code) { silent_exit_code = exit_code; }

DeletedWhenInterrupted::DeletedWhenInterrupted(const std::string& path) : slot_(-1) {
  if (path.size() >= kPathBytes) throw std::runtime_error("the path is too long: " + path);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].taken.exchange(true)) continue;
    std::memcpy(slots[i].path.data(), path.c_str(), path.size() + 1);
    slots[i].armed = true;
    slot_ = static_cast<int>(i);
    return;
  }
  throw std::runtime_error("too many files are being written at a time");
}

DeletedWhenInterrupted::~DeletedWhenInterrupted() {
  Slot& slot = slots[slot_];
  slot.armed = false;
  slot.taken = false;
}

DeferredInterruption::DeferredInterruption() {
  noted_signal = 0;
  deferred = true;
}

DeferredInterruption::~DeferredInterruption() { deferred = false; }

int DeferredInterruption::signal_number() const { return noted_signal; }

}  // namespace batchless
