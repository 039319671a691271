# Compile options of the project's own code. Consumers of the installed package get none of them.

# Bitwise reproducibility: with contraction the compiler may fuse a*b+c into one rounding, and
# whether it does depends on the compiler, its version, the target and the surrounding code. Code
# that wants a fused multiply-add says so (std::fma, or Highway's MulAdd). For the same reason no
# option that licenses reassociation is used anywhere.
add_compile_options(-ffp-contract=off)

# Only warnings that GCC 12 and Clang 14 both know, so that clangd can read a compilation
# database written for either. Libraries' headers come in as system headers.
# -Wsign-conversion is left out: Eigen's signed indices meet std::size_t on every other line.
add_compile_options(
  -Wall
  -Wextra
  -Wpedantic
  -Wconversion
  -Wno-sign-conversion
  -Wold-style-cast
  -Wcast-qual
  -Wformat=2
  -Wimplicit-fallthrough
  -Wnon-virtual-dtor
  -Woverloaded-virtual
  -Wundef
  -Wunused)

# Where several sources are compiled as one, Clang takes another one's names for shadowed. `make lint` reads
# each by itself.
if(NOT (BATCHLESS_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL Clang))
  add_compile_options(-Wshadow)
endif()

# The sanitizers' instrumentation hides initializations from GCC, which then reports them missing,
# in the standard library too.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  add_compile_options(-Wno-maybe-uninitialized)
endif()

# The compiler cache reads what goes into the compiler; without this a precompiled header is not in it.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(-fpch-preprocess)
endif()

if(BATCHLESS_WARNINGS_AS_ERRORS)
  add_compile_options(-Werror)
endif()

# batchless_unity_of_kernels(<variable> BATCH_SIZE n): puts sources that compile n of a list's at once into
# the list's place. Each of the list is compiled for several instruction sets, so includes Highway's
# foreach_target.h, and itself by HWY_TARGET_INCLUDE where that is not defined. More than half of their time goes
# to reading Highway once for each instruction set.
function(batchless_unity_of_kernels variable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "BATCH_SIZE" "")
  if(NOT BATCHLESS_UNITY)
    return()
  endif()
  set(unity)
  set(left ${${variable}})
  while(left)
    list(SUBLIST left 0 ${arg_BATCH_SIZE} batch)
    list(REMOVE_ITEM left ${batch})
    list(LENGTH unity number)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${variable}_${number}_kernels.cpp)
    list(TRANSFORM batch REPLACE "(.+)" "#include \"${CMAKE_CURRENT_SOURCE_DIR}/\\1\"\n")
    string(JOIN "" text "#undef HWY_TARGET_INCLUDE\n#define HWY_TARGET_INCLUDE \"${file}\"\n"
           "#include <hwy/foreach_target.h>\n" ${batch})
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}")
    list(APPEND unity ${file})
  endwhile()
  set(${variable} ${unity} PARENT_SCOPE)
endfunction()

# batchless_module(<module> SOURCES ... PUBLIC ... PRIVATE ...): the library target
# batchless_<module>, alias batchless::<module>, with public headers in
# <module>/include/batchless/<module>/ and the given libraries to link.
function(batchless_module module)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PUBLIC;PRIVATE")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "batchless_module(${module}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target batchless_${module})
  if(arg_SOURCES)
    add_library(${target} ${arg_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE ${arg_PRIVATE})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${BATCHLESS_UNITY} UNITY_BUILD_BATCH_SIZE 12)
    # What is compiled for several instruction sets includes itself.
    set(alone ${arg_SOURCES})
    list(FILTER alone INCLUDE REGEX "_simd\\.cpp$|_kernels\\.cpp$|/core_speed\\.cpp$|/eigenbasis\\.cpp$|/decompositions\\.cpp$")
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(batchless::${module} ALIAS ${target})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(
    ${target} ${scope} $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
                       $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} ${scope} ${arg_PUBLIC})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${module})
  install(
    TARGETS ${target}
    EXPORT batchlessTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(
    DIRECTORY include/batchless
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING
    PATTERN "*.h")
endfunction()
