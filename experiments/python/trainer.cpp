// Training from Python: one run of the program's (training_run.h), step by step, or on samples of the
// caller's own. batchless/trainer.py makes the class that users see.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "config.h"
#include "core.h"
#include "training_run.h"
#include "usage_error.h"

namespace batchless {
namespace {

using training::NamedTensor;
using training::SampleResult;
using Clock = std::chrono::steady_clock;

constexpr auto kBetweenSignals = std::chrono::milliseconds(100);

std::string ShapeText(const py::array& array) {
  return py::str(array.attr("shape")).cast<std::string>();
}

// Images one after the other, copied only where an array lies in memory otherwise, and their labels.
struct Samples {
  py::array_t<float, py::array::c_style> images;
  std::vector<int> labels;
};

class PythonTrainer {
 public:
  PythonTrainer(const std::string& text, const std::string& path,
                const std::vector<std::string>& overrides, const std::optional<std::string>& out,
                bool resume) {
    RunInterruptibly([&] {
      TrainingRunOptions options;
      options.configuration = ParseConfiguration(text, path, overrides);
      options.out = out;
      options.resume = resume;
      options.shows_progress = false;
      run_ = std::make_unique<TrainingRun>(options);
    });
  }

  // The next row of metrics.csv, None at the run's end.
  py::object NextRow(const py::object& progress) {
    const Turn turn(*this);
    WorkMonitor monitor;
    monitor.total = static_cast<std::size_t>(run_->total_samples());
    monitor.done = static_cast<std::size_t>(run_->samples());
    std::optional<MetricsRow> row;
    RunInterruptibly(monitor, progress, [&] {
      if (closed_) return;
      if (!opened_) run_->Open();
      opened_ = true;
      row = run_->EndLearned();
      while (!row && !run_->is_over() && !monitor.stop) {
        row = run_->Step();
        monitor.done = static_cast<std::size_t>(run_->samples());
      }
      if (run_->is_over()) {
        closed_ = true;
        run_->Close();
      } else if (monitor.stop) {
        run_->Keep();
      }
    });
    // Rows may follow each other faster than anybody looks for Ctrl-C.
    if (PyErr_CheckSignals() != 0) {
      if (!closed_) {
        const py::gil_scoped_release release;
        run_->Keep();
      }
      throw py::error_already_set();
    }
    if (!row) return py::none();
    py::dict values;
    values["samples"] = row->samples;
    values["epoch"] = row->epoch;
    values["learning_rate"] = row->learning_rate;
    values["train_loss"] = row->measured.train_loss;
    values["train_accuracy"] = row->measured.train_accuracy;
    values["validation_loss"] = row->measured.validation_loss;
    values["validation_accuracy"] = row->measured.validation_accuracy;
    return values;
  }

