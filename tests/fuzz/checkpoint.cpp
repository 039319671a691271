// A checkpoint of which some bytes are others, and whose last line is made right, so that they are read: the
// state of the run, then that of a small pipeline, which goes on from it.
#include "checkpoint.h"

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/network_builder.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/training/dataset.h"
#include "batchless/training/sha256.h"
#include "fuzz.h"

namespace batchless {
namespace {

training::TrainerOptions Options() {
  using hwmodel::Layer;
  using hwmodel::LayerKind;
  hwmodel::NetworkBuilder builder("tiny", {3, 32, 32}, 10);
  int x =
      builder.Add({.name = "pool", .layers = {{.kind = LayerKind::kAveragePool}}, .inputs = {0}});
  x = builder.Add(
      {.name = "fc",
       .layers = {Layer{.kind = LayerKind::kLinear, .name = "fc", .output = {.channels = 10}}},
       .inputs = {x}});
  builder.Add({.name = "loss", .layers = {{.kind = LayerKind::kLoss}}, .inputs = {x}});
  training::TrainerOptions options;
  options.network = builder.Finish();
  options.schedule = hwmodel::MakeSchedule(
      "pb", {.stages = options.network.stage_count(),
             .microbatches = hwmodel::EnoughMicrobatches(options.network.stage_count(), 1),
             .microbatches_per_update = 1});
  options.convolution = training::ConvolutionMethod::kReference;
  options.batch = 1;
  options.samples = 16;
  options.learning_rate.base = 0.01;
  return options;
}

const training::SampleSource& Source() {
  static const training::DatasetSource kSource{
      training::MakeSynthetic(1, training::Split::kTrain, 16, 1), {}};
  return kSource;
}

// A checkpoint after five samples, without its last line.
std::string Checkpoint5() {
  const auto trainer = training::MakeTrainer(Options());
  std::vector<training::SampleResult> results;
  trainer->Advance(Source(), 5, results);
  const std::string path = (fuzz::Folder() / "seed").string();
  RunState run;
  run.samples = 5;
  WriteCheckpoint(path, run, *trainer);
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  constexpr std::size_t kLastLine = 65;
  text.resize(text.size() - kLastLine);
  return text;
}

// Four bytes of the input change one of the checkpoint: 24 bits say where, 8 what it is then. Two or three
// that are left over cut it short.
std::string Changed(std::string checkpoint, const std::uint8_t* data, std::size_t size) {
  const std::size_t whole = checkpoint.size();
  std::size_t i = 0;
  for (; i + 4 <= size; i += 4) {
    const std::size_t place =
        data[i] + std::size_t{256} * data[i + 1] + std::size_t{65536} * data[i + 2];
    checkpoint[place % whole] = static_cast<char>(data[i + 3]);
  }
  if (size - i >= 2) checkpoint.resize((data[i] + std::size_t{256} * data[i + 1]) % whole);
  return checkpoint;
}

}  // namespace
}  // namespace batchless

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  static const std::string kWhole = Checkpoint5();
  const std::string changed = Changed(kWhole, data, size);
  training::Sha256 digest;
  digest.Update(changed);
  const std::string path = fuzz::FileOf("checkpoint", changed + digest.HexDigest() + "\n");
  fuzz::Accepts([&] {
    std::optional<Checkpoint> checkpoint = ReadCheckpoint("path", path);
    const auto trainer = training::MakeTrainer(Options());
    trainer->Load(checkpoint->trainer);
    std::vector<training::SampleResult> results;
    trainer->Advance(Source(), 16, results);
  });
  return 0;
}
