#include "checkpoint.h"

#include <filesystem>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <streambuf>
#include <string_view>
#include <utility>
#include <vector>

#include "batchless/training/sha256.h"
#include "durable_file.h"
#include "text_output.h"
#include "usage_error.h"

namespace batchless {
namespace {

constexpr std::string_view kFirstLine = "batchless checkpoint 1\n";
constexpr std::size_t kDigestLength = 64;
constexpr std::size_t kLastLineLength = kDigestLength + 1;

// A stream buffer that hands what it gets on in large pieces.
class PieceBuffer final : public std::streambuf {
 public:
  explicit PieceBuffer(const Append& append) : append_(append), piece_(1 << 16) {
    setp(piece_.data(), piece_.data() + piece_.size());
  }

 private:
  int sync() override {
    append_({pbase(), static_cast<std::size_t>(pptr() - pbase())});
    setp(pbase(), epptr());
    return 0;
  }
  int_type overflow(int_type character) override {
    sync();
    return sputc(traits_type::to_char_type(character));
  }

  const Append& append_;
  std::vector<char> piece_;
};

// Calls visit(name, field) for all that a checkpoint says of a run, const or not.
template <class Run, class Visit>
void VisitFields(Run& run, Visit visit) {
  visit("configuration", run.configuration);
  visit("train_digest", run.train_digest);
  visit("validation_digest", run.validation_digest);
  visit("schedule_digest", run.schedule_digest);
  visit("network_digest", run.network_digest);
  visit("quotients_digest", run.quotients_digest);
  visit("initial_weights_sha256", run.initial_weights_sha256);
  visit("joined_updates", run.joined_updates);
  visit("samples", run.samples);
  visit("metrics_bytes", run.metrics_file.bytes);
  visit("metrics_sha256", run.metrics_file.sha256);
  visit("samples_bytes", run.samples_file.bytes);
  visit("samples_sha256", run.samples_file.sha256);
  visit("interval_samples", run.interval.samples);
  visit("interval_loss", run.interval.loss);
  visit("interval_correct", run.interval.correct);
  visit("train_loss", run.last.train_loss);
  visit("train_accuracy", run.last.train_accuracy);
  visit("validation_loss", run.last.validation_loss);
  visit("validation_accuracy", run.last.validation_accuracy);
  visit("training_seconds", run.training_seconds);
  visit("seconds", run.seconds);
}

template <class Value>
Json ToJson(const Value& value) {
  return value;
}
Json ToJson(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

constexpr const char* kOtherVersion = "the state of a run is of another version";

template <class Value>
void Read(const Json& json, Value& value) {
  json.get_to(value);
}
void Read(const Json& json, std::int64_t& value) {
  if (!json.is_number_integer()) throw std::runtime_error(kOtherVersion);
  value = json.get<std::int64_t>();
}
void Read(const Json& json, std::optional<double>& value) {
  if (!json.is_null()) value = json.get<double>();
}

}  // namespace

std::string RunStateText(const RunState& run) {
  Json json;
  VisitFields(run, [&](const char* name, const auto& field) { json[name] = ToJson(field); });
  return JsonText(json);
}

RunState ParseRunState(const std::string& text) {
  RunState run;
  try {
    Json json = ParseJson(text);
    // Older checkpoints do not have these.
    for (const char* name :
         {"network_digest", "quotients_digest", "metrics_sha256", "samples_sha256"}) {
      json.emplace(name, "");
    }
    json.emplace("joined_updates", 0);
    VisitFields(run, [&](const char* name, auto& field) { Read(json.at(name), field); });
  } catch (const Json::exception&) {
    throw std::runtime_error(kOtherVersion);
  }
  return run;
}

void WriteCheckpoint(const std::string& path, const RunState& run,
                     const training::Trainer& trainer) {
  ReplaceFile(path, [&](const Append& append) {
    training::Sha256 digest;
    const Append hashed = [&](std::string_view piece) {
      digest.Update(piece);
      append(piece);
    };
    hashed(std::string(kFirstLine) + RunStateText(run) + "\n");
    PieceBuffer buffer(hashed);
    std::ostream stream(&buffer);
    // What the file throws comes out again.
    stream.exceptions(std::ios::badbit);
    trainer.Save(stream);
    stream.flush();
    append(digest.HexDigest() + "\n");
  });
}

std::optional<Checkpoint> ReadCheckpoint(const std::string& argument, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const auto refuse = [&](std::string_view why) {
    throw UsageError(argument, path,
                     std::string("a checkpoint of this program (") + std::string(why) + ")");
  };
  std::ifstream file(path, std::ios::binary);
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
  if (!file || error) refuse("it cannot be read");
  std::string first(kFirstLine.size(), '\0');
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  if (first != kFirstLine) refuse("it begins in another way");
  const std::int64_t body = size - static_cast<std::int64_t>(kLastLineLength);
  if (body < static_cast<std::int64_t>(kFirstLine.size())) refuse("it is cut short");
  file.seekg(0);
  training::Sha256 digest;
  AddNext(file, body, digest);
  std::string last(kLastLineLength, '\0');
  file.read(last.data(), static_cast<std::streamsize>(last.size()));
  if (last != digest.HexDigest() + "\n") refuse("it is damaged: its checksum is wrong");
  file.clear();
  file.seekg(static_cast<std::streamoff>(kFirstLine.size()));
  std::string line;
  std::getline(file, line);
  try {
    return Checkpoint{argument, path, ParseRunState(line), std::move(file)};
  } catch (const std::runtime_error&) {
    refuse("its second line is of another version");
  }
  return std::nullopt;
}

}  // namespace batchless
