// The compiled half of the Python module: commands as functions of words, results as dicts and arrays.
//
// The program's table of commands says which functions there are (DescribeCommands); batchless/commands.py
// makes them, so a new option of a command is a keyword of its function without a line here.
//
// The work runs on a thread of its own without the interpreter's lock. The thread that called waits for it,
// looks for Ctrl-C ten times a second and tells `progress` how far it is.
#include "core.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "batchless/training/trainer.h"
#include "program.h"
#include "together.h"

namespace batchless {

py::object ToPython(const Json& json) {
  return py::module_::import("json").attr("loads")(JsonText(json));
}

py::array ToPython(training::NamedTensor array) {
  auto* values = new std::vector<double>(std::move(array.values));
  const py::capsule owner(values,
                          [](void* memory) { delete static_cast<std::vector<double>*>(memory); });
  return py::array_t<double>(array.shape, values->data(), owner);
}

void Raise(const std::exception_ptr& failure) {
  const Failure said = DescribeFailure(failure);
  const auto text = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(said.line.data(), static_cast<Py_ssize_t>(said.line.size()), "replace"));
  PyErr_SetObject(said.exit_code == kExitUsage ? PyExc_ValueError : PyExc_RuntimeError, text.ptr());
  throw py::error_already_set();
}

namespace {

py::tuple Run(const std::vector<std::string>& words, const py::object& progress) {
  WorkMonitor monitor;
  Json result;
  std::vector<training::NamedTensor> arrays;
  CommandHost host;
  host.monitor = &monitor;
  host.take_result = [&](const Json& object) { result = object; };
  host.take_array = [&](training::NamedTensor array) { arrays.push_back(std::move(array)); };
  RunInterruptibly(monitor, progress, [&] { RunCommand(words, host); });
  py::dict named;
  for (training::NamedTensor& array : arrays) {
    const py::str name(array.name);
    named[name] = ToPython(std::move(array));
  }
  return py::make_tuple(ToPython(result), named);
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled half of batchless.";
  module.def(
      "describe_commands", [] { return ToPython(DescribeCommands()); },
      "What each command of the program takes.");
  module.def("run", Run, py::arg("words"), py::arg("progress") = py::none(),
             "One command: its JSON object as a dict, and its arrays by name.");
  BindTrainer(module);
}

}  // namespace batchless
