// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "support/temporary_folder.h"
#include "train/run/run_start.h"
#include "util/file.h"

using namespace gantrain;

namespace {

std::string row(const std::string& kimg) {
  return R"({"Progress/kimg":{"num":1,"mean":)" + kimg + R"(,"std":0.0},"timestamp":1.5})" + "\n";
}

}  // namespace

TEST_CASE("TemporaryFilesOfKilledWritersAreRemovedAndNothingElse") {
  const TemporaryFolder run;
  for (const char* folder : {"samples", "errors"})
    std::filesystem::create_directories(run / folder);
  for (const char* name :
       {"state-000001.pt.tmp4711", "samples/fakes000001.png.tmp1", "errors/pids-rank2.json.tmp7"})
    write_file(run / name, "x");
  for (const char* name :
       {"state-000001.pt", "notes.tmp", "a.tmp12b", ".tmp5", "samples/fakes000001.png"})
    write_file(run / name, "x");
  CHECK(remove_temporary_files(run.path()) == 3);
  for (const char* name :
       {"state-000001.pt", "notes.tmp", "a.tmp12b", ".tmp5", "samples/fakes000001.png"})
    CHECK(std::filesystem::exists(run / name));
  CHECK(remove_temporary_files(run.path()) == 0);
  CHECK(remove_temporary_files(run / "absent") == 0);
}

TEST_CASE("RowsBehindTheStateThatIsResumedAreSetAside") {
  const TemporaryFolder run;
  const std::string metric =
      R"({"metric":"swd","results":{"swd":3.0},"snapshot":"model-000000.208.safetensors"})";
  write_file(run / "stats.jsonl", row("0.112") + row("0.208") + row("0.304") + "{\"Progress/ki");
  write_file(run / "metric-swd.jsonl", metric + "\n");
  write_file(run / "data-manifest.jsonl", row("9"));
  CHECK(set_rows_aside(run.path(), 112) == 4);
  CHECK(read_file(run / "stats.jsonl") == row("0.112"));
  CHECK(read_file(run / "superseded-stats.jsonl") ==
        row("0.208") + row("0.304") + "{\"Progress/ki\n");
  CHECK(read_file(run / "metric-swd.jsonl").empty());
  CHECK(read_file(run / "superseded-metric-swd.jsonl") == metric + "\n");
  CHECK(read_file(run / "data-manifest.jsonl") == row("9"));
  CHECK(set_rows_aside(run.path(), 112) == 0);
}

TEST_CASE("ARunThatBeginsAnewSetsAllRowsAside") {
  const TemporaryFolder run;
  write_file(run / "stats.jsonl", row("0.112"));
  CHECK(set_rows_aside(run.path(), 0) == 1);
  CHECK(read_file(run / "stats.jsonl").empty());
}
