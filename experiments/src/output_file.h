// A file that appears complete or not at all: it is written under a temporary name in the same
// folder and renamed when it is done. A file that was there before stays until then.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "interruption.h"

namespace batchless {

class OutputFile {
 public:
  // Creates the temporary file, so that a place that cannot be written is found before the work.
  // `extensions` are the accepted ones, ".csv,.txt". Throws UsageError with `name`.
  OutputFile(std::string_view name, const std::string& path, std::string_view extensions);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  // One of the accepted ones.
  const std::string& extension() const { return extension_; }
  const std::string& temporary_path() const { return temporary_path_; }

  // Puts the finished file in its place. Throws std::runtime_error.
  void Commit();
  // Writes the whole file and puts it in its place.
  void Write(std::string_view text);

 private:
  std::string path_;    // as given
  std::string target_;  // behind symbolic links
  std::string extension_;
  std::string temporary_path_;
  std::unique_ptr<DeletedWhenInterrupted> guard_;
  bool committed_ = false;
};

}  // namespace batchless
