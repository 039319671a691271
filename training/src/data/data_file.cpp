#include "data/data_file.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>

#include "batchless/training/data_error.h"

namespace batchless::training {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;
// What a packed file may come to: 1032 times its size is possible. MNIST's largest file has 47 MB.
constexpr std::size_t kMaxUnpackedBytes = std::size_t{1} << 30;

}  // namespace

std::vector<std::uint8_t> ReadDataFile(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::status_known(status)) throw DataError(path, error.message());
  if (!std::filesystem::exists(status)) throw DataError(path, "there is no such file");
  if (!std::filesystem::is_regular_file(status)) throw DataError(path, "this is no regular file");
  errno = 0;
  // zlib passes bytes on as they are where they are not gzip's.
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) throw DataError(path, std::strerror(errno == 0 ? ENOMEM : errno));
  gzbuffer(file.get(), kPieceBytes);

  std::vector<std::uint8_t> bytes;
  std::size_t size = 0;
  for (int read = 1; read > 0; size += static_cast<std::size_t>(read)) {
    bytes.resize(size + kPieceBytes);
    read = gzread(file.get(), bytes.data() + size, kPieceBytes);
    // A file that ends too early is an error that comes with the last bytes.
    int code = Z_OK;
    const char* message = gzerror(file.get(), &code);
    if (code == Z_ERRNO) throw DataError(path, std::strerror(errno));
    if (code == Z_BUF_ERROR) throw DataError(path, "the gzip file is truncated");
    if (code < 0) throw DataError(path, std::string("the gzip file is damaged: ") + message);
    if (size > kMaxUnpackedBytes && gzdirect(file.get()) == 0) {
      throw DataError(path, "the gzip file holds more than 1 GiB");
    }
  }
  if (size == 0) throw DataError(path, "the file is empty");
  bytes.resize(size);
  return bytes;
}

}  // namespace batchless::training
