#include "batchless/analysis/sweep.h"

#include <array>
#include <optional>
#include <stdexcept>
#include <string>

#include "commands/commands.h"
#include "memory.h"
#include "npz.h"
#include "output_file.h"
#include "parallel_rows.h"
#include "progress_bar.h"
#include "rule_arguments.h"
#include "usage_error.h"

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

void WriteNpz(const OutputFile& file, const SweepOptions& options, const SweepSummary& summary) {
  const std::array<std::size_t, 1> momenta = {options.momenta.size()};
  const std::array<std::size_t, 1> rates = {options.rates.size()};
  const std::array<std::size_t, 2> grid = {options.momenta.size(), options.rates.size()};
  NpzWriter archive(file.temporary_path());
  archive.Add("momentum", options.momenta, momenta);
  archive.Add("rate", options.rates, rates);
  archive.Add("spectral_radius", summary.spectral_radius, grid);
  archive.Add("error_bound", summary.error_bound, grid);
  archive.Add("log_spectral_radius", summary.log_radius, grid);
  archive.Close();
}

void WriteCsv(const OutputFile& file, const SweepOptions& options, const SweepSummary& summary) {
  TextOutput output(file.temporary_path(), file.path());
  output.Print("momentum,rate,spectral_radius,error_bound,log_spectral_radius\n");
  std::size_t i = 0;
  for (const double momentum : options.momenta) {
    for (const double rate : options.rates) {
      output.Print("{},{},{},{},{}\n", momentum, rate, summary.spectral_radius[i],
                   summary.error_bound[i], summary.log_radius[i]);
      ++i;
    }
  }
  output.Close();
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
    options.threads = static_cast<int>(threads_.IntegerOr(0, kThreadRange));
    if (simd_.given()) options.simd = kSimds[simd_.Choice(kSimdNames)];
    if (!analysis::IsAvailable(options.simd)) {
      throw UsageError("--simd", simd_.Text(""), "an instruction set that this machine has");
    }
    analysis::Validate(options);
    CheckMemory(options);
    static constexpr std::array<std::string_view, 2> kExtensions = {".npz", ".csv"};
    std::optional<OutputFile> file;
    if (out_.given() || !json().host().take_array) {
      file.emplace("--out", out_.Text("a file whose name ends in .npz or .csv"), kExtensions);
    }
    ProgressBar bar("momenta", options.momenta.size(), monitor());
    options.progress = [&bar](std::size_t done, std::size_t) { return bar.Update(done); };
    SweepSummary summary = analysis::RunSweep(options);
    CheckStopped(monitor());
    if (file) Write(*file, options, summary);
    Report(options, summary, file ? file->path() : "");
    if (json().host().take_array) HandOver(std::move(options), std::move(summary));
  }

 private:
  static void CheckMemory(const SweepOptions& options) {
    const double needed = analysis::SweepBytes(options.momenta.size(), options.rates.size());
    const std::optional<double> available = AvailableMemoryBytes();
    if (!available || needed <= *available) return;
    throw UsageError(
        "--momenta, --rates",
        fmt::format("{} x {} points, which take {:.0f} bytes ({})", options.momenta.size(),
                    options.rates.size(), needed, BytesText(needed)),
        fmt::format("grids that fit the {:.0f} bytes of memory available ({})", *available,
                    BytesText(*available)));
  }

  static void Write(OutputFile& file, const SweepOptions& options, const SweepSummary& summary) {
    try {
      if (file.extension() == ".npz") {
        WriteNpz(file, options, summary);
      } else {
        WriteCsv(file, options, summary);
      }
    } catch (const NpzError& error) {
      throw std::runtime_error(fmt::format("{}: {}", file.path(), error.what()));
    }
    file.Commit();
  }

  // As the file would hold them.
  void HandOver(SweepOptions options, SweepSummary summary) const {
    const auto& take = json().host().take_array;
    const std::size_t momenta = options.momenta.size();
    const std::size_t rates = options.rates.size();
    take({"momentum", {momenta}, std::move(options.momenta)});
    take({"rate", {rates}, std::move(options.rates)});
    take({"spectral_radius", {momenta, rates}, std::move(summary.spectral_radius)});
    take({"error_bound", {momenta, rates}, std::move(summary.error_bound)});
    take({"log_spectral_radius", {momenta, rates}, std::move(summary.log_radius)});
  }

  void Report(const SweepOptions& options, const SweepSummary& summary, const std::string& path) {
    if (json()) {
      Json object = DescribeRule(options.rule, options.delay);
      object["momenta"] = options.momenta.size();
      object["rates"] = options.rates.size();
      if (!path.empty()) object["out"] = path;
      object["seconds"] = summary.seconds;
      object["pixels_per_second"] = summary.pixels_per_second;
      object["refined_long_double"] = summary.refined_long_double;
      object["refined_fifty_digits"] = summary.refined_fifty_digits;
      object["threads"] = summary.threads;
      object["simd"] = analysis::Name(summary.simd);
      json().Put(object);
      return;
    }
    PrintText("{}\n{}\n", summary.BriefReport(), path);
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
