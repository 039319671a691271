// Networks as files: read, refused, printed, trained.
#include "network_file.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/workload.h"
#include "catch.h"
#include "output_file.h"
#include "result.h"
#include "run_program.h"
#include "usage_error.h"
#include "weights_file.h"

namespace batchless {
using namespace test;

namespace {

const std::filesystem::path kNetworks = std::filesystem::absolute("experiments/networks");

hwmodel::Network ReadText(const std::string& text) {
  const TemporaryFolder folder;
  WriteFile(folder / "net.toml", text);
  return ReadNetworkFile("--network", folder / "net.toml");
}

// A network whose stages are those of `stages`, in the short form.
std::string WithStages(const std::string& stages) {
  return "name = \"n\"\ninput = [3, 8, 8]\nclasses = 4\nstage = [\n" + stages + "]\n";
}

const std::string kConvolution =
    "{ name = \"c\", layers = [{ kind = \"convolution\", channels = 8, kernel = 3, padding = 1 }] "
    "},\n";
const std::string kEnd =
    "{ name = \"pool\", layers = [\"average_pool\"] },\n"
    "{ name = \"fc\", layers = [{ kind = \"linear\", features = 4 }] },\n"
    "{ name = \"loss\", layers = [\"loss\"] },\n";

// The line after the path.
std::string Refusal(const std::string& text) {
  try {
    ReadText(text);
  } catch (const UsageError& error) {
    const std::string line = error.what();
    CHECK(line.starts_with("--network /"));
    CHECK(line.find('\n') == std::string::npos);
    return line.substr(line.find(".toml:") + 6);
  }
  return "nothing was refused";
}

void CheckRefused(const std::string& text, const std::string& part) {
  const std::string line = Refusal(text);
  INFO(line);
  CHECK(line.find(part) != std::string::npos);
}

nlohmann::json Train(const TemporaryFolder& folder, const std::string& out,
                     const std::string& settings) {
  WriteFile(folder / "empty.toml", "");
  std::string line =
      "train empty.toml --out " + out + " --set data.limit_train=16 --set data.limit_validation=4";
  for (const std::string& setting : Words(settings)) line += " --set " + setting;
  return Result(line, folder.path());
}

// What `generate` says of the likeliest tokens.
std::string Generated(const TemporaryFolder& folder, const std::string& arguments) {
  const Outcome outcome =
      Run(Words("generate " + arguments + " --tokens 12 --temperature 0"), folder.path());
  INFO(outcome.error);
  CHECK(outcome.exit_code == 0);
  return outcome.out;
}

}  // namespace

TEST_CASE("every built-in network reads back as the same network") {
  using hwmodel::Normalization;
  for (const std::string_view name : hwmodel::NetworkNames()) {
    for (const Normalization norm :
         {Normalization::kNone, Normalization::kGroup, Normalization::kBatch}) {
      const bool normalizes = name.starts_with("resnet") || name.starts_with("vgg");
      if (!normalizes && norm != Normalization::kNone) continue;
      const hwmodel::Network network =
          hwmodel::MakeNetwork({.name = std::string(name), .normalization = norm});
      const std::string text = NetworkText(network);
      INFO(text);
      CHECK(ReadText(text) == network);
    }
  }
}

TEST_CASE("an embedding's rows are a value that a file names") {
  const hwmodel::Network network = hwmodel::MakeNetwork({.name = "gpt", .tied_embeddings = true});
  const std::string text = NetworkText(network);
  INFO(text);
  CHECK(text.find("outputs = [\"embedding\", \"embedding.rows\"]") != std::string::npos);
  CHECK(text.find("inputs = [\"ln_f\", \"embedding.rows\"]\nlayers = [\"tied_linear\"]") !=
        std::string::npos);
  CHECK(ReadText(text) == network);
  CheckRefused(
      WithStages(kConvolution +
                 "{ name = \"p\", outputs = [\"p\", \"q\"], layers = [\"average_pool\"] },\n" +
                 kEnd),
      "p.outputs: got 2 of average_pool, accepted: 1; a second one is");
}

TEST_CASE("the networks that come as files have the parameters of their papers") {
  const auto read = [](const std::string& name) {
    return ReadNetworkFile("--network", (kNetworks / name).string());
  };
  // AlexNet without the two groups of its convolutions: 3747200 in these, 58631144 behind them.
  CHECK(hwmodel::MakeWorkload(read("alexnet_2012.toml")).parameters() == 62'378'344);
  // By hand: convolutions, two numbers a normalised channel, 330 in the last layer.
  CHECK(hwmodel::MakeWorkload(read("tiny_resnet.toml")).parameters() ==
        9 * (3 * 16 + 2 * 16 * 16 + 16 * 32 + 32 * 32) + 16 * 32 + 2 * (3 * 16 + 2 * 32) + 330);
  CHECK(Lines(ReadFile((kNetworks / "tiny_resnet.toml").string())).size() <= 40);
}

TEST_CASE("a value has the name of its stage, or that of outputs") {
  const hwmodel::Network network = ReadText(WithStages(
      kConvolution +
      "{ name = \"d\", outputs = [\"y\", \"h\"], layers = [\"relu\", { kind = \"convolution\", "
      "channels = 8, kernel = 1 }] },\n"
      "{ name = \"e\", inputs = [\"h\"], layers = [{ kind = \"convolution\", channels = 8, kernel "
      "= "
      "1, name = \"weights\" }] },\n"
      "{ name = \"s\", inputs = [\"e\", \"y\"], layers = [\"sum\"] },\n" +
      kEnd));
  CHECK(network.stages[1].outputs == std::vector<int>{2, 3});
  CHECK(network.stages[2].inputs == std::vector<int>{3});
  CHECK(network.stages[2].layers[0].name == "weights");
  CHECK(network.stages[3].inputs == std::vector<int>{4, 2});
  CHECK(network.values[2].consumers == std::vector<int>{3});
}

TEST_CASE("what a network file says wrongly is refused with its line") {
  const std::string all = kConvolution + kEnd;
  CHECK(Refusal(WithStages(all)) == "nothing was refused");
  const auto layer = [&](const std::string& text) {
    return WithStages(kConvolution + "{ name = \"x\", layers = [" + text + "] },\n" + kEnd);
  };
  CheckRefused("name = ", "1: got ");
  CheckRefused(layer("\"rleu\""), "6: x.layers: got rleu, accepted: convolution, linear, ");
  CheckRefused(layer("\"rleu\""), "(did you mean relu?)");
  CheckRefused(WithStages(kConvolution +
                          "{ name = \"x\", outputs = [\"a\"], layers = [\"relu\"] },\n"
                          "{ name = \"x\", outputs = [\"b\"], layers = [\"relu\"] },\n" +
                          kEnd),
               "7: name: got x, accepted: a name that no other stage has");
  CheckRefused(layer("3"), "x.layers: got 3, accepted: convolution,");
  CheckRefused(layer("{ channels = 3 }"), "x.layers: got a layer without a kind");
  CheckRefused(layer(""), "x.layers: got none, accepted: at least one");
  CheckRefused(layer("\"convolution\""),
               "x.layers.convolution.channels: got nothing, accepted: an integer from 1 to ");
  CheckRefused(layer("{ kind = \"dropout\", probability = 1.5 }"),
               "x.layers.dropout.probability: got 1.5, accepted: a number from 0 to 0.999");
  CheckRefused(layer("{ kind = \"dropout\", probability = 9007199254740993 }"),
               "x.layers.dropout.probability: got 9007199254740993, accepted: a number from 0 to");
  CheckRefused(layer("{ kind = \"convolution\", channels = 2.5, kernel = 1 }"),
               "convolution.channels: got 2.5");
  CheckRefused(layer("{ kind = \"convolution\", channels = 2, kernel = 1, bias = 1 }"),
               "convolution.bias: got 1, accepted: true or false");
  CheckRefused(layer("{ kind = \"relu\", chanels = 2 }"), "relu.chanels: got an unknown key");
  CheckRefused(layer("{ kind = \"relu\", name = \"y\" }"), "relu.name: got an unknown key");
  CheckRefused(layer("{ kind = \"group_norm\", groups = 3 }"),
               "x.groups: got 3, accepted: a divisor of the 8 channels of x");
  CheckRefused(layer("\"relu\", \"batch_norm\""), "x.layers: got batch_norm after relu");
  CheckRefused(layer("{ kind = \"max_pool\", kernel = 9 }"),
               "x.kernel: got 9, accepted: at most the edges of its input 8x8x8");
  CheckRefused(layer("{ kind = \"convolution\", channels = 2, kernel = 1, name = \"c\" }"),
               "x.layers: got c, accepted: a name that no other");
  // Shapes that do not meet.
  const auto sum = [&](const std::string& shape, const std::string& fields) {
    return WithStages(
        kConvolution + "{ name = \"d\", layers = [{ kind = \"convolution\", " + shape +
        " }] },\n{ name = \"s\", inputs = [\"d\", \"c\"], layers = [{ kind = \"sum\"" + fields +
        " }] },\n" + kEnd);
  };
  CHECK(Refusal(sum("channels = 8, kernel = 1", "")) == "nothing was refused");
  CHECK(Refusal(sum("channels = 12, kernel = 1, stride = 2", ", stride = 2")) ==
        "nothing was refused");
  CheckRefused(sum("channels = 9, kernel = 1", ""), "s.inputs: got 9x8x8 and 8x8x8");
  CheckRefused(sum("channels = 8, kernel = 1, stride = 2", ""), "s.inputs: got 8x4x4 and 8x8x8");
  CheckRefused(sum("channels = 4, kernel = 1, stride = 2", ", stride = 2"), "s.inputs: got 4x4x4");
  CheckRefused(WithStages(kConvolution +
                          "{ name = \"s\", inputs = [\"c\", \"c\"], layers = "
                          "[\"sum\"] },\n" +
                          kEnd),
               "s.inputs: got");
  CheckRefused(WithStages(kConvolution + "{ name = \"s\", layers = [\"sum\"] },\n" + kEnd),
               "s.inputs: got 1, accepted: 2 with sum");
  CheckRefused(WithStages(kConvolution + "{ name = \"loss\", layers = [\"loss\"] },\n"),
               "loss.inputs: got 8x8x8, accepted: 4x1x1, a number for each class");
  // Values.
  const auto reads = [&](const std::string& name) {
    return WithStages(kConvolution + "{ name = \"r\", inputs = [\"" + name +
                      "\"], layers = [\"relu\"] },\n" + kEnd);
  };
  CheckRefused(reads("d"), "6: r.inputs: got d, accepted: a value that an earlier stage makes");
  CheckRefused(reads("pool"), "r.inputs: got pool");
  CheckRefused(reads("inptu"), "(did you mean input?)");
  CheckRefused(reads("input"), "c.outputs: got a value that no stage reads");
  CheckRefused(WithStages(all + "{ name = \"more\", layers = [\"relu\"] },\n"),
               "more.layers: got a stage behind the loss");
  CheckRefused(WithStages(all + "{ name = \"z\", inputs = [\"c\"], layers = [\"relu\"] },\n"),
               "z.layers: got a stage behind the loss");
  CheckRefused(WithStages(kConvolution + kConvolution + kEnd), "got c, accepted: a name that no");
  CheckRefused(WithStages(kConvolution), "stages: got no loss");
  // The rest.
  CheckRefused("name = \"n\"\nclasses = 4\nstage = []\n", "input: got nothing");
  CheckRefused("name = \"n\"\ninput = [3, 8]\nclasses = 4\nstage = []\n", "2: input: got ");
  CheckRefused("name = \"n\"\ninput = [3, 8, 8]\nclasses = 1\nstage = [{ name = \"x\" }]\n",
               "classes: got 1, accepted: 2 to ");
  CheckRefused("name = \"n\"\ninput = [3, 8, 8]\nclasses = 4\nstages = 3\n",
               "stages: got an unknown key, accepted: name, input, classes, stage");
  CheckRefused("name = \"a b\"\ninput = [3, 8, 8]\nclasses = 4\nstage = []\n", "name: got a b");
  CHECK_THROWS_WITH(
      ReadNetworkFile("--network", "nowhere.toml"),
      Catch::Matchers::Contains("--network: got nowhere.toml, accepted: a network file"));
}

TEST_CASE("commands say the same of a network by name and by file") {
  const TemporaryFolder folder;
  const auto result = [&](const std::string& line) { return Result(line, folder.path()); };
  const std::string machine = std::filesystem::absolute("hwmodel/machines/ipu_gc2.toml").string();
  CHECK(result("network --network vgg11 --out vgg.toml")["stages"] == 29);
  for (const std::string line : {"costs --network ", "memory --workers 2,3 --network ",
                                 "plan --scheme pb --machines 1 --hardware MACHINE --model ",
                                 "throughput --hardware MACHINE --schedule pb --network ",
                                 "layout --hardware MACHINE --workers 2,4 --network "}) {
    std::string call = line;
    if (const auto at = call.find("MACHINE"); at != std::string::npos) {
      call.replace(at, 7, machine);
    }
    CHECK(result(call + "vgg11") == result(call + "vgg.toml"));
  }
  const Outcome printed = Run(Words("network --network vgg.toml"), folder.path());
  CHECK(printed.out == ReadFile(folder / "vgg.toml"));
  CHECK(result("network vgg.toml --out vgg.onnx") == result("network --network vgg11"));
  CHECK(result("network vgg.onnx") == result("network --network vgg11"));
  RefusalOf("network vgg.onnx --network vgg11", folder.path());
  RefusalOf("costs --network vgg.toml --norm none", folder.path());
}

TEST_CASE("a run from a file has the weights of the run by name") {
  const TemporaryFolder folder;
  for (const std::string settings :
       {"network.name=lenet5 optimizer.batch=4",
        "network.name=mlp schedule.kind=pb optimizer.batch=1",
        "network.name=resnet20 schedule.kind=pb optimizer.batch=2 rule.name=lwp-v+sc",
        "network.name=resnet20-v1 network.norm=batch optimizer.batch=4"}) {
    INFO(settings);
    const std::string rest = " run.samples=8 data.augment=false optimizer.lr=0.01";
    const nlohmann::json named = Train(folder, "named", settings + rest);
    std::map<std::string, std::string> words;
    std::string others = rest;
    for (const std::string& word : Words(settings)) {
      const auto equals = word.find('=');
      words[word.substr(0, equals)] = word.substr(equals + 1);
      if (!word.starts_with("network.")) others += " " + word;
    }
    std::string line = "network --network " + words["network.name"] + " --out net.toml";
    if (words.contains("network.norm")) line += " --norm " + words["network.norm"];
    const bool is_mnist = words["network.name"] == "lenet5";
    Result(line, folder.path());
    if (is_mnist) {
      // The synthetic images are larger than MNIST's, which LeNet-5 is printed for.
      std::string text = ReadFile(folder / "net.toml");
      text.replace(text.find("[1, 28, 28]"), 11, "[3, 32, 32]");
      WriteFile(folder / "net.toml", text);
    }
    const nlohmann::json filed = Train(folder, "filed", others + " network.file=net.toml");
    CHECK(named["weights_sha256"] == filed["weights_sha256"]);
    CHECK(named["network"] == filed["network"]);
    std::filesystem::remove_all(folder / "named");
    std::filesystem::remove_all(folder / "filed");
  }
}

TEST_CASE("weights with tied embeddings have no second matrix, and generate takes them") {
  const TemporaryFolder folder;
  WriteFile(folder / "net.toml", NetworkText(hwmodel::MakeNetwork({.name = "gpt",
                                                                   .input = {1, 8, 1},
                                                                   .classes = 64,
                                                                   .layers = 1,
                                                                   .width = 8,
                                                                   .heads = 2,
                                                                   .tied_embeddings = true})));
  const auto train = [&](const std::string& out, const std::string& settings) {
    std::string line = "train empty.toml --export-weights " + out + ".npz --out " + out;
    for (const std::string& setting :
         Words("data.name=markov data.limit_train=32 data.limit_validation=4 run.samples=24 "
               "schedule.kind=pb optimizer.kind=adamw rule.name=lwp-v+sc " +
               settings)) {
      line += " --set " + setting;
    }
    WriteFile(folder / "empty.toml", "");
    return Result(line, folder.path())["weights_sha256"];
  };
  const nlohmann::json named =
      train("named",
            "network.name=gpt network.layers=1 network.width=8 network.heads=2 "
            "network.context=8 network.tie_word_embeddings=true");
  CHECK(train("filed", "network.file=net.toml") == named);
  for (const training::NamedTensor& tensor : ReadTensors("w", folder / "named.npz")) {
    CHECK(tensor.name != "lm_head.weight");
  }
  const auto generate = [&](const std::string& from) {
    return Generated(folder, from + " --prompt 3");
  };
  const std::string spoken = generate("--run named");
  CHECK(generate("--weights named.npz --heads 2") == spoken);
  CHECK(generate("--run filed") == spoken);
  // A matrix of its own in the file is not dropped in silence.
  std::vector<training::NamedTensor> more = ReadTensors("w", folder / "named.npz");
  more.push_back({.name = "lm_head.weight", .shape = {64, 8}, .values = std::vector<double>(512)});
  {
    OutputFile file("w", folder / "more.npz", kWeightsExtensions);
    WriteTensors(file, more, training::Precision::kSingle);
  }
  CheckRefusal("generate --run named --weights more.npz --prompt 3", "lm_head.weight",
               folder.path());
  WriteFile(folder / "named/checkpoint", "nothing of ours");
  CheckRefusal("generate --run named --prompt 3",
               "--run: got named/checkpoint, accepted: a checkpoint", folder.path());
}

TEST_CASE("generate takes a run's weights whatever became of its data") {
  const TemporaryFolder folder;
  const std::string text = std::string(200, 'a') + std::string(200, 'b');
  for (const char* length : {"run.samples=24", "run.epochs=0.5"}) {
    CAPTURE(length);
    WriteFile(folder / "text.txt", text);
    WriteFile(folder / "empty.toml", "");
    std::string line = "train empty.toml --out run";
    for (const std::string& setting :
         Words("network.name=gpt network.layers=1 network.width=8 network.heads=2 "
               "network.context=8 data.name=text data.file=text.txt schedule.kind=pb "
               "optimizer.kind=adamw rule.name=lwp-v ")) {
      line += " --set " + setting;
    }
    Result(line + " --set " + length, folder.path());
    const auto generate = [&] { return Generated(folder, "--run run --prompt ab"); };
    const std::string spoken = generate();
    // Others of the same length, and none; training goes on with neither.
    WriteFile(folder / "text.txt", std::string(text.rbegin(), text.rend()));
    CHECK(generate() == spoken);
    CheckRefusal(line + " --resume --set " + length, "data.file: got text.txt", folder.path());
    if (std::string(length) == "run.samples=24") {
      std::filesystem::remove(folder / "text.txt");
      CHECK(generate() == spoken);
    }
    std::filesystem::remove_all(folder / "run");
  }
}

TEST_CASE("generate takes the weights of workers that made values again") {
  const TemporaryFolder folder;
  WriteFile(folder / "empty.toml", "");
  std::string line = "train empty.toml --out run --export-weights w.npz";
  for (const std::string& setting :
       Words("network.name=gpt network.layers=2 network.width=8 network.heads=2 network.context=8 "
             "data.name=markov data.limit_validation=4 schedule.kind=1f1b "
             "schedule.weight_stashing=true schedule.recompute=true schedule.stages=4 "
             "schedule.workers=3 optimizer.kind=adamw optimizer.batch=1 run.samples=40")) {
    line += " --set " + setting;
  }
  Result(line, folder.path());
  const auto generate = [&](const std::string& from) {
    return Generated(folder, from + " --prompt 3");
  };
  CHECK(generate("--run run") == generate("--weights w.npz --heads 2"));
}

TEST_CASE("a run goes on with the network file that it was started with, and with no other") {
  const TemporaryFolder folder;
  std::filesystem::copy_file(kNetworks / "tiny_resnet.toml", folder / "net.toml");
  const std::string settings =
      "network.file=net.toml schedule.kind=pb optimizer.batch=1 optimizer.lr=0.001 run.samples=";
  const nlohmann::json whole = Train(folder, "a", settings + "16");
  CHECK(whole["network"] == "tiny_resnet");
  CHECK(whole["validation_loss"].get<double>() > 0);
  const std::string config = ReadFile(folder / "a/config.toml");
  CHECK(config.find("file = \"net.toml\"") != std::string::npos);
  const std::string resume = "train a/config.toml --out a --resume";
  Result(resume, folder.path());
  std::string text = ReadFile(folder / "net.toml");
  text.replace(text.find("groups = 8"), 10, "groups = 4");
  WriteFile(folder / "net.toml", text);
  CheckRefusal(resume, "network.file: got net.toml", folder.path());
  WriteFile(folder / "both.toml", "[network]\nfile = \"net.toml\"\nname = \"mlp\"\n");
  CheckRefusal("train both.toml --out b",
               "network.name: got a value, accepted: nothing with network.file", folder.path());
  CheckRefusal("train a/config.toml --out b --set network.file=" +
                   (kNetworks / "alexnet_2012.toml").string(),
               "3x227x227 and 1000 classes, accepted: a network for 3x32x32", folder.path());
}

TEST_CASE("batch normalisation of single samples is refused") {
  const TemporaryFolder folder;
  WriteFile(folder / "c.toml",
            "[network]\nname = \"resnet20-v1\"\nnorm = \"batch\"\n"
            "[optimizer]\nbatch = 1\n");
  CheckRefusal("train c.toml --out d",
               "the whole batch, of more than one sample, with batch normalisation", folder.path());
}

}  // namespace batchless
