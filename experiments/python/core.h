// What the two parts of the compiled half share: values for Python, failures as exceptions, and work that
// Ctrl-C ends.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <chrono>
#include <exception>
#include <future>

#include "command_host.h"

namespace batchless {

namespace py = pybind11;

// As json.loads() makes it of what the program prints: None of what has no number in JSON (infinities, NaN).
py::object ToPython(const Json& json);
// The array takes the vector's memory over.
py::array ToPython(training::NamedTensor array);

// What ends with exit code 2 on the command line is a ValueError, with the same line. What a file or path holds
// need not be UTF-8: U+FFFD stands for what is none.
[[noreturn]] void Raise(const std::exception_ptr& failure);

void BindTrainer(py::module_& module);

// How often a thread that works or waits looks for Ctrl-C.
inline constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

// Calls work() on another thread until it ends. Raises KeyboardInterrupt, and what `progress` raises, once
// the work has come to the place where it stops.
template <class Work>
void RunInterruptibly(WorkMonitor& monitor, const py::object& progress, Work work) {
  std::future<void> done;
  {
    const py::gil_scoped_release release;
    done = std::async(std::launch::async, work);
  }
  const auto is_done = [&] {
    const py::gil_scoped_release release;
    return done.wait_for(kBetweenLooks) == std::future_status::ready;
  };
  const auto stop = [&] {
    monitor.stop = true;
    const py::gil_scoped_release release;
    done.wait();
  };
  const auto tell = [&] {
    const std::size_t total = monitor.total;
    if (!progress.is_none() && total > 0) progress(std::size_t{monitor.done}, total);
  };
  try {
    while (!is_done()) {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      tell();
    }
    tell();
  } catch (...) {
    stop();
    throw;
  }
  try {
    done.get();
  } catch (...) {
    Raise(std::current_exception());
  }
}

// The same of work that nobody follows.
template <class Work>
void RunInterruptibly(Work work) {
  WorkMonitor monitor;
  RunInterruptibly(monitor, py::none(), work);
}

}  // namespace batchless
