// A network as an ONNX model: what is read can be written, and reads back as it is.
#include "fuzz.h"
#include "network_file.h"
#include "onnx_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  const std::string path = fuzz::FileOf("network.onnx", fuzz::Text(data, size));
  fuzz::Accepts([&] {
    const hwmodel::Network network = ReadOnnxNetwork("--network", path);
    const std::string again = fuzz::FileOf("again.onnx", OnnxModel(network));
    fuzz::Require(NetworkText(ReadOnnxNetwork("--network", again)) == NetworkText(network));
  });
  return 0;
}
