# Modules depend on one another one way only: each may include itself and those before it.
#
#   cmake -DROOT=checkout -DWORK=scratch folder -P check_layers.cmake
cmake_minimum_required(VERSION 3.25)

set(layers analysis hwmodel training experiments)

# Sets <result> to the include lines below <root> that reach up, each as "file: line".
function(find_violations root result)
  set(above ${layers})
  foreach(module IN LISTS layers)
    list(POP_FRONT above)
    if(NOT above)
      break()
    endif()
    list(JOIN above "|" pattern)
    file(GLOB_RECURSE files ${root}/${module}/*.h ${root}/${module}/*.cpp)
    if(NOT files)
      message(FATAL_ERROR "no sources in ${root}/${module}")
    endif()
    foreach(file IN LISTS files)
      file(STRINGS ${file} lines REGEX "^ *# *include *[\"<](.*/)?(${pattern})/")
      foreach(line IN LISTS lines)
        list(APPEND found "${file}: ${line}")
      endforeach()
    endforeach()
  endforeach()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# The check has to see what it is there for.
file(REMOVE_RECURSE ${WORK})
foreach(module IN LISTS layers)
  file(WRITE ${WORK}/${module}/src/a.cpp "#include <vector>\n#include \"batchless/analysis/a.h\"\n")
endforeach()
find_violations(${WORK} violations)
if(violations)
  message(FATAL_ERROR "reported where there is none: ${violations}")
endif()
foreach(line "#include \"batchless/hwmodel/a.h\"" "#  include <batchless/training/a.h>"
             "#include \"../../experiments/src/a.h\"")
  file(WRITE ${WORK}/analysis/src/a.cpp "${line}\n")
  find_violations(${WORK} violations)
  if(NOT violations)
    message(FATAL_ERROR "not seen: ${line}")
  endif()
endforeach()

find_violations(${ROOT} violations)
if(violations)
  list(JOIN violations "\n" text)
  message(FATAL_ERROR "includes against the order ${layers}:\n${text}")
endif()
