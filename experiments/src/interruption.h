// Ctrl-C and its relatives: the program ends at once, with one line and without leaving a temporary
// file behind. The exit code is 128 + the signal's number, 130 for Ctrl-C.
#pragma once

#include <string>

namespace batchless {

// From here on SIGINT, SIGTERM and (unless it is ignored, as under nohup) SIGHUP end the program
// that way.
void InstallInterruptHandlers();

// While one of these lives, an interruption deletes the file.
class DeletedWhenInterrupted {
 public:
  // `path` has to be at most 4095 bytes, as the system demands too.
  explicit DeletedWhenInterrupted(const std::string& path);
  ~DeletedWhenInterrupted();
  DeletedWhenInterrupted(const DeletedWhenInterrupted&) = delete;
  DeletedWhenInterrupted& operator=(const DeletedWhenInterrupted&) = delete;
  DeletedWhenInterrupted(DeletedWhenInterrupted&&) = delete;
  DeletedWhenInterrupted& operator=(DeletedWhenInterrupted&&) = delete;

 private:
  int slot_;
};

}  // namespace batchless
