#include "waiting_samples.h"

#include <algorithm>
#include <cmath>
#include <istream>
#include <ostream>
#include <string>

#include "batchless/analysis/argument.h"
#include "engine/collective.h"
#include "state_stream.h"

namespace batchless::training {

using analysis::InvalidArgument;
using analysis::RefuseIf;

void CheckSource(const hwmodel::Network& network, const SampleSource& source) {
  const auto& [channels, height, width] = source.shape();
  const hwmodel::FeatureShape shape{channels, height, width};
  RefuseIf(shape != network.input, "source", source.name() + " with images of " + ToText(shape),
           "images of " + ToText(network.input) + " for " + network.name);
  const int labels = source.labels_per_sample();
  RefuseIf(labels != hwmodel::LabelsOf(network), "source", std::to_string(labels) + " labels",
           std::to_string(hwmodel::LabelsOf(network)) + " labels of a sample, as the loss of " +
               network.name + " takes them");
  RefuseIf(source.classes() > network.classes, "classes", network.classes,
           "at least the " + std::to_string(source.classes()) + " of " + source.name());
}

void CheckSample(const hwmodel::Network& network, std::span<const float> image, int label) {
  if (std::ssize(image) != network.input.elements()) {
    throw InvalidArgument("image", std::to_string(image.size()) + " values",
                          std::to_string(network.input.elements()) + " for " + network.name);
  }
  if (hwmodel::LabelsOf(network) != 1) {
    throw InvalidArgument("label", "one",
                          std::to_string(hwmodel::LabelsOf(network)) +
                              " labels of a sample, which a data set has, for " + network.name);
  }
  const auto bad = std::ranges::find_if(image, [](float value) { return !std::isfinite(value); });
  if (bad != image.end()) throw InvalidArgument("image", double{*bad}, "finite numbers");
  if (hwmodel::HasLayer(network, hwmodel::LayerKind::kEmbedding)) {
    const int last = network.classes - 1;
    for (const float token : image) {
      if (token >= 0 && token <= static_cast<float>(last) && token == std::floor(token)) continue;
      throw InvalidArgument("image", double{token},
                            "tokens, integers from 0 to " + std::to_string(last));
    }
  }
  analysis::CheckInteger("label", label, 0, network.classes - 1);
}

void WaitingSamples::Add(std::span<const float> image, int label) {
  images.insert(images.end(), image.begin(), image.end());
  labels.push_back(label);
}

void WaitingSamples::KeepFirst(std::int64_t count) {
  if (count == this->count()) return;
  images.resize(images.size() / labels.size() * count);
  labels.resize(count);
}

void WaitingSamples::Save(std::ostream& to) const {
  const std::int64_t samples = count();
  Write(to, &samples, sizeof samples);
  Write(to, labels.data(), labels.size() * sizeof(int));
  Write(to, images.data(), images.size() * sizeof(float));
}

void WaitingSamples::Load(std::istream& from, const hwmodel::Network& network, std::int64_t most) {
  std::int64_t samples = 0;
  Read(from, &samples, sizeof samples);
  RefuseStateIf(samples < 0 || samples > most);
  labels.resize(samples);
  images.resize(samples * network.input.elements());
  Read(from, labels.data(), labels.size() * sizeof(int));
  Read(from, images.data(), images.size() * sizeof(float));
  for (const int label : labels) RefuseStateIf(label < 0 || label >= network.classes);
}

void WaitingSamples::Share(ProcessGroup& group) {
  BroadcastVector(group, 0, labels);
  BroadcastVector(group, 0, images);
}

}  // namespace batchless::training
