// A network file. What is taken has costs, and its text is the same network.
#include "network_file.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  fuzz::Accepts([&] {
    const std::string path = fuzz::FileOf("network.toml", fuzz::Text(data, size));
    const std::string text = NetworkText(ReadNetworkFile("--network", path));
    bool again = false;
    const std::string copy = fuzz::FileOf("copy.toml", text);
    fuzz::Require(
        fuzz::Accepts([&] { again = NetworkText(ReadNetworkFile("--network", copy)) == text; }));
    fuzz::Require(again);
  });
  return 0;
}
