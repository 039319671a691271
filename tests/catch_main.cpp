// The main function of all tests. BATCHLESS_TEST_VECTORS=avx2 or least takes kernels of wider vectors away.
#define CATCH_CONFIG_RUNNER
#include <hwy/targets.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "catch.h"

namespace {

// Runs before the initial values of any file, some of which look for kernels. Targets that are disabled
// come back when a backend asks for the supported ones; those that are set for tests stay.
[[gnu::constructor(101)]] void LimitVectors() {
  const char* const vectors = std::getenv("BATCHLESS_TEST_VECTORS");
  if (vectors == nullptr) return;
  if (vectors == std::string_view("avx2")) {
    hwy::SetSupportedTargetsForTest(hwy::SupportedTargets() & ~(HWY_AVX3 | HWY_AVX3_DL));
  } else if (vectors == std::string_view("least")) {
    hwy::SetSupportedTargetsForTest(HWY_STATIC_TARGET);
  } else {
    std::fprintf(stderr, "BATCHLESS_TEST_VECTORS: got '%s', accepted: avx2, least\n", vectors);
    std::_Exit(2);
  }
}

}  // namespace

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
