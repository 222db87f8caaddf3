// SPDX-License-Identifier: Apache-2.0
// A run folder as `report` and `serve` read it: record, verdict, page, list and metrics. An input
// is files one behind the other, each with a first byte that chooses its name and a last byte 0x1e.
#include <array>

#include "fuzz/fuzz_input.h"
#include "page/run_page.h"
#include "serve/server.h"

namespace {

constexpr std::array<const char*, 16> kNames = {"STATUS",
                                                "config.json",
                                                "stats.jsonl",
                                                "metric-fid.jsonl",
                                                "errors/rank0.json",
                                                "command.txt",
                                                "log.txt",
                                                "env.json",
                                                "model-000001.safetensors",
                                                "samples/latest.png",
                                                "samples/fakes000001.png",
                                                "samples/fakes000002.png",
                                                "log-rank1.txt",
                                                "errors/rank1.json",
                                                "errors/earlier-1/rank0.json",
                                                "superseded-stats.jsonl"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  const MemoryFolder folder;
  std::filesystem::create_directories(folder.path() + "/errors/earlier-1");
  std::filesystem::create_directories(folder.path() + "/samples");
  InputReader input(text_of_input(data, size));
  while (!input.empty()) {
    const char* name = kNames[input.byte() % kNames.size()];
    folder.write(name, input.until('\x1e'));
  }
  const RunRecord run = read_run_record(folder.path());
  require(!judge(run).empty(), "a run without a verdict");
  EmbeddedPictures pictures;
  const std::string page = run_page_body(run, pictures);
  require(page.find("<script") == std::string::npos, "a page with a script of the folder's");
  const std::vector<RunView> views = {view_of({"run", folder.path()})};
  require(!list_html(views, "runs").empty(), "an empty list");
  require(!prometheus_text(views, 0).empty(), "no metrics");
  stamp_of(folder.path());
  return 0;
}
