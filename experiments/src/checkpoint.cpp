#include "checkpoint.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "batchless/training/sha256.h"
#include "durable_file.h"
#include "text_output.h"
#include "usage_error.h"

namespace batchless {
namespace {

constexpr std::string_view kFirstLine = "batchless checkpoint 1\n";
constexpr std::size_t kDigestLength = 64;
constexpr std::size_t kLastLineLength = kDigestLength + 1;

std::string DigestOf(std::string_view text) {
  training::Sha256 digest;
  digest.Update(text);
  return digest.HexDigest();
}

Json ToJson(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::optional<double> ToNumber(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<double>();
}

Json ToJson(const RunState& run) {
  return {{"configuration", run.configuration},
          {"train_digest", run.train_digest},
          {"validation_digest", run.validation_digest},
          {"initial_weights_sha256", run.initial_weights_sha256},
          {"samples", run.samples},
          {"metrics_bytes", run.metrics_bytes},
          {"samples_bytes", run.samples_bytes},
          {"interval_samples", run.interval.samples},
          {"interval_loss", run.interval.loss},
          {"interval_correct", run.interval.correct},
          {"train_loss", ToJson(run.last.train_loss)},
          {"train_accuracy", ToJson(run.last.train_accuracy)},
          {"validation_loss", ToJson(run.last.validation_loss)},
          {"validation_accuracy", ToJson(run.last.validation_accuracy)},
          {"training_seconds", run.training_seconds},
          {"seconds", run.seconds}};
}

RunState FromJson(const Json& json) {
  RunState run;
  json.at("configuration").get_to(run.configuration);
  json.at("train_digest").get_to(run.train_digest);
  json.at("validation_digest").get_to(run.validation_digest);
  json.at("initial_weights_sha256").get_to(run.initial_weights_sha256);
  json.at("samples").get_to(run.samples);
  json.at("metrics_bytes").get_to(run.metrics_bytes);
  json.at("samples_bytes").get_to(run.samples_bytes);
  json.at("interval_samples").get_to(run.interval.samples);
  json.at("interval_loss").get_to(run.interval.loss);
  json.at("interval_correct").get_to(run.interval.correct);
  run.last.train_loss = ToNumber(json.at("train_loss"));
  run.last.train_accuracy = ToNumber(json.at("train_accuracy"));
  run.last.validation_loss = ToNumber(json.at("validation_loss"));
  run.last.validation_accuracy = ToNumber(json.at("validation_accuracy"));
  json.at("training_seconds").get_to(run.training_seconds);
  json.at("seconds").get_to(run.seconds);
  return run;
}

}  // namespace

void WriteCheckpoint(const std::string& path, const Checkpoint& checkpoint) {
  std::string content(kFirstLine);
  content += ToJson(checkpoint.run).dump();
  content += '\n';
  content += checkpoint.trainer;
  content += DigestOf(content) + "\n";
  ReplaceFile(path, content);
}

std::optional<Checkpoint> ReadCheckpoint(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const auto refuse = [&](std::string_view why) {
    throw UsageError("--resume", path,
                     std::string("a checkpoint of this program (") + std::string(why) + ")");
  };
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) refuse("it cannot be read");
  if (!std::string_view(content).starts_with(kFirstLine)) refuse("it begins in another way");
  if (content.size() < kFirstLine.size() + kLastLineLength) refuse("it is cut short");
  const std::string_view body =
      std::string_view(content).substr(0, content.size() - kLastLineLength);
  if (content.substr(body.size()) != DigestOf(body) + "\n") {
    refuse("it is damaged: its checksum is wrong");
  }
  const std::size_t end = body.find('\n', kFirstLine.size());
  try {
    Checkpoint checkpoint;
    checkpoint.run = FromJson(Json::parse(body.substr(kFirstLine.size(), end - kFirstLine.size())));
    checkpoint.trainer = body.substr(end + 1);
    return checkpoint;
  } catch (const Json::exception&) {
    refuse("its second line is of another version");
  }
  return std::nullopt;
}

}  // namespace batchless