  py::list Learn(const py::object& x, const py::object& y) {
    const Turn turn(*this);
    const Samples samples = SamplesOf(x, y);
    const std::size_t size = static_cast<std::size_t>(input().elements());
    const float* const images = samples.images.data();
    std::vector<SampleResult> results;
    std::exception_ptr failure;
    std::size_t next = 0;
    while (next < samples.labels.size() && !failure) {
      {
        const py::gil_scoped_release release;
        const Clock::time_point end = Clock::now() + kBetweenSignals;
        try {
          do {
            const std::vector<SampleResult> done =
                run_->Learn({images + next * size, size}, samples.labels[next]);
            results.insert(results.end(), done.begin(), done.end());
            ++next;
          } while (next < samples.labels.size() && Clock::now() < end);
        } catch (...) {
          failure = std::current_exception();
        }
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    if (failure) RaiseOfSample(failure);
    return ListOf(results);
  }

  py::list Finish() {
    const Turn turn(*this);
    std::vector<SampleResult> results;
    RunInterruptibly([&] { results = run_->Finish(); });
    return ListOf(results);
  }

  // Where x is None, the validation set is evaluated.
  py::dict Evaluate(const py::object& x, const py::object& y) {
    const Turn turn(*this);
    training::Evaluation evaluation;
    if (x.is_none()) {
      if (!run_->has_data()) {
        Refuse("x", "nothing", "images, and y their labels: there is no data set");
      }
      if (!y.is_none()) Refuse("x", "nothing", "images, where y is their labels");
      RunInterruptibly([&] { evaluation = run_->Evaluate(); });
    } else {
      const Samples samples = SamplesOf(x, y);
      if (samples.labels.empty()) Refuse("x", "no image", "at least one");
      const training::MemorySource source(
          {input().channels, input().height, input().width},
          {samples.images.data(), static_cast<std::size_t>(samples.images.size())}, samples.labels);
      RunInterruptibly([&] {
        evaluation = run_->Evaluate(source, static_cast<std::int64_t>(samples.labels.size()));
      });
    }
    py::dict values;
    values["samples"] = evaluation.samples;
    values["loss"] = evaluation.loss;
    values["accuracy"] = evaluation.accuracy;
    return values;
  }

  py::dict Weights() {
    const Turn turn(*this);
    std::vector<NamedTensor> tensors;
    {
      const py::gil_scoped_release release;
      tensors = run_->trainer().ExportWeights();
    }
    const bool is_double = run_->trainer_options().precision == training::Precision::kDouble;
    py::dict weights;
    for (NamedTensor& tensor : tensors) {
      if (is_double) {
        ResultArray array{tensor.name, {tensor.shape.begin(), tensor.shape.end()}, {}};
        array.values = std::move(tensor.values);
        weights[py::str(tensor.name)] = ToPython(std::move(array));
      } else {
        py::array_t<float> array(tensor.shape);
        std::ranges::transform(tensor.values, array.mutable_data(),
                               [](double value) { return static_cast<float>(value); });
        weights[py::str(tensor.name)] = array;
        tensor.values = {};
      }
    }
    return weights;
  }

  void SetWeights(const py::dict& weights) {
    const Turn turn(*this);
    std::vector<NamedTensor> tensors;
    const py::object can_cast = py::module_::import("numpy").attr("can_cast");
    for (const auto& [name, value] : weights) {
      const std::string tensor = py::str(name).cast<std::string>();
      const py::array given = ArrayOf(tensor, value, kRealNumbers);
      if (!can_cast(given.dtype(), "float64", "same_kind").cast<bool>()) {
        Refuse(tensor, KindOf(given), kRealNumbers);
      }
      const py::array_t<double, py::array::c_style | py::array::forcecast> array(given);
      tensors.push_back({tensor,
                         {array.shape(), array.shape() + array.ndim()},
                         {array.data(), array.data() + array.size()}});
    }
    RunInterruptibly([&] { run_->ImportWeights(tensors); });
  }

  void Save(const std::string& path) {
    const Turn turn(*this);
    RunInterruptibly([&] { run_->SaveTo(path); });
  }

  void Load(const std::string& path) {
    const Turn turn(*this);
    RunInterruptibly([&] {
      run_->LoadFrom(path);
      opened_ = false;
      closed_ = false;
    });
  }

  py::object Summary() {
    const Turn turn(*this);
    return ToPython(run_->Summary());
  }

  std::string WeightsSha256() {
    const Turn turn(*this);
    return run_->trainer().WeightsSha256();
  }

  py::array_t<std::int64_t> Delays() {
    const Turn turn(*this);
    const std::vector<std::int64_t> delays = run_->trainer().delays();
    return py::array_t<std::int64_t>(static_cast<py::ssize_t>(delays.size()), delays.data());
  }

  py::dict PredictMemory() {
    const Turn turn(*this);
    const hwmodel::TrainingMemory memory = training::PredictMemory(run_->trainer_options());
    py::dict values;
    values["total_bytes"] = memory.total();
    values["peak_bytes"] = memory.peak();
    values["allocated_bytes"] = run_->trainer().memory_bytes();
    return values;
  }

  std::string ConfigurationText() const {
    return batchless::ConfigurationText(run_->configuration());
  }
  // For other threads while one trains, too: between phases there is no trainer to ask.
  std::int64_t samples() const { return run_->samples(); }
  std::optional<std::int64_t> total_samples() const {
    if (run_->total_samples() == 0) return std::nullopt;
    return run_->total_samples();
  }
  bool has_data() const { return run_->has_data(); }
  py::tuple input_shape() const {
    return py::make_tuple(input().channels, input().height, input().width);
  }
  int classes() const { return run_->trainer_options().network.classes; }

 private:
  // A call at a time: the lock that Python has is given up while one trains.
  class Turn {
   public:
    explicit Turn(PythonTrainer& trainer) : trainer_(trainer) {
      if (trainer_.is_busy_.exchange(true)) {
        throw std::runtime_error("the trainer is at work in another thread");
      }
    }
    ~Turn() { trainer_.is_busy_ = false; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    PythonTrainer& trainer_;
  };

  [[noreturn]] static void Refuse(std::string_view name, const std::string& got,
                                  const std::string& accepted) {
    RaiseLine(PyExc_ValueError, fmt::format("{}: got {}, accepted: {}", name, got, accepted));
  }

  static constexpr const char* kRealNumbers = "an array of real numbers";

  // As NumPy makes one of lists, and of what has an array in it.
  static py::array ArrayOf(std::string_view name, const py::handle& value,
                           std::string_view accepted) {
    if (value.is_none()) Refuse(name, "nothing", std::string(accepted));
    try {
      return py::array(py::reinterpret_borrow<py::object>(value));
    } catch (const py::error_already_set& error) {
      if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError)) throw;
      const std::string why = py::str(error.value()).cast<std::string>();
      Refuse(name, py::type::of(value).attr("__name__").cast<std::string>(),
             fmt::format("{} ({})", accepted, OneLine(why)));
    }
  }

  static std::string KindOf(const py::array& array) {
    const char kind = array.dtype().kind();
    if (kind == 'U' || kind == 'S') return "text";
    return py::str(array.dtype()).cast<std::string>();
  }

  // The library's arguments by the names that they have in Python.
  [[noreturn]] static void RaiseOfSample(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const analysis::InvalidArgument& error) {
      const std::string name = error.name() == "image"   ? "x"
                               : error.name() == "label" ? "y"
                                                         : error.name();
      Refuse(name, error.value(), error.accepted());
    } catch (...) {
      Raise(std::current_exception());
    }
  }

