// Weights as .safetensors.
#include "safetensors.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  const std::string path = fuzz::FileOf("weights.safetensors", fuzz::Text(data, size));
  fuzz::Accepts([&] {
    for (const training::NamedTensor& tensor : ReadSafetensors(path, std::size_t{1} << 31)) {
      std::size_t count = 1;
      for (const std::int64_t extent : tensor.shape) count *= static_cast<std::size_t>(extent);
      fuzz::Require(count == tensor.values.size());
    }
  });
  return 0;
}
