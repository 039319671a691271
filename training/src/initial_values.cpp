#include "initial_values.h"

#include "batchless/training/random.h"

namespace batchless::training {

template <class Real>
std::vector<Real> InitialValues(const ParameterTensor& tensor, std::uint64_t seed,
                                std::uint64_t number) {
  CounterRandom random(seed, RandomStream::kInitialization, number);
  std::vector<Real> values(tensor.size());
  for (Real& value : values) {
    double drawn = 1;
    if (tensor.initializer == Initializer::kNormal) drawn = random.Normal();
    if (tensor.initializer == Initializer::kUniform) drawn = 2 * random.Uniform() - 1;
    value = static_cast<Real>(tensor.scale * drawn);
  }
  return values;
}

template std::vector<float> InitialValues(const ParameterTensor&, std::uint64_t, std::uint64_t);
template std::vector<double> InitialValues(const ParameterTensor&, std::uint64_t, std::uint64_t);

}  // namespace batchless::training
