// Buffers that share pieces of memory: apart from one another, zero, and given back.
#include "aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"

using batchless::training::AlignedBuffer;

namespace {

constexpr std::int64_t kMegabyte = std::int64_t{1} << 20;

// Bytes of memory that this process has; 0 where the system does not say.
std::int64_t ResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "VmRSS:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

bool Holds(const AlignedBuffer<std::uint8_t>& buffer, std::uint8_t value) {
  return std::all_of(buffer.data(), buffer.data() + buffer.size(),
                     [&](std::uint8_t byte) { return byte == value; });
}

}  // namespace

TEST_CASE("Buffers of all sizes lie apart, aligned and zero, in any order of their ends") {
  std::mt19937 random(1);
  struct Held {
    AlignedBuffer<std::uint8_t> buffer;
    std::uint8_t value;
  };
  std::vector<Held> held;
  const std::vector<std::int64_t> sizes{
      0, 1, 64, 65, 4096, kMegabyte, 5 * kMegabyte, 33 * kMegabyte};
  for (int i = 0; i < 120; ++i) {
    AlignedBuffer<std::uint8_t> buffer(sizes[random() % sizes.size()]);
    REQUIRE(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    REQUIRE(Holds(buffer, 0));
    const auto value = static_cast<std::uint8_t>(1 + i);
    std::fill_n(buffer.data(), buffer.size(), value);
    held.push_back({std::move(buffer), value});
    if (held.size() < 12) continue;
    const std::size_t gone = random() % held.size();
    REQUIRE(Holds(held[gone].buffer, held[gone].value));
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(gone));
  }
  for (const Held& h : held) REQUIRE(Holds(h.buffer, h.value));
}

TEST_CASE("Memory goes back to the system when the last buffer of its piece has gone") {
  const std::int64_t before = ResidentBytes();
  if (before == 0) {
    WARN("skipped: the system does not say how much memory a process has");
    return;
  }
  constexpr std::int64_t kAll = 256 * kMegabyte;
  {
    std::vector<AlignedBuffer<float>> buffers;
    buffers.reserve(64);
    for (int i = 0; i < 64; ++i) buffers.emplace_back(kAll / 64 / std::int64_t{sizeof(float)});
    // No more is taken than buffers reach into, but for what a piece of 32 MB has at its end.
    const std::int64_t taken = ResidentBytes() - before;
    CHECK(taken >= kAll);
    CHECK(taken <= kAll + kAll / 8);
  }
  CHECK(ResidentBytes() - before <= kAll / 8);
}
