# Every file that the documents name in backquotes or link to has to exist.
#
#   cmake -DROOT=checkout -P check_docs.cmake
cmake_minimum_required(VERSION 3.25)

foreach(document README.md HACKING.md)
  file(READ ${ROOT}/${document} text)
  # CMake does not split a list inside square brackets.
  string(REGEX REPLACE "\\]\\(([^)]*)\\)" "`\\1`" text "${text}")
  string(REGEX REPLACE "[][;]" " " text "${text}")
  string(REGEX MATCHALL "`[A-Za-z0-9_./-]+`" names "${text}")
  set(checked 0)
  foreach(name IN LISTS names)
    string(REPLACE "`" "" path "${name}")
    # A path has a folder or an ending; what is built is not in the checkout.
    if(NOT path MATCHES "/|\\.(h|cpp|md|cff|json|txt)$" OR path MATCHES "^build/?|^/")
      continue()
    endif()
    # Short names of headers and folders inside a module are looked for below it.
    file(GLOB_RECURSE found ${ROOT}/analysis/*/${path} ${ROOT}/tests/${path})
    if(NOT EXISTS ${ROOT}/${path} AND NOT found)
      message(SEND_ERROR "${document} names ${path}, which does not exist")
    endif()
    math(EXPR checked "${checked} + 1")
  endforeach()
  if(checked LESS 2)
    message(SEND_ERROR "${document}: ${checked} paths found, the pattern no longer fits")
  endif()
endforeach()
