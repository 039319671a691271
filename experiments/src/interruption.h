// Ctrl-C and its relatives: the program ends at once, with one line and without leaving a temporary
// file behind. The exit code is 128 + the signal's number, 130 for Ctrl-C. Work that can be resumed
// asks to be told instead, and ends by itself.
#pragma once

#include <stdexcept>
#include <string>

namespace batchless {

// From here on SIGINT, SIGTERM and (unless it is ignored, as under nohup) SIGHUP end the program
// that way.
void InstallInterruptHandlers();

// From here on they end it without a word and with this exit code: why it ends is being said.
void InterruptSilently(int exit_code);

// While one of these lives, an interruption deletes the file.
class DeletedWhenInterrupted {
 public:
  // `path` has to be at most 4095 bytes, as the system demands too.
  explicit DeletedWhenInterrupted(const std::string& path);
  ~DeletedWhenInterrupted();
  DeletedWhenInterrupted(const DeletedWhenInterrupted&) = delete;
  DeletedWhenInterrupted& operator=(const DeletedWhenInterrupted&) = delete;

 private:
  int slot_;
};

// While it lives, the first interruption is only noted; a second one ends the program at once. One
// at a time.
class DeferredInterruption {
 public:
  DeferredInterruption();
  ~DeferredInterruption();
  DeferredInterruption(const DeferredInterruption&) = delete;
  DeferredInterruption& operator=(const DeferredInterruption&) = delete;

  // The signal's number, 0 before one came.
  int signal_number() const;
};

// How work that noted an interruption ends; `what()` is the line to print.
class Interrupted : public std::runtime_error {
 public:
  Interrupted(int signal_number, const std::string& line)
      : std::runtime_error(line), signal_number_(signal_number) {}

  int signal_number() const { return signal_number_; }

 private:
  int signal_number_;
};

}  // namespace batchless