  const hwmodel::FeatureShape& input() const { return run_->trainer_options().network.input; }

  // One image and its label, or as many as the first index says.
  Samples SamplesOf(const py::object& images, const py::object& y) const {
    constexpr const char* kImages = "float32, as the network is to see the images";
    constexpr const char* kLabels = "an integer for each image";
    const hwmodel::Network& network = run_->trainer_options().network;
    if (const int count = hwmodel::LabelsOf(network); count != 1) {
      Refuse(
          "x", "samples of your own",
          fmt::format("those of a data set, as {} takes {} labels of each", network.name, count));
    }
    const py::array x = ArrayOf("x", images, kImages);
    if (!py::isinstance<py::array_t<float>>(x)) Refuse("x", KindOf(x), kImages);
    const std::vector<py::ssize_t> image{input().channels, input().height, input().width};
    const std::vector<py::ssize_t> shape(x.shape(), x.shape() + x.ndim());
    const bool is_one = shape == image;
    if (!is_one &&
        !(shape.size() == 4 && std::equal(image.begin(), image.end(), shape.begin() + 1))) {
      Refuse("x", "shape " + ShapeText(x),
             fmt::format("({0}, {1}, {2}), or (n, {0}, {1}, {2}) with n labels", image[0], image[1],
                         image[2]));
    }
    Samples samples;
    samples.images = py::array_t<float, py::array::c_style>(x);
    const py::array labels = ArrayOf("y", y, kLabels);
    if (labels.dtype().kind() != 'i' && labels.dtype().kind() != 'u') {
      Refuse("y", KindOf(labels), kLabels);
    }
    const py::ssize_t count = is_one ? 1 : shape[0];
    if (labels.ndim() != (is_one ? 0 : 1) || labels.size() != count) {
      Refuse(
          "y", "shape " + ShapeText(labels),
          is_one ? "one label for one image" : fmt::format("({},), a label for each image", count));
    }
    const auto wide = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>(labels);
    for (py::ssize_t i = 0; i < count; ++i) {
      const std::int64_t label = wide.data()[i];
      if (label < 0 || label >= classes()) {
        Refuse("y", std::to_string(label), fmt::format("0 to {}", classes() - 1));
      }
      samples.labels.push_back(static_cast<int>(label));
    }
    return samples;
  }

