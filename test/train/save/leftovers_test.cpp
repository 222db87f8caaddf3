// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "support/catch.h"
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
  for (const char* name : {"state-000001.pt.tmp4711",
                           "samples/fakes000001.png.tmp1",
                           "errors/pids-rank2.json.tmp7",
                           "state-000002.pt.tmp1f0c9a7730be",
                           "errors/rank0.json.tmp00ffeeddccbb"})
    write_file(run / name, "x");
  for (const char* name :
       {"state-000001.pt", "notes.tmp", "a.tmp12b", ".tmp5", "samples/fakes000001.png"})
    write_file(run / name, "x");
  CHECK(remove_temporary_files(run.path()) == 5);
  for (const char* name :
       {"state-000001.pt", "notes.tmp", "a.tmp12b", ".tmp5", "samples/fakes000001.png"})
    CHECK(std::filesystem::exists(run / name));
  CHECK(remove_temporary_files(run.path()) == 0);
  CHECK(remove_temporary_files(run / "absent") == 0);
}

TEST_CASE("WhereOthersWriteOnlyWhatRank0WritesIsRemoved") {
  const TemporaryFolder run;
  for (const char* name : {"averages", "errors"}) std::filesystem::create_directory(run / name);
  const std::vector<std::string> of_rank_0 = {"state-000002.pt.tmp1f0c9a7730be",
                                              "model-000002.safetensors.tmp1f0c9a7730be",
                                              "averages/average-000002.safetensors.tmp1f0c9a7730be",
                                              "data-manifest.jsonl.tmp1f0c9a7730be"};
  const std::vector<std::string> of_others = {
      "errors/pids-rank2.json.tmp7", "STATUS.tmp1f0c9a7730be", ".job-secret.tmp1f0c9a7730be"};
  for (const std::string& name : of_rank_0) write_file(run / name, "x");
  for (const std::string& name : of_others) write_file(run / name, "x");
  CHECK(remove_temporary_files(run.path(), /*others_write=*/true) == 4);
  for (const std::string& name : of_others) CHECK(std::filesystem::exists(run / name));
  CHECK(remove_temporary_files(run.path()) == static_cast<int64_t>(of_others.size()));
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

TEST_CASE("RowsOfAFileToWhichALinkLeadsAreNotTakenOver") {
  const TemporaryFolder run, others;
  write_file(others / "secret", "a secret\n");
  std::filesystem::create_symlink(others / "secret", run / "stats.jsonl");
  REQUIRE(::mkfifo((run / "metric-swd.jsonl").c_str(), 0600) == 0);
  CHECK(set_rows_aside(run.path(), 112) == 0);
  CHECK_FALSE(std::filesystem::exists(run / "superseded-stats.jsonl"));
  write_file(others / "x.pt.tmp4711", "");
  std::filesystem::create_directory_symlink(others.path(), run / "samples");
  CHECK(remove_temporary_files(run.path()) == 0);
  CHECK(std::filesystem::exists(others / "x.pt.tmp4711"));
  CHECK_FALSE(std::filesystem::is_symlink(run / "samples"));  // nothing is written there
}

TEST_CASE("RowsNestedTooDeeplyAreSetAside") {
  const TemporaryFolder run;
  const std::string deep =
      "{\"x\":" + std::string(300'000, '[') + std::string(300'000, ']') + "}\n";
  write_file(run / "stats.jsonl", row("0.112") + deep);
  CHECK(set_rows_aside(run.path(), 112) == 1);
  CHECK(read_file(run / "stats.jsonl") == row("0.112"));
}
