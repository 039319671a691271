// A photograph of a folder of images, as validation and training see it.
#include "batchless/training/dataset.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  fuzz::FileOf("train/one/a.jpg", fuzz::Text(data, size));
  fuzz::Accepts([&] {
    const auto set = training::OpenImageFolder(fuzz::Folder(), training::Split::kTrain, 16);
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(set->shape().size()));
    set->Read(0, pixels);
    training::CounterRandom random(1, training::RandomStream::kAugmentation, 0, 0);
    set->ReadAugmented(0, random, pixels);
  });
  return 0;
}