  static py::list ListOf(const std::vector<SampleResult>& results) {
    py::list list(results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      py::dict values;
      values["sample"] = results[i].sample;
      values["label"] = results[i].label;
      values["loss"] = results[i].loss;
      values["correct"] = results[i].correct;
      list[i] = values;
    }
    return list;
  }

  std::unique_ptr<TrainingRun> run_;
  bool opened_ = false;
  bool closed_ = false;
  std::atomic<bool> is_busy_{false};
};

// What the keywords of Trainer are made of.
py::object DescribeConfiguration() {
  Configuration defaults;
  Json keys = Json::array();
  for (const ConfigurationKey& key : KeysOf(defaults)) {
    const auto type = std::visit(
        []<class Value>(Value* /*value*/) -> const char* {
          if constexpr (std::is_same_v<Value, bool>) return "bool";
          if constexpr (std::is_same_v<Value, std::string> ||
                        std::is_same_v<Value, std::optional<std::string>>) {
            return "str";
          }
          if constexpr (std::is_same_v<Value, std::vector<std::int64_t>>) return "Sequence[int]";
          if constexpr (std::is_same_v<Value, std::vector<double>>) return "Sequence[float]";
          if constexpr (std::is_same_v<Value, double> ||
                        std::is_same_v<Value, std::optional<double>>) {
            return "float";
          }
          return "int";
        },
        key.value);
    keys.push_back({{"section", key.section},
                    {"name", key.name},
                    {"type", type},
                    {"accepted", key.AcceptedText()},
                    {"help", key.help}});
  }
  return ToPython(keys);
}

}  // namespace

void BindTrainer(py::module_& module) {
  module.def("describe_configuration", DescribeConfiguration, "The keys of a configuration.");
  py::class_<PythonTrainer>(module, "Trainer")
      .def(py::init<const std::string&, const std::string&, const std::vector<std::string>&,
                    const std::optional<std::string>&, bool>())
      .def("next_row", &PythonTrainer::NextRow)
      .def("learn", &PythonTrainer::Learn)
      .def("finish", &PythonTrainer::Finish)
      .def("evaluate", &PythonTrainer::Evaluate)
      .def("weights", &PythonTrainer::Weights)
      .def("set_weights", &PythonTrainer::SetWeights)
      .def("save", &PythonTrainer::Save)
      .def("load", &PythonTrainer::Load)
      .def("summary", &PythonTrainer::Summary)
      .def("weights_sha256", &PythonTrainer::WeightsSha256)
      .def("delays", &PythonTrainer::Delays)
      .def("predict_memory", &PythonTrainer::PredictMemory)
      .def("configuration", &PythonTrainer::ConfigurationText)
      .def("samples", &PythonTrainer::samples)
      .def("total_samples", &PythonTrainer::total_samples)
      .def("has_data", &PythonTrainer::has_data)
      .def("input_shape", &PythonTrainer::input_shape)
      .def("classes", &PythonTrainer::classes);
}

}  // namespace batchless
