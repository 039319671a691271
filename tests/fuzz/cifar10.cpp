// A file of CIFAR-10's records, plain or packed.
#include "batchless/training/dataset.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  fuzz::FileOf("cifar-10-batches-bin/test_batch.bin", fuzz::Text(data, size));
  fuzz::Accepts([&] {
    const auto set = training::LoadCifar10(fuzz::Folder(), training::Split::kValidation);
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(set->shape().size()));
    set->Read(set->size() - 1, pixels);
    fuzz::Require(set->label(0) < set->classes());
  });
  return 0;
}
