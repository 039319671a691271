// The main function of all tests. BATCHLESS_TEST_VECTORS=avx2 or least takes kernels of wider vectors away.
#define CATCH_CONFIG_RUNNER
#include <hwy/targets.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "catch.h"

namespace {

bool LimitVectors() {
  const char* const vectors = std::getenv("BATCHLESS_TEST_VECTORS");
  if (vectors == nullptr) return true;
  if (vectors == std::string_view("avx2")) {
    hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL);
  } else if (vectors == std::string_view("least")) {
    hwy::DisableTargets(~static_cast<std::int64_t>(HWY_STATIC_TARGET));
  } else {
    std::fprintf(stderr, "BATCHLESS_TEST_VECTORS: got '%s', accepted: avx2, least\n", vectors);
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (!LimitVectors()) return 2;
  return Catch::Session().run(argc, argv);
}
