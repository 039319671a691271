// A .npz archive and the .npy arrays in it.
#include "npz.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  const std::string path = fuzz::FileOf("arrays.npz", fuzz::Text(data, size));
  fuzz::Accepts([&] {
    for (const std::string& name : NpzNames(path)) {
      fuzz::Accepts([&] {
        const NpzArray array = ReadNpz(path, name, std::size_t{1} << 31);
        std::size_t count = 1;
        for (const std::size_t extent : array.shape) count *= extent;
        fuzz::Require(count == array.values.size());
      });
    }
  });
  return 0;
}
