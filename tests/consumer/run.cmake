# Installs the build into a fresh folder, moves it, and configures, builds and runs this project and the
# examples that are in the package against it. Moved, because a package must not remember where it was
# installed to.
#
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DGENERATOR=... -DCXX=... -DCXX_FLAGS=... -DWARNINGS=...
#         -P run.cmake
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first OUTPUT_QUIET
                        COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${WORK}/first ${WORK}/prefix)

# The sanitizers' flags come along, because the libraries were built with them.
function(build source folder flags)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${source} -B ${folder} -G ${GENERATOR}
            -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${CXX}
            "-DCMAKE_CXX_FLAGS=${flags}" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${folder} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
build(${SOURCE} ${WORK}/build "${CXX_FLAGS}")
execute_process(COMMAND ${WORK}/build/consumer COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/prefix/bin/batchless --version COMMAND_ERROR_IS_FATAL ANY)

set(examples ${WORK}/prefix/share/batchless/experiments/examples)
file(GLOB programs RELATIVE ${examples} ${examples}/*.cpp)
foreach(program IN LISTS programs)
  file(READ ${examples}/${program} text)
  string(REGEX MATCHALL "\n" lines "${text}")
  list(LENGTH lines count)
  if(count GREATER 40)
    message(FATAL_ERROR "${program} has ${count} lines, 40 are what an example may have")
  endif()
endforeach()
build(${examples} ${WORK}/examples "${CXX_FLAGS} ${WARNINGS}")

# example(<name> <regular expression>...): runs it and looks for each of them in what it prints.
set(checked)
function(example name)
  execute_process(COMMAND ${WORK}/examples/${name} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  message("${name}:\n${text}")
  foreach(wanted IN LISTS ARGN)
    if(NOT text MATCHES "${wanted}")
      message(FATAL_ERROR "${name} does not print ${wanted}")
    endif()
  endforeach()
  set(checked ${checked} ${name}.cpp PARENT_SCOPE)
endfunction()
# sqrt(0.9).
example(radius "radius 0.948683298051, sqrt.m. 0.948683298051")
# 2 sin(pi/18), where SGD stops being stable under a delay of 4; without momentum the rule is that.
example(map "m 0.000 [^\n]* up to 0.3473\n")
example(schedule "pb +6   4   2   0 " "1f1b +3   2   1   0 " "2bw +1   1   1   1 ")
example(machine "resnet20: 34 stages")
example(training "first one's gradients 10 updates late" "after 20000 samples 0\\.9[0-9]+ ")
# The largest roots of z^2 (z - 1)(z - 0.9) + x (z + k (z - 1)) at x = 0.1, k = 0, and x = 0.001, k = 2.
example(rule "k = 0: worst radius 1\\.041066, not stable" "k = 2: worst radius 0\\.988878, stable"
        "k = 2: 0\\.9[0-9]+ of")
example(optimizer "lion: 0\\.[89][0-9]+ of 20000")
list(SORT checked)
if(NOT checked STREQUAL programs)
  message(FATAL_ERROR "examples ${programs}, run: ${checked}")
endif()
