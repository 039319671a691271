// The memory that is left for a run, from what the system says of its control groups.
#include "memory.h"

#include <filesystem>

#include "catch.h"
#include "run_program.h"

namespace batchless {
namespace {

using test::TemporaryFolder;
using test::WriteFile;

TEST_CASE("every control group around a process bounds its memory, in both versions") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& content) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    WriteFile(folder / name, content);
  };
  const auto available = [&] {
    return ControlGroupAvailableBytes(folder / "groups", folder / "mount");
  };
  CHECK(!available());
  write("groups", "7:cpu,cpuacct:/job/step\n4:memory:/job/step\n0::/user/run\n");
  CHECK(!available());
  // Cached files are given up: 1000 - 700 + 200.
  write("mount/memory/job/step/memory.limit_in_bytes", "1000\n");
  write("mount/memory/job/step/memory.usage_in_bytes", "700\n");
  write("mount/memory/job/step/memory.stat",
        "cache 300\ninactive_file 1\ntotal_inactive_file 200\n");
  CHECK(available() == 500);
  write("mount/memory/job/memory.limit_in_bytes", "400\n");
  write("mount/memory/job/memory.usage_in_bytes", "100\n");
  CHECK(available() == 300);
  // The second version: the group itself has no limit, the one around it has.
  write("mount/user/run/memory.max", "max\n");
  write("mount/user/run/memory.current", "10\n");
  CHECK(available() == 300);
  write("mount/user/memory.max", "5000\n");
  write("mount/user/memory.current", "4800\n");
  write("mount/user/memory.stat", "anon 4000\ninactive_file 50\n");
  CHECK(available() == 250);
  write("mount/user/memory.current", "6000\n");
  CHECK(available() == 0);
  // In a container the path is the host's, and the limit at the mount point.
  write("groups", "0::/host/path\n");
  CHECK(!available());
  write("mount/memory.max", "80\n");
  write("mount/memory.current", "30\n");
  CHECK(available() == 50);
}

}  // namespace
}  // namespace batchless
