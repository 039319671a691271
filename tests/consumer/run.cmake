# Installs the build into a fresh folder, moves it, and configures, builds and runs this project
# against it. Moved, because a package must not remember where it was installed to.
#
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DGENERATOR=... -DCXX=... -DCXX_FLAGS=... -P run.cmake
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first OUTPUT_QUIET
                        COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${WORK}/first ${WORK}/prefix)

# The sanitizers' flags come along, because the libraries were built with them.
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR}
          -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${CXX}
          -DCMAKE_CXX_FLAGS=${CXX_FLAGS} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/build/consumer COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/prefix/bin/batchless --version COMMAND_ERROR_IS_FATAL ANY)
