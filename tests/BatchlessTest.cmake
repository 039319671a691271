# batchless_test(<name> LABEL quick|slow|figures SOURCES ... [LIBS ...] [TIMEOUT seconds])
#
# One Catch2 executable and one ctest of the same name. The sources include "catch.h", which takes
# Catch2 2 and 3 alike. Tests run from the repository root, so that they can name files in it.
#
# batchless_bench(<name> SOURCES ... [LIBS ...])
#
# One Google Benchmark executable bin/<name>; the name starts with bench_. `make bench` runs all.

set(batchless_test_labels quick slow figures)

if(BATCHLESS_TESTS)
  find_package(Catch2 REQUIRED CONFIG)
  # Compiled once for all tests: Catch2's main function takes longer than most of them.
  add_library(batchless_catch_main OBJECT catch_main.cpp)
  target_include_directories(batchless_catch_main PUBLIC ${CMAKE_CURRENT_LIST_DIR})
  target_link_libraries(batchless_catch_main PUBLIC Catch2::Catch2 PRIVATE hwy::hwy)
endif()

if(BATCHLESS_BENCHMARKS)
  find_package(benchmark REQUIRED CONFIG)
endif()

function(batchless_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL;TIMEOUT" "SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "batchless_test(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_LABEL IN_LIST batchless_test_labels)
    message(FATAL_ERROR "batchless_test(${name}): LABEL '${arg_LABEL}' is not one of "
                        "${batchless_test_labels}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests)
  target_link_libraries(${name} PRIVATE batchless_catch_main ${arg_LIBS})
  add_test(
    NAME ${name}
    COMMAND ${name} --durations no
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
endfunction()

function(batchless_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  if(NOT name MATCHES "^bench_")
    message(FATAL_ERROR "batchless_bench(${name}): the name must start with bench_")
  endif()
  if(BATCHLESS_BENCHMARKS)
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE benchmark::benchmark benchmark::benchmark_main
                                          ${arg_LIBS})
  endif()
endfunction()
