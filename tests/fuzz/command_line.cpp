// The command line: words, one a line, for every command that reaches for no network, trains
// nothing and does not take a minute by its nature.
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "batchless/training/trainer.h"
#include "fuzz.h"
#include "interruption.h"
#include "program.h"
#include "usage_error.h"

namespace batchless {
namespace {

using Clock = std::chrono::steady_clock;

// Stops a command's work after a while, from a thread of its own.
class Deadline {
 public:
  Deadline() : thread_([this] { Watch(); }) { thread_.detach(); }
  WorkMonitor& Begin() {
    monitor.stop = false;
    until_ = (Clock::now() + std::chrono::milliseconds(200)).time_since_epoch().count();
    return monitor;
  }
  WorkMonitor monitor;

 private:
  [[noreturn]] void Watch() {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (Clock::now().time_since_epoch().count() > until_) monitor.stop = true;
    }
  }
  std::atomic<Clock::rep> until_{0};
  std::thread thread_;
};

}  // namespace
}  // namespace batchless

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  static Deadline deadline;
  static const bool kMoved = [] {
    std::filesystem::current_path(fuzz::Folder());
    return true;
  }();
  fuzz::Require(kMoved);
  std::vector<std::string> words;
  for (std::string_view rest = fuzz::Text(data, size); !rest.empty();) {
    const std::size_t end = rest.find('\n');
    words.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    // Nothing is read or written outside the folder, and no number is so large that work takes long.
    if (words.back().find('/') != std::string::npos) return 0;
    if (words.back().find('\0') != std::string::npos) return 0;
  }
  if (words.empty()) return 0;
  for (const char* other : {"train", "data", "calibrate", "design", "help"}) {
    if (words.front() == other) return 0;
  }
  CommandHost host;
  host.take_result = [](const Json&) {};
  host.take_array = [](const training::NamedTensor&) {};
  host.monitor = &deadline.Begin();
  fuzz::Accepts([&] {
    try {
      RunCommand(words, host);
    } catch (const Interrupted&) {
    }
  });
  return 0;
}
