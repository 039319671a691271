// The command `data`, and fetching from folders that stand for the network.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "batchless/training/data_error.h"
#include "batchless/training/sha256.h"
#include "catch.h"
#include "data_sets.h"
#include "result.h"
#include "run_program.h"

namespace batchless {
using namespace test;
namespace fs = std::filesystem;

namespace {

using training::Split;

std::string Sha256Of(const std::string& bytes) {
  training::Sha256 sha256;
  sha256.Update(bytes);
  return sha256.HexDigest();
}

std::string CifarRecords(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += static_cast<char>(i % 10);
    bytes += std::string(3072, static_cast<char>(20 * i));
  }
  return bytes;
}

// A small set in a folder of archives, as the network would have it.
class Server {
 public:
  Server() {
    fs::create_directories(folder_ / "tree/cifar-10-batches-bin");
    WriteFile(folder_ / "tree/cifar-10-batches-bin/data_batch_1.bin", CifarRecords(3));
    WriteFile(folder_ / "tree/cifar-10-batches-bin/test_batch.bin", CifarRecords(2));
    const std::string command = "tar -czf '" + (folder_ / "set.tar.gz") + "' -C '" +
                                (folder_ / "tree") + "' cifar-10-batches-bin";
    if (std::system(command.c_str()) != 0) throw std::runtime_error("tar failed");
    archive_ = ReadFile(folder_ / "set.tar.gz");
    archive_sha256_ = Sha256Of(archive_);
    train_ = Sha256Of(CifarRecords(3));
    validation_ = Sha256Of(CifarRecords(2));
    archives_[0] = {"set.tar.gz", archive_.size(), archive_sha256_};
    url_ = "file://" + folder_.path().string();
  }

  OfficialSet Set() const {
    return {"small", url_,       "cifar-10-batches-bin", archives_, true, training::LoadCifar10,
            train_,  validation_};
  }
  const std::string& archive() const { return archive_; }
  void Damage(std::size_t place) const {
    std::string bytes = archive_;
    bytes.at(place) ^= 1;
    WriteFile(folder_ / "set.tar.gz", bytes);
  }
  void Append(std::size_t zeros) const {
    WriteFile(folder_ / "set.tar.gz", archive_ + std::string(zeros, '\0'));
  }
  void Close() const { fs::remove(folder_ / "set.tar.gz"); }

 private:
  TemporaryFolder folder_;
  std::string archive_;
  std::string archive_sha256_;
  std::string train_;
  std::string validation_;
  std::array<Archive, 1> archives_ = {};
  std::string url_;
};

std::string FetchError(const OfficialSet& set, const fs::path& root,
                       const std::string& mirror = "") {
  try {
    FetchSet(set, root, mirror);
  } catch (const std::runtime_error& error) {
    CHECK(Lines(error.what()).size() == 1);
    CHECK_FALSE(fs::exists(root / set.folder));
    return error.what();
  }
  return "fetched";
}

}  // namespace

TEST_CASE("fetch: what arrives is checked, unpacked and moved into place") {
  const Server server;
  const TemporaryFolder folder;
  const FoundSet found = FetchSet(server.Set(), folder.path(), "");
  CHECK(found.is_official);
  CHECK(found.train->size() == 3);
  CHECK(found.validation->size() == 2);
  CHECK(found.path == folder.path() / "cifar-10-batches-bin");
  CHECK(folder.Files() == std::vector<std::string>{"cifar-10-batches-bin"});
  CHECK(ReadFile(folder / "cifar-10-batches-bin/data_batch_1.bin") == CifarRecords(3));
}

TEST_CASE("fetch: a failure leaves nothing in place, and the next attempt goes on from there") {
  const Server server;
  const TemporaryFolder folder;
  server.Damage(server.archive().size() / 2);
  CHECK(Contains(FetchError(server.Set(), folder.path()), "its SHA-256 is "));
  server.Close();
  const std::string error = FetchError(server.Set(), folder.path());
  CHECK(Contains(error, "/set.tar.gz: No such file or directory"));
  CHECK(folder.Files().empty());

  // Half of it is there already, and is not fetched again: the server's first half is damaged.
  const std::size_t half = server.archive().size() / 2;
  fs::create_directory(folder / ".small.partial");
  WriteFile(folder / ".small.partial/set.tar.gz.partial", server.archive().substr(0, half));
  server.Damage(half / 2);
  CHECK(FetchError(server.Set(), folder.path(), "file://" + (folder / "missing/")) != "fetched");
  CHECK(ReadFile(folder / ".small.partial/set.tar.gz.partial").size() == half);
  FetchSet(server.Set(), folder.path(), "");
  CHECK(folder.Files() == std::vector<std::string>{"cifar-10-batches-bin"});
}

TEST_CASE("fetch: files that cannot be written whole are named by their folder") {
  const Server server;
  const TemporaryFolder folder;
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  // The archive has room, what is unpacked has not.
  rlimit less = before;
  less.rlim_cur = 4096;
  REQUIRE(server.archive().size() < less.rlim_cur);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &less) == 0);
  const std::string error = FetchError(server.Set(), folder.path());
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(Contains(error, folder.path().string()));
  CHECK(Contains(error, ": File too large"));
}

