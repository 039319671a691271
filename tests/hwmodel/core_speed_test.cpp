#include "batchless/hwmodel/core_speed.h"

#include "batchless/analysis/argument.h"
#include "catch.h"

namespace batchless::hwmodel {
namespace {

TEST_CASE("A copy takes some time, and not too long", "[memory_bandwidth]") {
  // Wide limits: what machine this is nobody knows. A copy that the compiler leaves out would be
  // beyond the upper one.
  for (const std::int64_t bytes : {1 << 14, 1 << 20, 1 << 26}) {
    const double bandwidth = MeasureCopyBandwidth(bytes);
    CHECK(bandwidth > 1e8);
    CHECK(bandwidth < 1e13);
  }
  CHECK_THROWS_AS(MeasureCopyBandwidth(64), analysis::InvalidArgument);
}

TEST_CASE("Caches grow with their level, where they are known", "[memory_bandwidth]") {
  if (CacheBytes(1) > 0 && CacheBytes(2) > 0) CHECK(CacheBytes(1) < CacheBytes(2));
  CHECK(CacheBytes(4) == 0);
}

}  // namespace
}  // namespace batchless::hwmodel
