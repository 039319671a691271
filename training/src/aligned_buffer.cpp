#include "aligned_buffer.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>

#include "batchless/training/parameter_tensor.h"

#ifdef __linux__
#include <linux/mman.h>  // MADV_COLLAPSE, which the C library's header may not have yet
#include <sys/mman.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER  // GCC
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER  // Clang
#endif
#endif

namespace batchless::training {
namespace {

constexpr std::int64_t kCacheLine = 64;
// Address space; memory is taken as far as buffers reach. Pieces start at multiples of it.
constexpr std::int64_t kPiece = std::int64_t{32} << 20;
// The sanitizer sees what runs over a buffer's end only where no other one begins there.
#ifdef ADDRESS_SANITIZER
constexpr bool kShared = false;
#else
constexpr bool kShared = true;
#endif

// At the start of a piece.
struct alignas(kCacheLine) PieceHeader {
  std::int64_t used = sizeof(PieceHeader);
  std::int64_t buffers = 0;
};

// The allocator's own, as the heap is the standard library's.
std::mutex mutex;
PieceHeader* current = nullptr;  // new buffers go behind its last one

void* FromSystem(std::int64_t alignment, std::int64_t bytes) {
  void* data =
      std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(bytes));
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

PieceHeader* MakePiece(std::int64_t bytes) {
  const std::int64_t size = RoundUp(bytes + std::int64_t{sizeof(PieceHeader)}, kPiece);
  void* data = FromSystem(kPiece, size);
#ifdef MADV_HUGEPAGE
  // Refused, it costs nothing.
  madvise(data, static_cast<std::size_t>(size), MADV_HUGEPAGE);
#endif
  return new (data) PieceHeader;
}

}  // namespace

void* AllocateAligned(std::int64_t bytes) {
  const std::int64_t size = std::max(RoundUp(bytes, kCacheLine), kCacheLine);
  if constexpr (!kShared) return FromSystem(kCacheLine, size);
  const std::lock_guard lock(mutex);
  PieceHeader* piece = current;
  if (size > kPiece / 2) {
    // A large buffer gets a piece of its own, so that every buffer starts in a piece's first kPiece bytes.
    piece = MakePiece(size);
  } else if (piece == nullptr || piece->used + size > kPiece) {
    current = piece = MakePiece(size);
  }
  std::byte* data = reinterpret_cast<std::byte*>(piece) + piece->used;
  piece->used += size;
  ++piece->buffers;
  return data;
}

void FreeAligned(void* data) {
  if constexpr (!kShared) return std::free(data);
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(data);
  auto* piece = reinterpret_cast<PieceHeader*>(static_cast<std::byte*>(data) - address % kPiece);
  const std::lock_guard lock(mutex);
  if (--piece->buffers > 0) return;
  if (piece == current) current = nullptr;
  std::free(piece);
}

void MoveToHugePages(void* data, std::int64_t bytes) {
#if defined(MADV_HUGEPAGE) && defined(MADV_COLLAPSE)
  constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data));
  const std::int64_t first = RoundUp(address, kHugePage) - address;
  const std::int64_t size = (bytes - first) / kHugePage * kHugePage;
  if (size <= 0) return;
  std::byte* pages = static_cast<std::byte*>(data) + first;
  madvise(pages, static_cast<std::size_t>(size), MADV_HUGEPAGE);
  madvise(pages, static_cast<std::size_t>(size), MADV_COLLAPSE);
#else
  static_cast<void>(data);
  static_cast<void>(bytes);
#endif
}

}  // namespace batchless::training
