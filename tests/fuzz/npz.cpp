// A .npz archive and the .npy arrays in it.
#include "npz.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  const std::string path = fuzz::FileOf("arrays.npz", fuzz::Text(data, size));
  fuzz::Accepts([&] {
    for (const training::NamedTensor& array : ReadNpz(path, std::size_t{1} << 31)) {
      std::int64_t count = 1;
      for (const std::int64_t extent : array.shape) count *= extent;
      fuzz::Require(count == std::ssize(array.values));
    }
  });
  return 0;
}
