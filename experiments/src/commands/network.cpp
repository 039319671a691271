#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/workload.h"
#include "commands/commands.h"
#include "network_file.h"
#include "onnx_file.h"
#include "output_file.h"
#include "weights_file.h"
#include "workload_argument.h"

namespace batchless {
namespace {

// The kinds of layers, each with its fields, those in brackets that may be left out.
std::string KindsText() {
  std::string text;
  for (const hwmodel::LayerTraits& traits : hwmodel::LayerKinds()) {
    text += fmt::format("\n  {:<20}", traits.name);
    for (const hwmodel::LayerField& field : traits.fields) {
      text += field.required ? fmt::format(" {}", field.name) : fmt::format(" [{}]", field.name);
    }
    while (text.ends_with(' ')) text.pop_back();
  }
  return text;
}

class NetworkCommand final : public Command {
 public:
  explicit NetworkCommand(CLI::App& root)
      : Command(
            root, "network", "Print a network as a file, to change and to read back",
            R"(A network file is TOML: name, input = [channels, height, width], classes, and a section
[[stage]] for each stage with its name and its layers, in order:

  [[stage]]
  name = "block0"
  inputs = ["conv1"]
  layers = [{ kind = "group_norm", groups = 8 }, "relu",
            { kind = "convolution", channels = 16, kernel = 3, padding = 1 }]

A stage is what one worker runs without passing anything on. Without inputs it reads
what the stage before makes; a value has the name of its stage, that of the network
is "input". outputs = ["block0", "h"] names the input of the last layer too. The
last stage is the loss. In one stage go a layer alone, a normalisation and a ReLU,
these and a convolution, or a ReLU and a convolution. Parameters have the stage's name,
or name = "..." in the layer.
Kinds of layers and their fields, those in brackets optional:)" +
                KindsText() +
                R"(

batch_norm trains with micro-batches of more than one sample, each the whole batch.
A sum with stride = 2 reads every second pixel of its second input, and zeros
where that has fewer channels. costs, throughput, plan, layout, memory and train
(network.file) take such files, and models of ONNX whose operators are these layers:
of a model these alone, not the parameters' values, nor what they start with.
One that is written, F.onnx, has the values of --weights or, without, its parameters
as inputs; it ends with the scores, as the loss is training's.)",
            {"network --network resnet20 --out my_resnet.toml",
             "network --network resnet20-v1 --norm batch",
             "network --network experiments/networks/tiny_resnet.toml --json",
             "network --network resnet20 --out resnet20.onnx"}) {}

  void Run() override {
    const hwmodel::Network network = NetworkOf();
    const std::string text = NetworkText(network);
    if (out_.given()) {
      OutputFile file(out_.name(), out_.Text(""), ".toml,.onnx");
      if (file.extension() != kOnnx) weights_.Refuse("nothing but with --out F.onnx");
      file.Write(file.extension() == kOnnx ? ModelOf(network) : text);
    } else {
      weights_.Refuse("nothing but with --out F.onnx");
    }
    if (json()) {
      json().Put({{"network", network.name},
                  {"stages", network.stage_count()},
                  {"parameters", hwmodel::MakeWorkload(network).parameters()},
                  {"text", text}});
    } else if (!out_.given()) {
      PrintText("{}", text);
    }
  }

 private:
  static constexpr std::string_view kOnnx = ".onnx";

  std::string ModelOf(const hwmodel::Network& network) const {
    if (!weights_.given()) return OnnxModel(network);
    const std::string& path = weights_.Text("");
    const std::vector<training::NamedTensor> tensors = ReadTensors(weights_.name(), path);
    return Within(fmt::format("{}: {}", weights_.name(), path),
                  [&] { return OnnxModel(network, tensors); });
  }

  hwmodel::Network NetworkOf() const {
    const auto names = hwmodel::NetworkNames();
    const bool is_file = network_.given() && IsNetworkFile(network_.Text(""));
    const std::string name(is_file ? network_.Text("") : names[network_.Choice(names)]);
    const auto normalization = NormalizationOf(norm_, is_file);
    return is_file ? ReadNetworkFile(network_.name(), name)
                   : hwmodel::MakeNetwork({.name = name, .normalization = normalization});
  }

  Argument network_{app(), "--network,NETWORK", "N",
                    fmt::format("{}, or a network file PATH.toml or PATH.onnx; required",
                                fmt::join(hwmodel::NetworkNames(), "|"))};
  Argument norm_{app(), "--norm", "N", NormalizationHelp()};
  Argument out_{app(), "--out", "F.toml|onnx", "Write it to this file"};
  Argument weights_{app(), "--weights", "W.npz|safetensors", "Values of the parameters of F.onnx"};
};

}  // namespace

const CommandMaker kNetworkCommand = MakeCommand<NetworkCommand>;

}  // namespace batchless
