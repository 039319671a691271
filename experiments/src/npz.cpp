#include "npz.h"

#include <fmt/format.h>
#include <minizip/unzip.h>
#include <minizip/zip.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "usage_error.h"

namespace batchless {
namespace {

static_assert(std::endian::native == std::endian::little,
              "arrays are written as they lie in memory");

constexpr std::string_view kMagic = "\x93NUMPY";
// The header of an array and the zip library's calls in between stay below this.
constexpr std::size_t kChunkBytes = std::size_t(1) << 30;
constexpr std::size_t kMaxHeaderBytes = 1 << 16;

std::string NpyHeader(std::string_view type, std::span<const std::int64_t> shape) {
  // NumPy reads a tuple: one dimension needs its comma.
  const std::string dimensions =
      fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, dimensions);
  // Magic, version and length take 10 bytes; the values start at a multiple of 64.
  const std::size_t unpadded = kMagic.size() + 4 + text.size() + 1;
  text.append((64 - unpadded % 64) % 64, ' ');
  text += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

// The library says that something went wrong; the system, which it asked last, what.
void Check(bool written) {
  if (written) return;
  const std::string why = errno == 0 ? "" : fmt::format(": {}", std::strerror(errno));
  throw ArrayFileError("the archive could not be written" + why);
}

struct CloseWritten {
  void operator()(void* archive) const { zipClose(archive, nullptr); }
};

void AddMember(void* archive, const training::NamedTensor& array, std::string_view type,
               std::span<const std::byte> bytes) {
  const std::string header = NpyHeader(type, array.shape);
  zip_fileinfo info = {};
  info.dosDate = (1 << 21) | (1 << 16);  // 1 January 1980: the same values give the same file
  const int large =
      header.size() + bytes.size() >= std::numeric_limits<std::int32_t>::max() ? 1 : 0;
  errno = 0;
  Check(zipOpenNewFileInZip64(archive, (array.name + ".npy").c_str(), &info, nullptr, 0, nullptr, 0,
                              nullptr, 0, 0, large) == ZIP_OK);
  Check(zipWriteInFileInZip(archive, header.data(), static_cast<unsigned>(header.size())) ==
        ZIP_OK);
  for (std::size_t start = 0; start < bytes.size(); start += kChunkBytes) {
    const std::size_t count = std::min(kChunkBytes, bytes.size() - start);
    Check(zipWriteInFileInZip(archive, bytes.data() + start, static_cast<unsigned>(count)) ==
          ZIP_OK);
  }
  Check(zipCloseFileInZip(archive) == ZIP_OK);
}

struct CloseArchive {
  void operator()(void* archive) const { unzClose(archive); }
};
using Archive = std::unique_ptr<void, CloseArchive>;

Archive OpenArchive(const std::string& path) {
  Archive archive(unzOpen64(path.c_str()));
  if (archive == nullptr) {
    const std::string why = WhyUnreadable(path);
    throw ArrayFileError(why.empty() ? "no zip archive, or a damaged one" : why);
  }
  return archive;
}

// Deflate makes at most so many bytes of one (zlib's technical details, "Maximum Compression Factor").
constexpr std::uint64_t kMostExpansion = 1032;

class MemberReader {
 public:
  MemberReader(const std::string& path, const std::string& member) : archive_(OpenArchive(path)) {
    if (unzLocateFile(archive_.get(), member.c_str(), 1) != UNZ_OK) {
      throw ArrayFileError("no member " + member);
    }
    unz_file_info64 info = {};
    if (unzGetCurrentFileInfo64(archive_.get(), &info, nullptr, 0, nullptr, 0, nullptr, 0) !=
            UNZ_OK ||
        unzOpenCurrentFile(archive_.get()) != UNZ_OK) {
      throw ArrayFileError(
          "damaged archive, or a member that is encrypted or compressed in another way");
    }
    left_ = info.uncompressed_size;
    std::error_code error;
    const std::uintmax_t file_bytes = std::filesystem::file_size(path, error);
    if (error || left_ / kMostExpansion > file_bytes) {
      throw ArrayFileError("damaged archive: a member larger than what the file can hold");
    }
  }

  std::uint64_t left() const { return left_; }