TEST_CASE("fetch: more than there should be is not waited for") {
  const Server server;
  const TemporaryFolder folder;
  server.Append(1 << 20);
  CHECK(Contains(
      FetchError(server.Set(), folder.path()),
      "/set.tar.gz: more than the file's " + std::to_string(server.archive().size()) + " bytes"));
  CHECK_FALSE(fs::exists(folder / ".small.partial/set.tar.gz.partial"));
}

TEST_CASE("fetch: all of it may have arrived already") {
  const Server server;
  server.Close();
  const TemporaryFolder folder;
  fs::create_directory(folder / ".small.partial");
  WriteFile(folder / ".small.partial/set.tar.gz.partial", server.archive());
  CHECK(FetchSet(server.Set(), folder.path(), "").is_official);
}

TEST_CASE("fetch: another content than the official one is not put in place") {
  const Server server;
  const TemporaryFolder folder;
  OfficialSet set = server.Set();
  set.train_digest = set.validation_digest;
  CHECK(Contains(FetchError(set, folder.path()), "not the content of the official set"));
}

TEST_CASE("fetch: an archive that leads out of its folder is refused") {
  for (const std::string name : {"../outside", "/outside"}) {
    // A tape archive of one empty file: its header, and a sum over that with blanks in the sum's place.
    std::string header(512, '\0');
    const auto put = [&](std::size_t at, const std::string& text) {
      header.replace(at, text.size(), text);
    };
    put(0, name);
    put(100, "0000644");
    put(124, "00000000000");
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    put(148, fmt::format("{:06o}", sum) + '\0');
    const std::string bytes = header + std::string(1024, '\0');

    const TemporaryFolder server;
    WriteFile(server / "set.tar.gz", bytes);
    const std::string sha256 = Sha256Of(bytes);
    const std::array<Archive, 1> archives = {{{"set.tar.gz", bytes.size(), sha256}}};
    const std::string url = "file://" + server.path().string();
    const OfficialSet set{"small",  url,   "cifar-10-batches-bin",
                          archives, true,  training::LoadCifar10,
                          sha256,   sha256};
    const TemporaryFolder folder;
    CHECK(Contains(FetchError(set, folder.path()), name + ", accepted: a file in the archive's"));
    CHECK(folder.Files() == std::vector<std::string>{".small.partial"});
  }
}

TEST_CASE("fetch: without Python it says so in one line") {
  const TemporaryFolder folder;
  const std::string python = folder / "python";
  setenv("PYTHON", python.c_str(), 1);
  const Outcome failed = Run(Words("data fetch mnist --out d"), folder.path());
  unsetenv("PYTHON");
  CHECK(failed.exit_code == 1);
  CHECK(Lines(failed.error).size() == 1);
  CHECK(Contains(failed.error, python + ": No such file or directory"));
}

TEST_CASE("fetch: the command names what it does not know and where it failed") {
  const TemporaryFolder folder;
  CheckRefusal("data fetch cifar100 --out d", "got cifar100, accepted: cifar10, mnist",
               folder.path());
  CHECK(folder.Files().empty());
  RefusalOf("data fetch", folder.path());
  RefusalOf("data fetch mnist --seed 1", folder.path());

  const std::string mirror = "file://" + (folder / "missing");
  for (const std::string name : {"cifar10", "mnist"}) {
    const Outcome failed =
        Run(Words("data fetch " + name + " --out d --mirror " + mirror), folder.path());
    INFO(failed.error);
    CHECK(failed.exit_code == 1);
    CHECK(failed.out.empty());
    CHECK(Lines(failed.error).size() == 1);
    CHECK(Contains(failed.error, "batchless: " + mirror + "/"));
    CHECK(folder.Files().empty());
  }
  // A folder of the user's stays, empty or not.
  fs::create_directory(folder / "d");
  CHECK(Run(Words("data fetch mnist --out d --mirror " + mirror), folder.path()).exit_code == 1);
  CHECK(fs::is_empty(folder / "d"));

  // This set has the same name, but is not the official one.
  fs::create_directory(folder / "d/cifar-10-batches-bin");
  WriteFile(folder / "d/cifar-10-batches-bin/data_batch_1.bin", CifarRecords(3));
  WriteFile(folder / "d/cifar-10-batches-bin/test_batch.bin", CifarRecords(2));
  RefusalOf("data fetch cifar10 --out d", folder.path());
  CHECK(ReadFile(folder / "d/cifar-10-batches-bin/test_batch.bin") == CifarRecords(2));
}

