#pragma once

#include <string>
#include <string_view>

namespace batchless {

// What this program was built from. `batchless --version` prints it and every manifest holds it,
// so that a result can be traced to the code and to the flags that decide its bits.
struct BuildInfo {
  std::string_view version;   // of the project, "major.minor.patch"
  std::string_view commit;    // 40 hex digits, "-dirty" appended when tracked files had changes;
                              // "unknown" when built outside a git checkout
  std::string_view compiler;  // name and version, for instance "GNU 12.2.0"
  std::string_view flags;     // that affect code generation; warnings are left out
};

// The build of the running program. The views stay valid for the program's lifetime.
BuildInfo GetBuildInfo();

// The text of `batchless --version`: one line for each member, no newline at the end.
std::string VersionText();

}  // namespace batchless
