#include "version.h"

#include "commands/commands.h"

namespace batchless {
namespace {

class VersionCommand final : public Command {
 public:
  explicit VersionCommand(CLI::App& root)
      : Command(root, "version", "Print version, git commit, compiler and flags",
                "The same as batchless --version.", {"version", "version --json"}) {}

  void Run() override {
    if (json()) {
      const BuildInfo build = GetBuildInfo();
      PrintJson({{"version", build.version},
                 {"commit", build.commit},
                 {"compiler", build.compiler},
                 {"flags", build.flags}});
      return;
    }
    TextOutput output;
    output.Print("{}\n", VersionText());
    output.Close();
  }
};

}  // namespace

std::unique_ptr<Command> MakeVersionCommand(CLI::App& root) {
  return std::make_unique<VersionCommand>(root);
}

}  // namespace batchless
