// Every fuzz target on the inputs that it, or a reader's author, once failed on: found/TARGET/*.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "catch.h"

extern "C" {
using FuzzTarget = int(const std::uint8_t* data, std::size_t size);
FuzzTarget Fuzz_configuration, Fuzz_network_file, Fuzz_machine_file, Fuzz_schedule, Fuzz_npz,
    Fuzz_safetensors, Fuzz_onnx, Fuzz_checkpoint, Fuzz_cifar10, Fuzz_mnist, Fuzz_image_folder,
    Fuzz_quotients, Fuzz_run_folder, Fuzz_command_line;
}

TEST_CASE("inputs that once broke a reader are read or refused") {
  const std::map<std::string, FuzzTarget*> targets = {
      {"configuration", Fuzz_configuration},
      {"network_file", Fuzz_network_file},
      {"machine_file", Fuzz_machine_file},
      {"schedule", Fuzz_schedule},
      {"npz", Fuzz_npz},
      {"safetensors", Fuzz_safetensors},
      {"onnx", Fuzz_onnx},
      {"checkpoint", Fuzz_checkpoint},
      {"cifar10", Fuzz_cifar10},
      {"mnist", Fuzz_mnist},
      {"image_folder", Fuzz_image_folder},
      {"quotients", Fuzz_quotients},
      {"run_folder", Fuzz_run_folder},
      {"command_line", Fuzz_command_line},
  };
  const std::filesystem::path root = std::filesystem::absolute("tests/fuzz/found");
  int inputs = 0;
  for (const auto& folder : std::filesystem::directory_iterator(root)) {
    const std::string name = folder.path().filename().string();
    INFO(name);
    REQUIRE(targets.contains(name));
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      INFO(entry.path().string());
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string input{std::istreambuf_iterator<char>(file), {}};
      // A target ends the process where it fails.
      CHECK(targets.at(name)(reinterpret_cast<const std::uint8_t*>(input.data()), input.size()) ==
            0);
      ++inputs;
    }
  }
  CHECK(inputs > 0);
}
