# Writes OUT, a C++ source that holds the commit of the checkout SOURCE_DIR.
#
#   cmake -DSOURCE_DIR=... -DOUT=... -P GitCommit.cmake
#
# Runs in every build, not at configure time, because a commit does not reconfigure the build. The
# file is rewritten only when its text changes, so a build with nothing new compiles nothing.
# "unknown" outside a git checkout of this project; "-dirty" when tracked files differ from HEAD.
set(commit unknown)
find_program(git git)
if(git)
  # safe.directory: a checkout that belongs to another user is read, never written.
  set(command ${git} -c safe.directory=* --no-optional-locks -C ${SOURCE_DIR})
  execute_process(
    COMMAND ${command} rev-parse --show-toplevel
    OUTPUT_VARIABLE top
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE_DIR}" source)
  # An unpacked archive inside some other repository must not report that repository's commit.
  if(top STREQUAL source)
    execute_process(
      COMMAND ${command} rev-parse --verify HEAD
      OUTPUT_VARIABLE head
      RESULT_VARIABLE failed
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT failed)
      execute_process(
        COMMAND ${command} status --porcelain --untracked-files=no
        OUTPUT_VARIABLE changes
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      set(commit ${head})
      if(changes)
        string(APPEND commit -dirty)
      endif()
    endif()
  endif()
endif()

set(text
    "namespace batchless {\nextern const char* const kGitCommit;\nconst char* const kGitCommit = \"${commit}\";\n}  // namespace batchless\n"
)
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT "${old}" STREQUAL "${text}")
  file(WRITE ${OUT} "${text}")
endif()