TEST_CASE("synth: the same seed writes the same bytes, which check and the library read") {
  const TemporaryFolder folder;
  const std::string line = "data synth --train-size 30 --validation-size 20 --out ";
  const nlohmann::json object = Result(line + "a --seed 3", folder.path());
  Result(line + "b --seed 3", folder.path());
  Result(line + "c --seed 4", folder.path());
  for (const std::string name : {"data_batch_1.bin", "test_batch.bin"}) {
    const auto bytes = [&](const std::string& where) {
      return ReadFile(folder / (where + "/cifar-10-batches-bin/" + name));
    };
    CHECK(bytes("a") == bytes("b"));
    CHECK(bytes("a") != bytes("c"));
    CHECK(bytes("a").size() == (name == "test_batch.bin" ? 20 : 30) * 3073);
  }

  const auto train = training::MakeSynthetic(3, Split::kTrain, 30, 20);
  CHECK(object["written"] == true);
  CHECK(object["seed"] == 3);
  CHECK(object["sets"][0]["digest"] == train->digest());
  CHECK(training::LoadCifar10(folder.path() / "a", Split::kTrain)->digest() == train->digest());

  const nlohmann::json sets = Result("data check a", folder.path())["sets"];
  REQUIRE(sets.size() == 2);
  CHECK(sets[0]["name"] == "cifar10");
  CHECK(sets[0]["split"] == "train");
  CHECK(sets[0]["samples"] == 30);
  CHECK(sets[0]["classes"] == 10);
  CHECK(sets[0]["shape"] == nlohmann::json({3, 32, 32}));
  CHECK(sets[0]["digest"] == train->digest());
  CHECK(sets[0]["official"] == false);
  CHECK(sets[1]["split"] == "validation");
  CHECK(sets[1]["samples"] == 20);
}

TEST_CASE("synth: what is there already stays, and is finished where it is half of the same set") {
  const TemporaryFolder folder;
  const std::string line = "data synth --train-size 30 --validation-size 20 --out d";
  CHECK(Result(line, folder.path())["written"] == true);
  const std::string test_batch = folder / "d/cifar-10-batches-bin/test_batch.bin";
  const std::string bytes = ReadFile(test_batch);
  CHECK(Result(line, folder.path())["written"] == false);
  RefusalOf(line + " --seed 2", folder.path());
  CHECK(ReadFile(test_batch) == bytes);
  fs::remove(test_batch);
  Result(line, folder.path());
  CHECK(ReadFile(test_batch) == bytes);
  // A process that was killed as it wrote leaves part of a file under another name.
  WriteFile(folder / "d/cifar-10-batches-bin/data_batch_1.bin.77-0.partial", CifarRecords(1));
  CHECK(Result(line, folder.path())["written"] == false);
  WriteFile(folder / "d/cifar-10-batches-bin/data_batch_2.bin", CifarRecords(1));
  RefusalOf(line, folder.path());
  // A new folder's name may end in a slash; a file stays what it is.
  CHECK(Result("data synth --train-size 3 --validation-size 2 --out new/",
               folder.path())["written"] == true);
  RefusalOf("data synth --train-size 3 --validation-size 2 --out no/new/", folder.path());
  fs::create_directory(folder / "e");
  WriteFile(folder / "e/cifar-10-batches-bin", "a file");
  CheckRefusal("data synth --train-size 3 --validation-size 2 --out e",
               "--out: got e, accepted: a folder where cifar-10-batches-bin is missing or holds",
               folder.path());
  CHECK(ReadFile(folder / "e/cifar-10-batches-bin") == "a file");
}

TEST_CASE("check: the first thing that is wrong is named, with exit code 2") {
  const TemporaryFolder folder;
  RefusalOf("data check", folder.path());
  RefusalOf("data check nothing", folder.path());
  CheckRefusal("data check .", "cifar-10-batches-bin, mnist", folder.path());
  RefusalOf("data check . --out d", folder.path());
  RefusalOf("data chek .", folder.path());
  fs::create_directory(folder / "cifar-10-batches-bin");
  WriteFile(folder / "cifar-10-batches-bin/data_batch_1.bin", CifarRecords(2) + "abc");
  CheckRefusal("data check .", "data_batch_1.bin: record 2: truncated", folder.path());
  WriteFile(folder / "cifar-10-batches-bin/data_batch_1.bin", CifarRecords(2));
  CheckRefusal("data check .", "test_batch.bin: there is no", folder.path());

  fs::remove_all(folder / "cifar-10-batches-bin");
  for (const std::string split : {"train", "val"}) {
    fs::create_directories(folder / ("photographs/" + split + "/a"));
    WriteFile(folder / ("photographs/" + split + "/a/1.jpg"), "no JPEG");
  }
  CheckRefusal("data check .", "photographs/train/a/1.jpg: JPEG: ", folder.path());
}

TEST_CASE("check: the real sets are the official ones") {
  const std::optional<fs::path> data = RealData();
  if (!data || !fs::exists(*data / "cifar-10-batches-bin/data_batch_5.bin") ||
      !fs::exists(*data / "mnist")) {
    WARN("skipped: there is no CIFAR-10 or no MNIST in $BATCHLESS_DATA");
    return;
  }
  for (const OfficialSet& set : OfficialSets()) {
    INFO(set.name);
    CHECK(ReadOfficialSet(set, *data).is_official);
  }
}

}  // namespace batchless
