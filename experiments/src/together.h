// What processes that train together agree on: that all of them failed, or none.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "batchless/training/process_group.h"

namespace batchless {

// How the program ends: the line is for standard error.
struct Failure {
  int exit_code = 0;
  std::string line;
};

// "batchless: LINE" on standard error.
void Say(std::string_view line);

// How the program ends with what is being thrown.
Failure DescribeFailure(const std::exception_ptr& failure);

// All processes end, each with this exit code and, because it has been said, no line.
class AgreedFailure : public std::exception {
 public:
  explicit AgreedFailure(int exit_code) : failure_{exit_code, ""} {}

  const Failure& failure() const { return failure_; }
  const char* what() const noexcept override { return failure_.line.c_str(); }

 private:
  Failure failure_;
};

// Throws AgreedFailure in every process where the work failed in any, once the first process has said why and
// all know of the end; `own` is null where it did not fail here.
void AgreeOnFailure(training::ProcessGroup& group, const std::exception_ptr& own);

// Runs `work` in every process; alone, it throws what the work throws.
template <class Work>
void Together(training::ProcessGroup* group, Work work) {
  if (group == nullptr) return work();
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  AgreeOnFailure(*group, failure);
}

// What has to be the same in all processes: its name, as the user knows it, and its value. The same program
// lists the same names.
using Setting = std::pair<std::string, std::string>;

// Refuses the first setting of a process that is not that of the first process, by its name and with both
// values. Collective; alone, it does nothing.
void RequireAlike(training::ProcessGroup* group, const std::vector<Setting>& settings);

// Says which process failed and why, and ends all.
[[noreturn]] void AbortAll(training::ProcessGroup& group, const std::exception_ptr& failure);

// Runs `work`, in which processes need one another. What one of them alone fails with ends all of
// them, wherever they are; alone, it throws what the work throws.
template <class Work>
void OrAbort(training::ProcessGroup* group, Work work) {
  if (group == nullptr) return work();
  try {
    work();
  } catch (const AgreedFailure&) {
    throw;
  } catch (...) {
    AbortAll(*group, std::current_exception());
  }
}

}  // namespace batchless
