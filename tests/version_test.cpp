#include "version.h"

#include <algorithm>
#include <string>

#include "catch.h"

namespace {

bool IsLowerHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

TEST_CASE("the commit is a full hash, dirty or not, or unknown") {
  std::string_view commit = batchless::GetBuildInfo().commit;
  if (commit != "unknown") {
    const std::string_view suffix = "-dirty";
    if (commit.ends_with(suffix)) commit.remove_suffix(suffix.size());
    CHECK(commit.size() == 40);
    CHECK(IsLowerHex(commit));
  }
  CHECK_FALSE(commit.empty());
}

TEST_CASE("the flags report that contraction is off") {
  CHECK(batchless::GetBuildInfo().flags.find("-ffp-contract=off") != std::string_view::npos);
}

TEST_CASE("the version text holds every member") {
  const batchless::BuildInfo build = batchless::GetBuildInfo();
  const std::string text = batchless::VersionText();
  for (const std::string_view part : {build.version, build.commit, build.compiler, build.flags}) {
    CHECK_FALSE(part.empty());
    CHECK(text.find(part) != std::string::npos);
  }
}
