// A machine file. What is taken reads back as the same machine.
#include "machine_file.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  fuzz::Accepts([&] {
    const hwmodel::Machine machine =
        ParseMachine(std::string(fuzz::Text(data, size)), "machine.toml");
    const std::string text = MachineText(machine, "measured");
    bool again = false;
    fuzz::Require(fuzz::Accepts(
        [&] { again = MachineText(ParseMachine(text, "machine.toml"), "measured") == text; }));
    fuzz::Require(again);
  });
  return 0;
}
