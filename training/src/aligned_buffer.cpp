#include "aligned_buffer.h"

#include <new>

#include "batchless/training/parameter_tensor.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace batchless::training {

void* AllocateAligned(std::int64_t bytes) {
  constexpr std::int64_t kCacheLine = 64;
  constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
  const std::int64_t alignment = bytes < kHugePage ? kCacheLine : kHugePage;
  void* data = std::aligned_alloc(static_cast<std::size_t>(alignment),
                                  static_cast<std::size_t>(RoundUp(bytes, alignment)));
  if (data == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  // Whole ones only, so that no more memory is taken than was asked for. Refused, it costs nothing.
  if (bytes >= kHugePage) {
    madvise(data, static_cast<std::size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
  }
#endif
  return data;
}

}  // namespace batchless::training
