// The compiled half of the Python module: commands as functions of words, results as dicts and arrays.
//
// The program's table of commands says which functions there are (DescribeCommands); batchless/commands.py
// makes them, so a new option of a command is a keyword of its function without a line here.
//
// The work runs on a thread of its own without the interpreter's lock. The thread that called waits for it,
// looks for Ctrl-C ten times a second and tells `progress` how far it is.
#include "core.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "program.h"
#include "together.h"

namespace batchless {

py::object TextForPython(std::string_view text) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

// What has no number in JSON (infinities, NaN) is None, as the program prints null.
py::object ToPython(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return py::bool_(json.get<bool>());
    case Json::value_t::number_integer:
      return py::int_(json.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      return py::int_(json.get<std::uint64_t>());
    case Json::value_t::number_float:
      if (!std::isfinite(json.get<double>())) return py::none();
      return py::float_(json.get<double>());
    case Json::value_t::string:
      return TextForPython(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      py::list list(json.size());
      for (std::size_t i = 0; i < json.size(); ++i) list[i] = ToPython(json[i]);
      return list;
    }
    case Json::value_t::object: {
      py::dict dict;
      for (const auto& [key, value] : json.items()) dict[py::str(key)] = ToPython(value);
      return dict;
    }
    default:
      return py::none();
  }
}

// The array takes the vector's memory over.
py::array ToPython(ResultArray array) {
  auto* values = new std::vector<double>(std::move(array.values));
  const py::capsule owner(values,
                          [](void* memory) { delete static_cast<std::vector<double>*>(memory); });
  return py::array_t<double>(array.shape, values->data(), owner);
}

void RaiseLine(const py::handle& type, std::string_view line) {
  PyErr_SetObject(type.ptr(), TextForPython(line).ptr());
  throw py::error_already_set();
}

// What ends with exit code 2 on the command line is a ValueError, with the same line.
void Raise(const std::exception_ptr& failure) {
  const Failure said = DescribeFailure(failure);
  RaiseLine(said.exit_code == kExitUsage ? PyExc_ValueError : PyExc_RuntimeError, said.line);
}

namespace {

py::tuple Run(const std::vector<std::string>& words, const py::object& progress) {
  WorkMonitor monitor;
  Json result;
  std::vector<ResultArray> arrays;
  CommandHost host;
  host.monitor = &monitor;
  host.take_result = [&](const Json& object) { result = object; };
  host.take_array = [&](ResultArray array) { arrays.push_back(std::move(array)); };
  RunInterruptibly(monitor, progress, [&] { RunCommand(words, host); });
  py::dict named;
  for (ResultArray& array : arrays) {
    const py::str name(array.name);
    named[name] = ToPython(std::move(array));
  }
  return py::make_tuple(ToPython(result), named);
}

// A LIST of the command line, which reads back as the same bits.
std::string JoinNumbers(const py::array_t<double, py::array::c_style | py::array::forcecast>& all) {
  fmt::memory_buffer text;
  for (py::ssize_t i = 0; i < all.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "{}{}", i > 0 ? "," : "", all.data()[i]);
  }
  return fmt::to_string(text);
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled half of batchless.";
  module.def(
      "describe_commands", [] { return ToPython(DescribeCommands()); },
      "What each command of the program takes.");
  module.def("run", Run, py::arg("words"), py::arg("progress") = py::none(),
             "One command: its JSON object as a dict, and its arrays by name.");
  module.def("join_numbers", JoinNumbers, py::arg("values"), "Numbers as a LIST of the program's.");
  BindTrainer(module);
}

}  // namespace batchless
