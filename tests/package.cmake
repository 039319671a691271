# Makes the Debian package, unpacks it, and lets its program compute, train and read the machines that come
# with it.
#
#   cmake -DBUILD=... -DWORK=... -DVERSION=... -P package.cmake
cmake_minimum_required(VERSION 3.25)

find_program(SHLIBDEPS dpkg-shlibdeps)
if(NOT SHLIBDEPS)
  message("skipped: there is no dpkg-shlibdeps (dpkg-dev)")
  return()
endif()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND ${CMAKE_CPACK_COMMAND} --config ${BUILD}/CPackConfig.cmake -B ${WORK}/made
                WORKING_DIRECTORY ${WORK} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(GLOB package ${WORK}/made/batchless_${VERSION}_*.deb)
execute_process(COMMAND dpkg-deb -f ${package} Depends OUTPUT_VARIABLE depends
                        COMMAND_ERROR_IS_FATAL ANY)
foreach(library IN ITEMS libc6 libhwy1 libstdc++6)
  string(FIND "${depends}" "${library} " place)
  if(place EQUAL -1)
    message(FATAL_ERROR "the package does not depend on ${library}: ${depends}")
  endif()
endforeach()

execute_process(COMMAND dpkg-deb -x ${package} ${WORK}/root COMMAND_ERROR_IS_FATAL ANY)
set(share ${WORK}/root/usr/share/batchless)
if(NOT EXISTS ${share}/experiments/examples/CMakeLists.txt)
  message(FATAL_ERROR "the package has no examples")
endif()
function(run out)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${share} OUTPUT_VARIABLE text ERROR_QUIET
                          COMMAND_ERROR_IS_FATAL ANY)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()
foreach(call IN ITEMS "optimum --rule lwp-w+sc --delay 4 --condition 1000 --json"
                      "throughput --network resnet20 --schedule pb --json --hardware \
hwmodel/machines/wse2.toml")
  separate_arguments(call)
  run(packaged ${WORK}/root/usr/bin/batchless ${call})
  run(built ${BUILD}/bin/batchless ${call})
  if(NOT packaged STREQUAL built)
    message(FATAL_ERROR "${call}: the package says ${packaged}, the build ${built}")
  endif()
endforeach()
run(trained ${WORK}/root/usr/bin/batchless train experiments/configs/resnet20_pb.toml --set
    network.name=linear --set run.samples=64 --set data.limit_validation=32 --out ${WORK}/run --json)
string(JSON samples GET "${trained}" samples)
if(NOT samples EQUAL 64)
  message(FATAL_ERROR "trained on ${samples} samples, 64 wanted")
endif()
