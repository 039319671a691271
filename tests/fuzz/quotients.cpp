// A file of the optimizer `linear`.
#include "fuzz.h"
#include "quotient_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  fuzz::Accepts([&] {
    const std::string path = fuzz::FileOf("quotients.json", fuzz::Text(data, size));
    QuotientText(ReadQuotientFile("optimizer.file", path));
  });
  return 0;
}
