// The configuration of a training run. What is taken reads back as the same configuration.
#include "config.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  fuzz::Accepts([&] {
    const Configuration read = ParseConfiguration(std::string(fuzz::Text(data, size)), "run.toml");
    const std::string text = ConfigurationText(read);
    bool again = false;
    fuzz::Require(fuzz::Accepts(
        [&] { again = ConfigurationText(ParseConfiguration(text, "run.toml")) == text; }));
    fuzz::Require(again);
  });
  return 0;
}
