#include "data_sets.h"

#include <archive.h>
#include <archive_entry.h>
#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <system_error>

#include "batchless/training/data_error.h"
#include "batchless/training/sha256.h"
#include "progress_bar.h"
#include "usage_error.h"

namespace batchless {
namespace {

namespace fs = std::filesystem;
using training::Dataset;
using training::Split;

constexpr std::array<Archive, 1> kCifar10 = {{
    {"cifar-10-binary.tar.gz", 170'052'171,
     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
}};
constexpr std::array<Archive, 4> kMnist = {{
    {"train-images-idx3-ubyte.gz", 9'912'422,
     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
    {"train-labels-idx1-ubyte.gz", 28'881,
     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
    {"t10k-images-idx3-ubyte.gz", 1'648'877,
     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
    {"t10k-labels-idx1-ubyte.gz", 4'542,
     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
}};
constexpr std::array<OfficialSet, 2> kSets = {{
    {"cifar10", "https://www.cs.toronto.edu/~kriz", "cifar-10-batches-bin", kCifar10, true,
     training::LoadCifar10, "a0181da372c0d63a5920fdbea2ec3f83ecbc552d378218e1cb473cf634941a3b",
     "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
    {"mnist", "https://ossci-datasets.s3.amazonaws.com/mnist", "mnist", kMnist, false,
     training::LoadMnist, "baedb0edd00a28e97b281c967f6c7514bedfea1d17b30334caccd6ec0d75cf98",
     "ad39c4e3d6eb0920f4ea84533a577cc5afbb47c5e8034d374d0605316c8923f3"},
}};

std::string FileDigest(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  training::Sha256 sha256;
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    sha256.Update(std::string_view(buffer.data(), static_cast<std::size_t>(file.gcount())));
  }
  if (!file.eof()) throw std::runtime_error(path.string() + ": cannot be read");
  return sha256.HexDigest();
}

// 0 where there is no such file.
std::uint64_t FileBytes(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

// What a transfer reports to: the bar counts the bytes that were there before it, too.
struct Transfer {
  ProgressBar& bar;
  std::uint64_t before;
  std::uint64_t all;
};

// Ends a transfer of more than there should be: without an end it would fill the disk.
int ShowProgress(void* data, curl_off_t, curl_off_t received, curl_off_t, curl_off_t) {
  const auto& transfer = *static_cast<const Transfer*>(data);
  const std::uint64_t arrived = transfer.before + static_cast<std::uint64_t>(received);
  transfer.bar.Update(std::min(arrived, transfer.all));
  return arrived > transfer.all ? 1 : 0;
}

bool IsWorthAnotherTry(CURLcode code) {
  return code == CURLE_COULDNT_CONNECT || code == CURLE_OPERATION_TIMEDOUT ||
         code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING;
}

// Appends the rest of what the URL has to the file.
void Receive(const std::string& url, const fs::path& file, std::uint64_t all) {
  constexpr int kTries = 4;
  constexpr long kConnectSeconds = 30;
  // Less than a byte a second for a minute is a connection that is dead.
  constexpr long kStalledSeconds = 60;
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(),
                                                                 curl_easy_cleanup);
  if (!curl) throw std::runtime_error(url + ": libcurl cannot be started");
  std::array<char, CURL_ERROR_SIZE> message = {};
  ProgressBar bar(fmt::format("bytes of {}", file.stem().string()), all);
  for (int attempt = 1;; ++attempt) {
    const std::uint64_t before = FileBytes(file);
    Transfer transfer{bar, before, all};
    const std::unique_ptr<std::FILE, decltype(&std::fclose)> out(std::fopen(file.c_str(), "ab"),
                                                                 std::fclose);
    if (!out) throw std::runtime_error(file.string() + ": cannot be written");
    curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, message.data());
    curl_easy_setopt(curl.get(), CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
    curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, ShowProgress);
    curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, &transfer);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, out.get());
    curl_easy_setopt(curl.get(), CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(before));
    const CURLcode code = curl_easy_perform(curl.get());
    if (code == CURLE_OK) return;
    if (code == CURLE_ABORTED_BY_CALLBACK) {
      fs::remove(file);
      throw std::runtime_error(fmt::format("{}: more than the file's {} bytes", url, all));
    }
    if (attempt < kTries && IsWorthAnotherTry(code)) continue;
    const std::string said = message[0] != 0 ? message.data() : curl_easy_strerror(code);
    throw std::runtime_error(fmt::format("{}: {}", url, OneLine(said)));
  }
}

// Takes up a download where it was left; the file has its name once its digest is right.
void Download(const std::string& url, const Archive& archive, const fs::path& folder) {
  const fs::path file = folder / archive.file;
  if (fs::exists(file)) return;
  fs::path partial = file;
  partial += ".partial";
  if (FileBytes(partial) < archive.bytes) Receive(url, partial, archive.bytes);
  const std::string digest = FileDigest(partial);
  if (digest != archive.sha256) {
    fs::remove(partial);
    throw std::runtime_error(
        fmt::format("{}: its SHA-256 is {}, expected {}", url, digest, archive.sha256));
  }
  fs::rename(partial, file);
}

// Writes the files of an archive below the folder. Refuses everything but files and folders, and
// names that lead out of the folder.
void Unpack(const fs::path& file, const fs::path& folder) {
  constexpr std::size_t kBlockBytes = 1 << 16;
  const std::unique_ptr<archive, decltype(&archive_read_free)> in(archive_read_new(),
                                                                  archive_read_free);
  const std::unique_ptr<archive, decltype(&archive_write_free)> out(archive_write_disk_new(),
                                                                    archive_write_free);
  const auto check = [&](archive* which, int status) {
    if (status >= ARCHIVE_OK) return;
    throw std::runtime_error(
        fmt::format("{}: {}", file.string(), OneLine(archive_error_string(which))));
  };
  archive_read_support_filter_gzip(in.get());
  archive_read_support_format_tar(in.get());
  check(in.get(), archive_read_open_filename(in.get(), file.c_str(), kBlockBytes));
  archive_entry* entry = nullptr;
  for (int status = 0; (status = archive_read_next_header(in.get(), &entry)) != ARCHIVE_EOF;) {
    check(in.get(), status);
    const fs::path name = fs::path(archive_entry_pathname(entry)).lexically_normal();
    const auto kind = archive_entry_filetype(entry);
    if (name.is_absolute() || *name.begin() == ".." || archive_entry_hardlink(entry) != nullptr ||
        (kind != AE_IFREG && kind != AE_IFDIR)) {
      throw std::runtime_error(fmt::format("{}: {}, accepted: a file in the archive's own folder",
                                           file.string(), OneLine(name.string())));
    }
    archive_entry_set_pathname(entry, (folder / name).c_str());
    archive_entry_set_perm(entry, kind == AE_IFDIR ? 0755 : 0644);
    check(out.get(), archive_write_header(out.get(), entry));
    const void* block = nullptr;
    std::size_t bytes = 0;
    la_int64_t offset = 0;
    int read = 0;
    while ((read = archive_read_data_block(in.get(), &block, &bytes, &offset)) == ARCHIVE_OK) {
      check(out.get(), static_cast<int>(archive_write_data_block(out.get(), block, bytes, offset)));
    }
    if (read != ARCHIVE_EOF) check(in.get(), read);
    check(out.get(), archive_write_finish_entry(out.get()));
  }
}

bool IsImageFolder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "train", ignored) && fs::is_directory(folder / "val", ignored);
}

FoundSet ReadImageFolder(const fs::path& folder) {
  FoundSet found{folder, training::OpenImageFolder(folder, Split::kTrain, 224),
                 training::OpenImageFolder(folder, Split::kValidation, 224)};
  for (const Dataset* split : {found.train.get(), found.validation.get()}) {
    ProgressBar bar("images", static_cast<std::size_t>(split->size()));
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(split->shape().size()));
    for (std::int64_t i = 0; i < split->size(); ++i) {
      split->Read(i, pixels);
      bar.Update(static_cast<std::size_t>(i));
    }
  }
  return found;
}

}  // namespace

