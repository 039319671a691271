// The two files of MNIST, plain or packed: the first two bytes say how long the labels' file is.
#include "batchless/training/dataset.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  if (size < 2) return 0;
  const std::string_view files = fuzz::Text(data + 2, size - 2);
  const std::size_t labels = std::min(files.size(), data[0] + std::size_t{256} * data[1]);
  fuzz::FileOf("mnist/t10k-labels-idx1-ubyte", files.substr(0, labels));
  fuzz::FileOf("mnist/t10k-images-idx3-ubyte", files.substr(labels));
  fuzz::Accepts([&] {
    const auto set = training::LoadMnist(fuzz::Folder(), training::Split::kValidation);
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(set->shape().size()));
    set->Read(set->size() - 1, pixels);
    fuzz::Require(set->label(set->size() - 1) < set->classes());
  });
  return 0;
}
