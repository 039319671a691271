#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "batchless/training/dataset.h"
#include "commands/commands.h"
#include "data_sets.h"
#include "output_file.h"

namespace batchless {
namespace {

namespace fs = std::filesystem;
using training::Dataset;
using training::Split;

constexpr std::array<std::string_view, 3> kActions = {"fetch", "check", "synth"};
constexpr const char* kDefaultFolder = "data";
constexpr const char* kSyntheticFolder = "cifar-10-batches-bin";
constexpr const char* kPartialExtension = ".partial";  // of files that are being written
constexpr IntegerRange kSizeRange{1, 1'000'000};       // 3 KB each

Json DescribeSplit(const Dataset& dataset, const char* split) {
  const auto [channels, height, width] = dataset.shape();
  return {{"name", dataset.name()},
          {"split", split},
          {"samples", dataset.size()},
          {"classes", dataset.classes()},
          {"shape", {channels, height, width}},
          {"digest", dataset.digest()},
          {"files_left_out", dataset.left_out()}};
}

void PrintSplit(const Dataset& dataset, const char* split, const char* note) {
  const auto [channels, height, width] = dataset.shape();
  const std::string left_out = dataset.left_out() == 0
                                   ? std::string()
                                   : fmt::format(", {} files left out", dataset.left_out());
  PrintText("{:<11} {:<10} {:>8} samples, {} classes, {}x{}x{}{}, SHA-256 {}{}\n", dataset.name(),
            split, dataset.size(), dataset.classes(), channels, height, width, left_out,
            dataset.digest(), note);
}

// Label and pixels of one sample after the other.
std::string CifarRecords(const Dataset& dataset) {
  std::string records;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(dataset.shape().size()));
  records.reserve(static_cast<std::size_t>(dataset.size()) * (1 + pixels.size()));
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    dataset.Read(i, pixels);
    records.push_back(static_cast<char>(dataset.label(i)));
    records.append(pixels.begin(), pixels.end());
  }
  return records;
}

class DataCommand final : public Command {
 public:
  explicit DataCommand(CLI::App& root)
      : Command(
            root, "data", "Fetch, check or make up data sets",
            R"(fetch NAME  downloads an official set (cifar10, mnist) into the folder --out, checks its
            sums and unpacks it; a second attempt takes up the first. Runs python3, or
            what PYTHON names
check DIR   reads every set in the folder DIR to its end: CIFAR-10, MNIST, folders of
            images; prints what is in them, or the first thing that is wrong. Hidden files
            and those that are no .jpg or .jpeg are left out and counted, and EXIF's
            orientation turns no image
synth       writes the built-in synthetic set into the folder --out, as CIFAR-10's files)",
            {"data synth --out data", "data synth --seed 2 --train-size 500 --out data --json",
             "data fetch cifar10 --out data", "data check data"}) {}

  void Run() override {
    // In the order of their names.
    constexpr std::array kRuns = {&DataCommand::Fetch, &DataCommand::Check, &DataCommand::Synth};
    (this->*kRuns.at(action_.Choice(kActions)))();
  }

 private:
  // Throws UsageError unless `out` is a folder or can be made one; makes it.
  fs::path OutFolder(const std::string& out) const {
    const auto refuse = [&](const std::string& why) {
      throw UsageError(out_.name(), out,
                       fmt::format("a folder, or a new one in a folder ({})", why));
    };
    std::error_code error;
    if (out.empty()) refuse("this is no name");
    fs::path folder = out;
    // With a slash at its end or without.
    const fs::path whole = fs::absolute(folder / "").lexically_normal().parent_path();
    const fs::path parent = whole.parent_path();
    if (fs::exists(folder, error) && !fs::is_directory(folder, error)) refuse("this is no folder");
    if (!fs::exists(folder, error) && !fs::is_directory(parent, error)) {
      refuse("there is no such folder");
    }
    fs::create_directory(folder, error);
    if (error) refuse(error.message());
    return folder;
  }

  void RefuseSyntheticOptions(std::string_view action) const {
    for (const Argument* argument : {&seed_, &train_size_, &validation_size_}) {
      argument->Refuse(fmt::format("nothing together with {}", action));
    }
  }

  void Fetch() {
    RefuseSyntheticOptions("fetch");
    const std::span<const OfficialSet> sets = OfficialSets();
    const OfficialSet& set = sets[what_.Choice(analysis::NamesOf(sets))];
    const std::string mirror = mirror_.given() ? mirror_.Text("") : "";
    const std::array<std::string_view, 3> schemes = {"https://", "http://", "file://"};
    if (std::none_of(schemes.begin(), schemes.end(),
                     [&](auto scheme) { return mirror.starts_with(scheme); })) {
      mirror_.Refuse("a URL that starts with https://, http:// or file://");
    }
    const std::string out = out_.given() ? out_.Text("") : kDefaultFolder;
    std::error_code error;
    const bool is_new = !fs::exists(out, error);
    const fs::path root = OutFolder(out);
    const bool is_there = fs::exists(root / set.folder, error);
    const auto fetch = [&] {
      try {
        return FetchSet(set, root, mirror);
      } catch (...) {
        // Only where nothing came that the next attempt takes up.
        if (is_new) fs::remove(root, error);
        throw;
      }
    };
    const FoundSet found = is_there ? ReadOfficialSet(set, root) : fetch();
    RefuseIf(!found.is_official, out_.name(), root.string(),
             fmt::format("a folder where {} is missing or holds the official set", set.folder));
    Report({found}, {{"out", root.string()}, {"fetched", !is_there}});
  }

