#include <CLI/CLI.hpp>

#include "version.h"

int main(int argc, char** argv) {
  CLI::App app{"Staleness analysis for pipelined backpropagation"};
  app.name("batchless");
  app.set_version_flag("--version", batchless::VersionText(),
                       "Print version, git commit, compiler and flags");
  CLI11_PARSE(app, argc, argv);
  return 0;
}
