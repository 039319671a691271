#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace batchless::training {

/// All bytes of a file, unpacked where they are gzip's. Throws DataError for a file that is missing,
/// unreadable, empty, or gzip's and damaged or of more than 1 GiB unpacked.
std::vector<std::uint8_t> ReadDataFile(const std::filesystem::path& path);

}  // namespace batchless::training
