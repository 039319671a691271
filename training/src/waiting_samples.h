// The caller's own samples: what they have to be for a network, and those that wait for the rest of their
// mini-batch.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <vector>

#include "batchless/hwmodel/network.h"
#include "batchless/training/process_group.h"
#include "batchless/training/sample_source.h"

namespace batchless::training {

// Throws analysis::InvalidArgument unless images and labels are what the network takes.
void CheckSource(const hwmodel::Network& network, const SampleSource& source);
void CheckSample(const hwmodel::Network& network, std::span<const float> image, int label);

struct WaitingSamples {
  std::vector<float> images;
  std::vector<int> labels;

  std::int64_t count() const { return std::ssize(labels); }
  void Add(std::span<const float> image, int label);
  // Leaves out all but the first.
  void KeepFirst(std::int64_t count);

  void Save(std::ostream& to) const;
  // Throws std::runtime_error for more than `most` samples and for labels that the network has not.
  void Load(std::istream& from, const hwmodel::Network& network, std::int64_t most);
  // Everybody's become those of the first process.
  void Share(ProcessGroup& group);
};

}  // namespace batchless::training
