#include "named_tensors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "batchless/analysis/argument.h"

namespace batchless::training {
namespace {

using analysis::InvalidArgument;
using GivenTensors = std::map<std::string, const NamedTensor*>;

// Says so where the tensor is there by a longer name, and all names begin as that one does.
void RefusePrefix(const GivenTensors& given, const std::string& name) {
  for (const auto& [other, tensor] : given) {
    if (!other.ends_with("." + name)) continue;
    const std::string prefix = other.substr(0, other.size() - name.size());
    const bool is_common = std::all_of(
        given.begin(), given.end(), [&](const auto& any) { return any.first.starts_with(prefix); });
    if (!is_common) continue;
    throw InvalidArgument(other, "the prefix " + prefix, "names without a prefix, " + name);
  }
}

}  // namespace

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + ")";
}

template <class Real>
void PackNamed(const ParameterTensor& tensor, const NamedTensor& given, Real* block) {
  analysis::RefuseIf(given.shape != tensor.shape, given.name, "shape " + ShapeText(given.shape),
                     "shape " + ShapeText(tensor.shape));
  const std::vector<Real> values(given.values.begin(), given.values.end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw InvalidArgument(
        given.name, given.values[i],
        std::string("finite numbers of ") + (sizeof(Real) == sizeof(float) ? "float" : "double"));
  }
  Pack<Real>(tensor, values, block);
}

template <class Real>
std::vector<StageBlocks<Real>> PackStages(const hwmodel::Network& network,
                                          std::span<const StageLayout* const> stages,
                                          std::span<const NamedTensor> tensors) {
  std::set<std::string> names;
  for (const StageLayout* stage : stages) {
    for (const ParameterTensor& tensor : stage->parameters) names.insert(tensor.name);
    for (const ParameterTensor& tensor : stage->state) names.insert(tensor.name);
  }
  GivenTensors given;
  for (const NamedTensor& tensor : tensors) {
    if (!IsPyTorchBuffer(tensor.name, names)) given[tensor.name] = &tensor;
  }
  const auto pack = [&](const std::vector<ParameterTensor>& expected, std::int64_t size) {
    AlignedBuffer<Real> block(size);
    for (const ParameterTensor& tensor : expected) {
      const auto found = given.find(tensor.name);
      if (found == given.end()) {
        RefusePrefix(given, tensor.name);
        throw InvalidArgument(tensor.name, "nothing",
                              "a tensor of shape " + ShapeText(tensor.shape));
      }
      PackNamed(tensor, *found->second, block.data());
    }
    return block;
  };
  std::vector<StageBlocks<Real>> blocks;
  for (const StageLayout* stage : stages) {
    blocks.push_back(
        {pack(stage->parameters, stage->parameter_size), pack(stage->state, stage->state_size)});
  }
  for (const std::string& name : names) given.erase(name);
  if (given.empty()) return blocks;
  throw InvalidArgument(given.begin()->first, "a tensor",
                        "the tensors of " + network.name + " alone");
}

template void PackNamed(const ParameterTensor&, const NamedTensor&, float*);
template void PackNamed(const ParameterTensor&, const NamedTensor&, double*);
template std::vector<StageBlocks<float>> PackStages(const hwmodel::Network&,
                                                    std::span<const StageLayout* const>,
                                                    std::span<const NamedTensor>);
template std::vector<StageBlocks<double>> PackStages(const hwmodel::Network&,
                                                     std::span<const StageLayout* const>,
                                                     std::span<const NamedTensor>);

}  // namespace batchless::training
