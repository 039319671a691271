#pragma once

// The one way to include Catch2: version 2 has a single header, version 3 many.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
