#include "version.h"

#include <fmt/format.h>

namespace batchless {

// Defined in the source that every build regenerates when the commit changes.
extern const char* const kGitCommit;

BuildInfo GetBuildInfo() {
  return {BATCHLESS_VERSION, kGitCommit, BATCHLESS_COMPILER, BATCHLESS_FLAGS};
}

std::string VersionText() {
  const BuildInfo build = GetBuildInfo();
  return fmt::format("batchless {}\ncommit {}\ncompiler {}\nflags {}", build.version, build.commit,
                     build.compiler, build.flags);
}

}  // namespace batchless
