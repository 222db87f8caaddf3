// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "serve/server.h"
#include "support/catch.h"
#include "support/made_run.h"
#include "support/temporary_folder.h"
#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

TEST_CASE("RunsAreFoundInSubFoldersAndNotThroughLinks") {
  const TemporaryFolder folder;
  CHECK(find_runs(folder.path()).empty());
  make_run(folder / "b");
  make_run(folder / "group/a");
  make_run(folder / ".hidden/a");
  make_run(folder / "1/2/3/4/deep");
  const TemporaryFolder outside;
  make_run(outside / "x");
  fs::create_directory_symlink(outside.path(), folder / "out");
  fs::create_directory_symlink(folder / "b", folder / "latest");
  const std::vector<FoundRun> runs = find_runs(folder.path());
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].name == "b");
  CHECK(runs[1].name == "group/a");
  // A run itself, also by a link to it, is one of its own name.
  REQUIRE(find_runs(folder / "latest").size() == 1);
  CHECK(find_runs(folder / "latest")[0].name == "b");
}

TEST_CASE("RunsBesideADataSetOfManyFilesAreFound") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "data");
  for (int i = 0; i < 6000; ++i) {
    for (const char* place : {"", "data/"})
      write_file(folder / fmt::format("{}{}.png", place, i), "");
  }
  for (const char* name : {"a", "z", "group/b"}) make_run(folder / name);
  CHECK(find_runs(folder.path()).size() == 3);
}

TEST_CASE("AViewTellsWhatTheListShows") {
  const TemporaryFolder folder;
  make_run(folder / "run", {.status = "running", .ticks = 25});
  const RunView view = view_of({"run", folder / "run"});
  CHECK(view.state == "running");
  CHECK(view.kimg == 100.0);
  CHECK(view.target_kimg == 200.0);
  CHECK(view.images_per_second == 500.0);
  CHECK(view.seconds_to_go == 200.0);
  CHECK(view.losses.at("G/loss") == 1.5);
  CHECK(view.metrics.at("swd") == std::pair(0.0, 50.0));
  CHECK(view.last_tick > 1.7e9);
  const std::string before = stamp_of(folder / "run");
  CHECK(stamp_of(folder / "run") == before);
  write_file(folder / "run/STATUS", "done 200 kimg\n");
  CHECK(stamp_of(folder / "run") != before);
  CHECK(view_of({"run", folder / "run"}).state == "done");
  write_file(folder / "run/STATUS", "running\n");
  write_file(folder / "run/.lock", "");  // which nobody holds
  CHECK(view_of({"run", folder / "run"}).state == "dead");
}

TEST_CASE("AStrangersFolderNeitherStopsTheListNorShowsOtherFiles") {
  const TemporaryFolder folder, others;
  write_file(others / "secret", "a secret\n");
  make_run(folder / "pipe", {.status = "running"});
  fs::remove(folder / "pipe/STATUS");
  REQUIRE(::mkfifo((folder / "pipe/STATUS").c_str(), 0600) == 0);
  make_run(folder / "link");
  for (const char* name : {"STATUS", "command.txt"}) {
    fs::remove(folder / "link" / name);
    fs::create_symlink(others / "secret", folder / "link" / name);
  }
  fs::create_directories(folder / "nothing else");
  fs::create_symlink(others / "secret", folder / "nothing else/STATUS");
  make_run(others / "run");
  fs::create_directory_symlink(others / "run", folder / "run of somebody else");
  fs::create_directory_symlink(others.path(), folder / "runs of somebody else");
  const std::vector<FoundRun> runs = find_runs(folder.path());
  REQUIRE(runs.size() == 2);
  for (const FoundRun& run : runs) {
    const RunView view = view_of(run);
    CHECK(view.status.empty());
    CHECK(view.state == "unknown");
    CHECK(view.kimg == 200.0);
    CHECK_FALSE(stamp_of(run.folder).empty());
    CHECK_FALSE(contains(list_html({view}, folder.path()), "a secret"));
  }
}

TEST_CASE("LongTextsOfTheListAreFolded") {
  RunView view;
  view.name = "a";
  view.status = "running";
  view.state = "running";
  view.verdict = {Judgement::kLearning, "learning", "SWD fell by 60 %", "x"};
  std::string html = list_html({view}, "runs");
  CHECK(contains(html, "<td data-head=\"Status\">running</td>"));
  CHECK(contains(html, "<summary>learning</summary>SWD fell by 60 %</details>"));
  view.state = "dead";
  html = list_html({view}, "runs");
  CHECK(contains(html, "<summary>dead</summary>STATUS says &quot;running&quot;; nobody"));
}

TEST_CASE("NamesOfRunsAreEscapedInUrlsAndText") {
  RunView view;
  view.name = "<b>";
  view.status = "failed with <i>";
  const std::string html = list_html({view}, "runs");
  CHECK(contains(html, "<a href=\"/run/%3Cb%3E\">&lt;b&gt;</a>"));
  CHECK(contains(html, "<summary>failed</summary>failed with &lt;i&gt;</details>"));
  CHECK(contains(list_html({}, "my <runs>"), "no runs in <code>my &lt;runs&gt;</code>"));
}

}  // namespace gantrain
