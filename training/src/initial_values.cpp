#include "initial_values.h"

#include <algorithm>
#include <cmath>

#include "batchless/training/random.h"

namespace batchless::training {

template <class Real>
std::vector<Real> InitialValues(const ParameterTensor& tensor, std::uint64_t seed,
                                std::uint64_t number) {
  CounterRandom random(seed, RandomStream::kInitialization, number);
  std::vector<Real> values(tensor.size());
  switch (tensor.initializer) {
    case Initializer::kZero:
      break;
    case Initializer::kOne:
      std::fill(values.begin(), values.end(), Real(1));
      break;
    case Initializer::kHeNormal: {
      const double standard_deviation = std::sqrt(2 / static_cast<double>(tensor.fan));
      for (Real& value : values) value = static_cast<Real>(standard_deviation * random.Normal());
      break;
    }
    case Initializer::kNormal:
      for (Real& value : values) {
        value = static_cast<Real>(tensor.standard_deviation * random.Normal());
      }
      break;
    case Initializer::kLinearUniform: {
      const double bound = 1 / std::sqrt(static_cast<double>(tensor.fan));
      for (Real& value : values) value = static_cast<Real>(bound * (2 * random.Uniform() - 1));
      break;
    }
  }
  return values;
}

template std::vector<float> InitialValues(const ParameterTensor&, std::uint64_t, std::uint64_t);
template std::vector<double> InitialValues(const ParameterTensor&, std::uint64_t, std::uint64_t);

}  // namespace batchless::training