  void Read(void* to, std::size_t bytes) {
    char* position = static_cast<char*>(to);
    while (bytes > 0) {
      const auto wanted = static_cast<unsigned>(std::min(bytes, kChunkBytes));
      const int got = unzReadCurrentFile(archive_.get(), position, wanted);
      if (got <= 0) throw ArrayFileError("damaged archive: a member ends early");
      position += got;
      bytes -= static_cast<std::size_t>(got);
      left_ -= static_cast<std::size_t>(got);
    }
  }

  // Compares the checksum of what was read.
  void Finish() {
    if (unzCloseCurrentFile(archive_.get()) != UNZ_OK) {
      throw ArrayFileError("damaged archive: wrong checksum");
    }
  }

 private:
  Archive archive_;
  std::uint64_t left_ = 0;
};

struct NpyDescription {
  std::string type;  // "<f8"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// What stands behind 'key': in the header's dictionary, up to the next entry.
std::string_view Entry(std::string_view header, std::string_view key) {
  const std::size_t found = header.find(fmt::format("'{}'", key));
  const std::size_t colon =
      header.find(':', found == std::string_view::npos ? header.size() : found);
  if (colon == std::string_view::npos) {
    throw ArrayFileError(fmt::format("an array whose header has no '{}'", key));
  }
  std::string_view entry = header.substr(colon + 1);
  while (entry.starts_with(' ')) entry.remove_prefix(1);
  return entry;
}

NpyDescription ParseNpyHeader(std::string_view header) {
  NpyDescription description;
  const std::string_view type = Entry(header, "descr");
  if (!type.starts_with('\'')) throw ArrayFileError("an array of records, not of numbers");
  description.type = type.substr(1, type.find('\'', 1) - 1);
  description.fortran_order = Entry(header, "fortran_order").starts_with("True");
  const std::string_view shape = Entry(header, "shape");
  const std::size_t end = shape.find(')');
  if (!shape.starts_with('(') || end == std::string_view::npos) {
    throw ArrayFileError("an array whose header has no shape");
  }
  std::size_t position = 1;
  while (position < end) {
    if (std::isdigit(static_cast<unsigned char>(shape[position])) == 0) {
      ++position;
      continue;
    }
    std::int64_t extent = 0;
    while (std::isdigit(static_cast<unsigned char>(shape[position])) != 0) {
      if (extent > std::numeric_limits<std::uint32_t>::max())
        throw ArrayFileError("an array too large");
      extent = extent * 10 + (shape[position] - '0');
      ++position;
    }
    description.shape.push_back(extent);
  }
  return description;
}

// From first index fastest to last index fastest.
std::vector<double> Transposed(const std::vector<double>& values,
                               const std::vector<std::int64_t>& shape) {
  std::vector<double> result(values.size());
  std::vector<std::int64_t> index(shape.size(), 0);
  for (const double value : values) {
    std::int64_t place = 0;
    for (std::size_t k = 0; k < shape.size(); ++k) place = place * shape[k] + index[k];
    result[place] = value;
    for (std::size_t k = 0; k < shape.size() && ++index[k] == shape[k]; ++k) index[k] = 0;
  }
  return result;
}

template <class Reader>
std::string ReadHeader(Reader& member) {
  std::string prefix(kMagic.size() + 2, '\0');
  member.Read(prefix.data(), prefix.size());
  if (!prefix.starts_with(kMagic)) throw ArrayFileError("a member that is no .npy array");
  std::uint32_t length = 0;
  // Version 1 has a length of two bytes, later ones of four.
  member.Read(&length, prefix[kMagic.size()] == 1 ? 2 : 4);
  if (length > kMaxHeaderBytes) throw ArrayFileError("an array whose header is too long");
  std::string header(length, '\0');
  member.Read(header.data(), header.size());
  return header;
}

// Those of an archive come first, where single bytes are masks beside weights. Numbers of two bytes may be
// another format's bits there, bfloat16's for instance.
constexpr std::array<ElementType, 11> kNpyTypes{{
    {"<f8", 8, ToDoubles<double>},
    {"<f4", 4, ToDoubles<float>},
    {"<i8", 8, ToDoubles<std::int64_t>},
    {"<i4", 4, ToDoubles<std::int32_t>},
    {"|u1", 1, ToDoubles<std::uint8_t>},
    {"|b1", 1, ToDoubles<std::uint8_t>},
    {"|i1", 1, ToDoubles<std::int8_t>},
    {"<i2", 2, ToDoubles<std::int16_t>},
    {"<u2", 2, ToDoubles<std::uint16_t>},
    {"<u4", 4, ToDoubles<std::uint32_t>},
    {"<u8", 8, ToDoubles<std::uint64_t>},
}};
constexpr std::size_t kTypesInArchives = 6;

template <class Reader>
training::NamedTensor ReadArray(Reader& member, std::size_t max_values,
                                std::span<const ElementType> types) {
  const NpyDescription description = ParseNpyHeader(ReadHeader(member));
  const ElementType& type = TypeNamed(types, description.type);
  std::int64_t count = 1;
  for (const std::int64_t extent : description.shape) {
    // Each extent is below 2^36, so the product cannot wrap before it is found too large.
    if (count != 0 && extent > std::numeric_limits<std::uint32_t>::max() / count) {
      throw ArrayFileError("an array too large");
    }
    count *= extent;
  }
  if (std::cmp_greater(count, max_values)) {
    throw ArrayFileError(fmt::format("an array of {} numbers, more than {}", count, max_values));
  }
  if (member.left() != static_cast<std::uint64_t>(count) * type.bytes) {
    throw ArrayFileError("an array whose size is not that of its shape");
  }
  std::vector<char> bytes(member.left());
  member.Read(bytes.data(), bytes.size());

  training::NamedTensor array{
      .name = "", .shape = description.shape, .values = type.convert(bytes)};
  if (description.fortran_order) array.values = Transposed(array.values, array.shape);
  return array;
}

std::vector<std::string> NpzNames(const std::string& path) {
  constexpr std::string_view kExtension = ".npy";
  const Archive archive = OpenArchive(path);
  std::vector<std::string> names;
  int status = unzGoToFirstFile(archive.get());
  for (; status == UNZ_OK; status = unzGoToNextFile(archive.get())) {
    std::array<char, 1024> buffer = {};
    unz_file_info64 info = {};
    if (unzGetCurrentFileInfo64(archive.get(), &info, buffer.data(), buffer.size() - 1, nullptr, 0,
                                nullptr, 0) != UNZ_OK) {
      throw ArrayFileError("damaged archive");
    }
    std::string name = buffer.data();
    if (!name.ends_with(kExtension))
      throw ArrayFileError(name + ", a member that is no .npy array");
    name.resize(name.size() - kExtension.size());
    names.push_back(std::move(name));
  }
  if (status != UNZ_END_OF_LIST_OF_FILE) throw ArrayFileError("damaged archive");
  return names;
}

}  // namespace

void WriteNpz(const std::string& path, std::span<const training::NamedTensor> arrays,
              training::Precision precision) {
  errno = 0;
  std::unique_ptr<void, CloseWritten> archive(zipOpen64(path.c_str(), APPEND_STATUS_CREATE));
  Check(archive != nullptr);
  for (const training::NamedTensor& array : arrays) {
    if (precision == training::Precision::kDouble) {
      AddMember(archive.get(), array, "<f8", std::as_bytes(std::span(array.values)));
    } else {
      const std::vector<float> values(array.values.begin(), array.values.end());
      AddMember(archive.get(), array, "<f4", std::as_bytes(std::span(values)));
    }
  }
  errno = 0;
  Check(zipClose(archive.release(), nullptr) == ZIP_OK);
}

std::vector<training::NamedTensor> ReadNpz(const std::string& path, std::size_t max_values) {
  std::vector<training::NamedTensor> arrays;
  for (const std::string& name : NpzNames(path)) {
    try {
      arrays.push_back(ReadNpz(path, name, max_values));
    } catch (const ArrayFileError& error) {
      throw ArrayFileError(fmt::format("{}: {}", name, error.what()));
    }
  }
  return arrays;
}

training::NamedTensor ReadNpz(const std::string& path, const std::string& name,
                              std::size_t max_values) {
  MemberReader member(path, name + ".npy");
  training::NamedTensor array =
      ReadArray(member, max_values, std::span(kNpyTypes).first(kTypesInArchives));
  member.Finish();
  array.name = name;
  return array;
}

training::NamedTensor ReadNpy(const std::string& path, std::size_t max_values) {
  FileReader file(path);
  return ReadArray(file, max_values, kNpyTypes);
}

}  // namespace batchless