std::span<const OfficialSet> OfficialSets() { return kSets; }

FoundSet ReadOfficialSet(const OfficialSet& set, const fs::path& root) {
  FoundSet found{root / set.folder, set.load(root, Split::kTrain),
                 set.load(root, Split::kValidation)};
  found.is_official = found.train->digest() == set.train_digest &&
                      found.validation->digest() == set.validation_digest;
  return found;
}

std::vector<FoundSet> ReadSets(const fs::path& root) {
  std::vector<FoundSet> sets;
  std::error_code error;
  for (const OfficialSet& set : kSets) {
    if (fs::exists(root / set.folder, error)) sets.push_back(ReadOfficialSet(set, root));
  }
  std::vector<fs::path> folders = {root};
  for (fs::directory_iterator i(root, error), end; !error && i != end; i.increment(error)) {
    folders.push_back(i->path());
  }
  if (error) throw training::DataError(root, error.message());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    if (IsImageFolder(folder)) sets.push_back(ReadImageFolder(folder));
  }
  return sets;
}

FoundSet FetchSet(const OfficialSet& set, const fs::path& root, const std::string& mirror) {
  const std::string base = mirror.empty() ? std::string(set.url) : mirror;
  const fs::path work = root / fmt::format(".{}.partial", set.name);
  // What is unpacked in here replaces the archives in `work`.
  const fs::path unpacked = work / "unpacked";
  fs::create_directories(work);
  for (const Archive& archive : set.archives) {
    Download(fmt::format("{}{}{}", base, base.ends_with('/') ? "" : "/", archive.file), archive,
             work);
  }
  fs::remove_all(unpacked);
  fs::create_directories(unpacked / set.folder);
  for (const Archive& archive : set.archives) {
    const fs::path file = work / archive.file;
    if (set.is_tar) {
      Unpack(file, unpacked);
    } else {
      fs::copy_file(file, unpacked / set.folder / archive.file);
    }
  }
  FoundSet found = ReadOfficialSet(set, unpacked);
  if (!found.is_official) {
    throw std::runtime_error(
        fmt::format("{}: not the content of the official set", (unpacked / set.folder).string()));
  }
  fs::rename(unpacked / set.folder, root / set.folder);
  fs::remove_all(work);
  found.path = root / set.folder;
  return found;
}

}  // namespace batchless
