// Data sets as they lie in a folder: finding, reading and fetching them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/training/dataset.h"

namespace batchless {

// A file of a set's official distribution.
struct Archive {
  std::string_view file;
  std::uint64_t bytes;
  std::string_view sha256;
};

// A set that can be fetched. Once it is unpacked its content is known by two digests; see
// training::Dataset::digest().
struct OfficialSet {
  std::string_view name;
  std::string_view url;     // the folder that the archives are in
  std::string_view folder;  // what the set comes to below the data folder
  std::span<const Archive> archives;
  bool is_tar;  // one archive that holds `folder`, or else the files of `folder` themselves
  std::shared_ptr<const training::Dataset> (*load)(const std::filesystem::path&, training::Split);
  std::string_view train_digest;
  std::string_view validation_digest;
};

std::span<const OfficialSet> OfficialSets();

// Both splits of one set, read in full.
struct FoundSet {
  std::filesystem::path path;
  std::shared_ptr<const training::Dataset> train;
  std::shared_ptr<const training::Dataset> validation;
  bool is_official = false;
};

// Reads every set in the folder: the official ones, and folders of images, which are the folder
// itself or folders in it that hold `train` and `val`. Every image is decoded, in its smallest
// size. Throws training::DataError for the first thing that cannot be read.
std::vector<FoundSet> ReadSets(const std::filesystem::path& root);

// Puts the set below `root`, where nothing of its name may be: downloads what is missing of its
// archives into a folder of its own, which stays for the next attempt where this one fails, checks
// them, unpacks them, reads the result and moves it into place. `mirror` takes the place of the
// set's URL where it is not empty. experiments/fetch_archives.py does what is up to the unpacking.
// Throws std::runtime_error in one line.
FoundSet FetchSet(const OfficialSet& set, const std::filesystem::path& root,
                  const std::string& mirror);

// The official set in `root`. Throws training::DataError.
FoundSet ReadOfficialSet(const OfficialSet& set, const std::filesystem::path& root);

}  // namespace batchless
