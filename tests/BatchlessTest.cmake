# batchless_test_program(<program> [UNITY n] [HEADERS ...] [LIBS ...])
#
# One Catch2 executable bin/tests/<program>, for batchless_test to fill. It has a precompiled header of
# Catch2 and HEADERS. The sources include "catch.h", which takes Catch2 2 and 3 alike. With UNITY n of them are
# compiled at once, so that what they name has to differ.
#
# batchless_test(<name> [PROGRAM <program>] LABEL quick|slow|figures [SOURCES ...] [LIBS ...]
#                [TIMEOUT seconds] [COST n] [LONG])
#
# One ctest <name>: the cases of the first source, <name>.cpp where SOURCES names none, which becomes part
# of PROGRAM. By hand the same is <program> -# "[#<source>]". Without PROGRAM the test has an executable of
# its own name. The longest have a COST and start first. LONG adds a ctest <name>_long with label long: the
# cases with Catch2's hidden tag [.long]. Tests run from the repository root, so that they can name files in
# it. Threads and processes of a test wait for one another: none keeps more than one processor busy.
#
# batchless_bench(<name> SOURCES ... [LIBS ...])
#
# One Google Benchmark executable bin/<name>; the name starts with bench_. `make bench` runs all.

set(batchless_test_labels quick slow figures)

if(BATCHLESS_TESTS)
  find_package(Catch2 REQUIRED CONFIG)
  # Compiled once for all programs: Catch2's main function takes longer than most tests.
  add_library(batchless_catch_main OBJECT catch_main.cpp)
  target_include_directories(batchless_catch_main PUBLIC ${CMAKE_CURRENT_LIST_DIR})
  target_link_libraries(batchless_catch_main PUBLIC Catch2::Catch2 PRIVATE hwy::hwy)
  target_compile_options(batchless_catch_main PRIVATE -O1)
endif()

if(BATCHLESS_BENCHMARKS)
  find_package(benchmark REQUIRED CONFIG)
endif()

function(batchless_test_program program)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "UNITY" "HEADERS;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "batchless_test_program(${program}): unknown arguments "
                        "${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${program})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                              ${PROJECT_BINARY_DIR}/bin/tests)
  target_link_libraries(${program} PRIVATE batchless_catch_main ${arg_LIBS})
  # What is tested is optimized as always. The tests' own code takes longer to compile than to run.
  target_compile_options(${program} PRIVATE -O1)
  # Not for Clang, whose build so finds the includes that a source forgot.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_precompile_headers(${program} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/catch.h
                              ${arg_HEADERS})
    if(arg_UNITY)
      set_target_properties(${program} PROPERTIES UNITY_BUILD ${BATCHLESS_UNITY}
                                                  UNITY_BUILD_BATCH_SIZE ${arg_UNITY})
    endif()
  endif()
endfunction()

function(batchless_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LONG"
                        "PROGRAM;LABEL;TIMEOUT;COST" "SOURCES;LIBS")
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
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
    math(EXPR arg_TIMEOUT "4 * ${arg_TIMEOUT}")
  endif()
  if(NOT arg_SOURCES)
    set(arg_SOURCES ${name}.cpp)
  endif()
  if(NOT arg_PROGRAM)
    set(arg_PROGRAM ${name})
    batchless_test_program(${name})
  endif()
  target_sources(${arg_PROGRAM} PRIVATE ${arg_SOURCES})
  target_link_libraries(${arg_PROGRAM} PRIVATE ${arg_LIBS})

  list(GET arg_SOURCES 0 source)
  cmake_path(GET source STEM source)
  set(run ${arg_PROGRAM} -\# --durations no)
  # A filter that fits no case fails; Catch2 3 sees to that by itself.
  if(Catch2_VERSION VERSION_LESS 3)
    list(APPEND run --warn NoTests)
  endif()
  add_test(
    NAME ${name}
    COMMAND ${run} "[#${source}]~[.]"
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
  set(tests ${name})
  if(arg_LONG)
    add_test(
      NAME ${name}_long
      COMMAND ${run} "[#${source}][long]"
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name}_long PROPERTIES LABELS long TIMEOUT 3600)
    list(APPEND tests ${name}_long)
  endif()
  if(arg_COST)
    set_tests_properties(${tests} PROPERTIES COST ${arg_COST})
  endif()
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