  void Check() {
    RefuseSyntheticOptions("check");
    out_.Refuse("nothing together with check");
    mirror_.Refuse("nothing together with check");
    static constexpr const char* kAccepted =
        "a folder with cifar-10-batches-bin, mnist, or train and val in it";
    const std::string& folder = what_.Text(kAccepted);
    std::error_code error;
    if (!fs::is_directory(folder, error)) throw UsageError(what_.name(), folder, kAccepted);
    const std::vector<FoundSet> sets = ReadSets(folder);
    if (sets.empty()) throw UsageError(what_.name(), folder, kAccepted);
    Report(sets, {{"folder", folder}});
  }

  void Synth() {
    mirror_.Refuse("nothing together with synth");
    const auto seed = static_cast<std::uint64_t>(
        seed_.IntegerOr(static_cast<std::int64_t>(training::kSyntheticSeed), kSeedRange));
    const std::int64_t train_size =
        train_size_.IntegerOr(training::kSyntheticTrainSize, kSizeRange);
    const std::int64_t validation_size =
        validation_size_.IntegerOr(training::kSyntheticValidationSize, kSizeRange);
    // Behind the options, because one without its value makes a stray word of the next one's.
    what_.Refuse("nothing behind synth");
    const fs::path root = OutFolder(out_.Text("a folder"));

    FoundSet set;
    set.path = root / kSyntheticFolder;
    set.train = training::MakeSynthetic(seed, Split::kTrain, train_size, validation_size);
    set.validation = training::MakeSynthetic(seed, Split::kValidation, train_size, validation_size);
    // Another set of this name, the real one perhaps, must not be overwritten or added to.
    const bool is_there = IsThere(set, root);
    if (!is_there) {
      std::error_code error;
      fs::create_directory(set.path, error);
      RefuseIf(error && error != std::errc::file_exists, out_.name(), root.string(),
               fmt::format("a folder that can be written to ({})", error.message()));
      RefuseUnlessOurs(fs::is_directory(set.path), root);
      WriteRecords(*set.train, set.path / "data_batch_1.bin");
      WriteRecords(*set.validation, set.path / "test_batch.bin");
    }
    Report({set}, {{"out", root.string()}, {"seed", seed}, {"written", !is_there}});
  }

  // Whether the folder holds this very set. Throws UsageError where it holds anything else, half a
  // set that an interruption left aside.
  bool IsThere(const FoundSet& set, const fs::path& root) const {
    std::error_code error;
    std::vector<std::string> files;
    for (fs::directory_iterator i(set.path, error), end; !error && i != end; i.increment(error)) {
      // What a process left that was killed as it wrote.
      if (i->path().extension() == kPartialExtension) continue;
      files.push_back(i->path().filename().string());
    }
    std::sort(files.begin(), files.end());
    const auto refuse_unless = [&](bool holds) { RefuseUnlessOurs(holds, root); };
    if (files.empty()) return false;
    const bool is_whole = files == std::vector<std::string>{"data_batch_1.bin", "test_batch.bin"};
    refuse_unless(is_whole || files == std::vector<std::string>{"data_batch_1.bin"});
    refuse_unless(training::LoadCifar10(root, Split::kTrain)->digest() == set.train->digest());
    if (!is_whole) return false;
    refuse_unless(training::LoadCifar10(root, Split::kValidation)->digest() ==
                  set.validation->digest());
    return true;
  }

  void RefuseUnlessOurs(bool ours, const fs::path& root) const {
    RefuseIf(!ours, out_.name(), root.string(),
             fmt::format("a folder where {} is missing or holds this set", kSyntheticFolder));
  }

  void WriteRecords(const Dataset& dataset, const fs::path& path) const {
    OutputFile(out_.name(), path.string(), ".bin").Write(CifarRecords(dataset));
  }

  void Report(const std::vector<FoundSet>& sets, Json object) const {
    if (json()) {
      Json rows = Json::array();
      for (const FoundSet& set : sets) {
        for (const bool is_train : {true, false}) {
          Json row = DescribeSplit(is_train ? *set.train : *set.validation,
                                   is_train ? "train" : "validation");
          row["path"] = set.path.string();
          row["official"] = set.is_official;
          rows.push_back(row);
        }
      }
      object["sets"] = rows;
      json().Put(object);
      return;
    }
    for (const FoundSet& set : sets) {
      const char* note = set.is_official ? ", the official set" : "";
      PrintText("{}\n", set.path.string());
      PrintSplit(*set.train, "train", note);
      PrintSplit(*set.validation, "validation", note);
    }
  }

  Argument action_{app(), "ACTION", "fetch|check|synth", "What to do"};
  Argument what_{app(), "WHAT", "NAME|DIR", "What to fetch, which folder to check"};
  Argument out_{
      app(), "--out", "DIR",
      fmt::format("Folder to put a set into; required by synth (fetch: {})", kDefaultFolder)};
  Argument mirror_{app(), "--mirror", "URL", "Folder to fetch the set's archives from instead"};
  Argument seed_{app(), "--seed", "N",
                 fmt::format("Seed of the synthetic set (default: {})", training::kSyntheticSeed)};
  Argument train_size_{
      app(), "--train-size", "N",
      fmt::format("Synthetic training samples (default: {})", training::kSyntheticTrainSize)};
  Argument validation_size_{app(), "--validation-size", "N",
                            fmt::format("Synthetic validation samples (default: {})",
                                        training::kSyntheticValidationSize)};
};

}  // namespace

const CommandMaker kDataCommand = MakeCommand<DataCommand>;

}  // namespace batchless
