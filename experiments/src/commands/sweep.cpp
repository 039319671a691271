#include "batchless/analysis/sweep.h"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/commands.h"
#include "memory.h"
#include "output_file.h"
#include "progress_bar.h"
#include "rule_arguments.h"
#include "weights_file.h"

namespace batchless {
namespace {

using analysis::Simd;
using analysis::SweepOptions;
using analysis::SweepSummary;

// From plain SGD to a momentum of 0.99999, and from far below to above every critical rate without
// delay (4 at most for SGDM).
constexpr const char* kDefaultMomenta = "log1m:-5:0:512";
constexpr const char* kDefaultRates = "log:1e-6:10:512";

constexpr std::array<std::string_view, 4> kSimdNames = {"best", "avx512", "avx2", "scalar"};
constexpr std::array<Simd, 4> kSimds = {Simd::kBest, Simd::kAvx512, Simd::kAvx2, Simd::kScalar};

// The momenta, the rates and what there is at each point, taken from where they were.
std::vector<training::NamedTensor> TakeArrays(SweepOptions& options, SweepSummary& summary) {
  const std::int64_t momenta = std::ssize(options.momenta);
  const std::int64_t rates = std::ssize(options.rates);
  std::vector<training::NamedTensor> arrays;
  arrays.push_back({"momentum", {momenta}, std::move(options.momenta)});
  arrays.push_back({"rate", {rates}, std::move(options.rates)});
  arrays.push_back({"spectral_radius", {momenta, rates}, std::move(summary.spectral_radius)});
  arrays.push_back({"error_bound", {momenta, rates}, std::move(summary.error_bound)});
  arrays.push_back({"log_spectral_radius", {momenta, rates}, std::move(summary.log_radius)});
  return arrays;
}

void WriteCsv(OutputFile& file, const std::vector<training::NamedTensor>& arrays) {
  TextOutput output(file.temporary_path(), file.path());
  output.Print("{}\n", fmt::join(analysis::NamesOf(arrays), ","));
  const std::vector<double>& rates = arrays[1].values;
  for (std::size_t i = 0; i < arrays.back().values.size(); ++i) {
    output.Print("{},{},{},{},{}\n", arrays[0].values[i / rates.size()], rates[i % rates.size()],
                 arrays[2].values[i], arrays[3].values[i], arrays[4].values[i]);
  }
  output.Close();
  file.Commit();
}

class SweepCommand final : public Command {
 public:
  explicit SweepCommand(CLI::App& root)
      : Command(root, "sweep", "Spectral radius over a grid of momenta and rates",
                "Arrays of F.npz: momentum (n_m), rate (n_x), and spectral_radius, error_bound,\n"
                "log_spectral_radius (n_m, n_x). F.csv holds one row for each point.\n" +
                    ListHelp(),
                {"sweep --rule sgdm --delay 4 --out sgdm.npz",
                 "sweep --rule lwp-w+sc --delay 4 --momenta log1m:-5:0:512 --rates log:1e-6:4:512 "
                 "--out map.npz",
                 "sweep --rule sc --delay 1 --momenta 0,0.9,0.99 --rates lin:0.1:1:10 --out s.csv "
                 "--json"}) {}

  void Run() override {
    SweepOptions options;
    options.rule = rule_.Single();
    options.delay = delay_.Integer(kDelayRange);
    if (options.rule.is_linear()) {
      options.momenta = {MomentumOf(options.rule, momenta_)};
    } else {
      options.momenta = momenta_.NumberListOr(kDefaultMomenta, kMomentumRange);
    }
    options.rates = rates_.NumberListOr(kDefaultRates, kRateRange);
    options.threads = ThreadsOf(threads_);
    if (simd_.given()) options.simd = kSimds[simd_.Choice(kSimdNames)];
    if (!analysis::IsAvailable(options.simd)) {
      simd_.Refuse("an instruction set that this machine has");
    }
    analysis::Validate(options);
    RequireMemory(
        "--momenta, --rates",
        fmt::format("{} x {} points, which take", options.momenta.size(), options.rates.size()),
        analysis::SweepBytes(options.momenta.size(), options.rates.size()), "grids that fit");
    std::optional<OutputFile> file;
    if (out_.given() || !json().host.take_array) {
      file.emplace("--out", out_.Text("a file whose name ends in .npz or .csv"), ".npz,.csv");
    }
    ProgressBar bar("momenta", options.momenta.size(), monitor());
    options.progress = [&bar](std::size_t done, std::size_t) { return bar.Update(done); };
    SweepSummary summary = analysis::RunSweep(options);
    CheckStopped(monitor());
    const std::string brief = summary.BriefReport();
    std::vector<training::NamedTensor> arrays = TakeArrays(options, summary);
    if (file) {
      file->extension() == ".npz" ? WriteTensors(*file, arrays, training::Precision::kDouble)
                                  : WriteCsv(*file, arrays);
    }
    const std::string path = file ? file->path() : "";
    if (json()) {
      ReportJson(options, summary, arrays.back().shape, path);
    } else {
      PrintText("{}\n{}\n", brief, path);
    }
    if (!json().host.take_array) return;
    for (training::NamedTensor& array : arrays) json().host.take_array(std::move(array));
  }

 private:
  void ReportJson(const SweepOptions& options, const SweepSummary& summary,
                  const std::vector<std::int64_t>& grid, const std::string& path) const {
    Json object = DescribeRule(options.rule, options.delay);
    object["momenta"] = grid[0];
    object["rates"] = grid[1];
    if (!path.empty()) object["out"] = path;
    object["seconds"] = summary.seconds;
    object["pixels_per_second"] = summary.pixels_per_second;
    object["refined_long_double"] = summary.refined_long_double;
    object["refined_fifty_digits"] = summary.refined_fifty_digits;
    object["threads"] = summary.threads;
    object["simd"] = analysis::Name(summary.simd);
    json().Put(object);
  }

  RuleArguments rule_{app(), RuleArguments::Form::kSingle};
  Argument delay_{app(), "--delay", "D", "Delay of the gradient in updates, required"};
  Argument momenta_{app(), "--momenta", "LIST",
                    fmt::format("Momenta (default: {})", kDefaultMomenta)};
  Argument rates_{app(), "--rates", "LIST",
                  fmt::format("Normalised rates eta * lambda (default: {})", kDefaultRates)};
  Argument out_{app(), "--out", "F", "File to write, .npz or .csv, required"};
  Argument threads_{app(), "--threads", "N", "Threads (default: 0, every processor)"};
  Argument simd_{app(), "--simd", "NAME",
                 "Instruction set: best (default), avx512, avx2 or scalar"};
};

}  // namespace

const CommandMaker kSweepCommand = MakeCommand<SweepCommand>;

}  // namespace batchless
