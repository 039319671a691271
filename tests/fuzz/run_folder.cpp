// The files of a run that `compare` and `report` read, with a line "----" between each two of them:
// config.toml, metrics.csv, manifest.json and summary.json.
#include "fuzz.h"
#include "program.h"
#include "usage_error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless;
  constexpr std::string_view kBetween = "\n----\n";
  std::string_view rest = fuzz::Text(data, size);
  for (const char* name : {"config.toml", "metrics.csv", "manifest.json", "summary.json"}) {
    const std::size_t end = rest.find(kBetween);
    fuzz::FileOf(std::string("run/") + name, rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + kBetween.size());
  }
  const std::string run = (fuzz::Folder() / "run").string();
  CommandHost host;
  host.take_result = [](const Json&) {};
  for (const std::string command : {"report", "compare"}) {
    std::vector<std::string> words = {command, run};
    if (command == "compare") words.push_back(run);
    const std::string page = (fuzz::Folder() / "page.html").string();
    words.insert(words.end(), {"--out", page});
    fuzz::Accepts([&] { RunCommand(words, host); });
  }
  return 0;
}
