// Training from Python: one run of the program's (training_run.h), step by step, or on samples of the
// caller's own. batchless/trainer.py makes the class that users see.
#include <pybind11/stl.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config.h"
#include "core.h"
#include "training_run.h"

namespace batchless {
namespace {

using namespace py::literals;
using training::NamedTensor;
using training::SampleResult;
using Clock = std::chrono::steady_clock;

// Images one after the other, copied only where an array lies in memory otherwise. What batchless/trainer.py
// hands on has been checked there.
using Images = py::array_t<float, py::array::c_style>;
using Numbers = py::array_t<double, py::array::c_style | py::array::forcecast>;

class PythonTrainer {
 public:
  // The configuration is the text, or else the file.
  PythonTrainer(const std::optional<std::string>& text, const std::string& path,
                const std::vector<std::string>& overrides, const std::optional<std::string>& out,
                bool resume) {
    RunInterruptibly([&] {
      TrainingRunOptions options;
      options.configuration =
          text ? ParseConfiguration(*text, path, overrides) : LoadConfiguration(path, overrides);
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
    const auto& measured = row->measured;
    return py::dict("samples"_a = row->samples, "epoch"_a = row->epoch,
                    "learning_rate"_a = row->learning_rate, "train_loss"_a = measured.train_loss,
                    "train_accuracy"_a = measured.train_accuracy,
                    "validation_loss"_a = measured.validation_loss,
                    "validation_accuracy"_a = measured.validation_accuracy);
  }

  py::list Learn(const Images& images, const std::vector<int>& labels) {
    const Turn turn(*this);
    const std::size_t size = static_cast<std::size_t>(input().elements());
    const float* const values = images.data();
    std::vector<SampleResult> results;
    std::exception_ptr failure;
    try {
      const py::gil_scoped_release release;
      // Before any of them is trained on.
      run_->CheckSamples({values, labels.size() * size}, labels);
    } catch (...) {
      failure = std::current_exception();
    }
    std::size_t next = 0;
    while (next < labels.size() && !failure) {
      {
        const py::gil_scoped_release release;
        const Clock::time_point end = Clock::now() + kBetweenLooks;
        try {
          do {
            const std::vector<SampleResult> done =
                run_->Learn({values + next * size, size}, labels[next]);
            results.insert(results.end(), done.begin(), done.end());
            ++next;
          } while (next < labels.size() && Clock::now() < end);
        } catch (...) {
          failure = std::current_exception();
        }
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    if (failure) Raise(failure);
    return ListOf(results);
  }

  py::list Finish() {
    const Turn turn(*this);
    std::vector<SampleResult> results;
    RunInterruptibly([&] { results = run_->Finish(); });
    return ListOf(results);
  }

  // Without images, of the validation set.
  py::dict Evaluate(const std::optional<Images>& images, const std::vector<int>& labels) {
    const Turn turn(*this);
    training::Evaluation evaluation;
    if (images) {
      const training::MemorySource source(
          {input().channels, input().height, input().width},
          {images->data(), static_cast<std::size_t>(images->size())}, labels);
      RunInterruptibly([&] { evaluation = run_->Evaluate(source, std::ssize(labels)); });
    } else {
      RunInterruptibly([&] { evaluation = run_->Evaluate(); });
    }
    return py::dict("samples"_a = evaluation.samples, "loss"_a = evaluation.loss,
                    "accuracy"_a = evaluation.accuracy);
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
      const py::str name(tensor.name);
      py::array values = ToPython(std::move(tensor));
      if (!is_double) values = py::array_t<float>(values);
      weights[name] = values;
    }
    return weights;
  }

  void SetWeights(const py::dict& weights) {
    const Turn turn(*this);
    std::vector<NamedTensor> tensors;
    for (const auto& [name, value] : weights) {
      const auto array = value.cast<Numbers>();
      tensors.push_back({name.cast<std::string>(),
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
    return py::dict("total_bytes"_a = memory.total(), "peak_bytes"_a = memory.peak(),
                    "allocated_bytes"_a = run_->trainer().memory_bytes());
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
  int classes() const { return network().classes; }
  const std::string& network_name() const { return network().name; }
  // Labels that one sample has.
  int labels() const { return hwmodel::LabelsOf(network()); }

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

  const hwmodel::Network& network() const { return run_->trainer_options().network; }
  const hwmodel::FeatureShape& input() const { return network().input; }

  static py::list ListOf(const std::vector<SampleResult>& results) {
    py::list list;
    for (const SampleResult& result : results) {
      list.append(py::dict("sample"_a = result.sample, "label"_a = result.label,
                           "loss"_a = result.loss, "correct"_a = result.correct));
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
      .def(py::init<const std::optional<std::string>&, const std::string&,
                    const std::vector<std::string>&, const std::optional<std::string>&, bool>())
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
      .def("classes", &PythonTrainer::classes)
      .def("network", &PythonTrainer::network_name)
      .def("labels", &PythonTrainer::labels);
}

}  // namespace batchless
