// The folder of a run.
//
//   config.toml     the resolved configuration
//   metrics.csv     a row for each log interval and each validation
//   samples.csv     a row for each sample, with run.log_samples
//   checkpoint      what the run goes on from
//   manifest.json   what made the run: build, machine, data, times
//   summary.json    final numbers
//   SHA256SUMS      digests of the others but the checkpoint, which has its own, once the run has ended;
//                   sha256sum -c reads it
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "durable_file.h"

namespace batchless {

class RunDirectory {
 public:
  // Changes nothing yet.
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}

  // Throws UsageError where the path cannot be the folder of a run.
  void Check() const;
  bool HoldsRun() const;
  // Whether there is a row in metrics.csv or samples.csv.
  bool HoldsRows() const;
  // Whether there is a summary, or a row in metrics.csv: what a run that begins would write over. Rows of
  // samples alone are what one that was killed before its first checkpoint leaves.
  bool HoldsResults() const;
  // Makes the folder and keeps other runs out of it as long as this object lives; once it has, it does
  // nothing. Throws UsageError.
  void Open();

  const std::string& path() const { return path_; }
  std::string config() const { return path_ + "/config.toml"; }
  std::string metrics() const { return path_ + "/metrics.csv"; }
  std::string samples() const { return path_ + "/samples.csv"; }
  std::string checkpoint() const { return path_ + "/checkpoint"; }
  std::string manifest() const { return path_ + "/manifest.json"; }
  std::string summary() const { return path_ + "/summary.json"; }
  std::string sums() const { return path_ + "/SHA256SUMS"; }

  // Writes the digests; takes them and the summary, which say that a run has ended, away while one goes
  // on. Throws std::runtime_error.
  void WriteSums() const;
  void RemoveEnd() const;
  // Throws UsageError, which calls the folder `argument`, where a file is not the one that was written.
  // A folder without digests is taken as it is.
  void CheckSums(std::string_view argument) const;

 private:
  std::string path_;
  std::optional<Descriptor> locked_;
};

}  // namespace batchless
