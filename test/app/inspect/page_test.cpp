// SPDX-License-Identifier: Apache-2.0
// The run's page from outside: while it trains, after it was killed, and gantrain report.
#include <signal.h>

#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

TEST_CASE("ThePageOfARunIsThereFromTheFirstTickAndSaysWhyTheRunWasKilled") {
  const TemporaryFolder folder;
  Command launcher(tiny("--run-dir run --kimg 500 --nproc 2 --set train.tick=0.1"),
                   {.folder = folder.path()});
  const fs::path page = folder / "run/report.html";
  const std::string first_tick = "<dt>To go</dt><dd>about ";
  REQUIRE(eventually([&] { return holds(text_in(page), first_tick); }, 100));
  const std::string at_work = read_file(page);
  CHECK(holds(at_work, "<dt>Status</dt><dd>running</dd>"));
  CHECK(holds(at_work, "<b>still young</b>"));
  const pid_t pid = launcher.pid();
  launcher.signal(SIGKILL);
  CHECK(launcher.wait().code == 128 + SIGKILL);
  const std::string verdict = "<b>killed</b>: the launcher (";
  CHECK(eventually([&] { return holds(text_in(page), verdict); }, 100));
  const std::string after = read_file(page);
  CHECK(holds(after, "pid " + std::to_string(pid) + ") died"));
  CHECK(holds(after, "<h2>Incidents</h2>"));
  CHECK(holds(after, "<p>What can be run next:</p>\n<pre>"));
  CHECK(!holds(after, "<dt>To go</dt>"));
}

TEST_CASE("ThePageOfAFailedRunNamesTheRankThatDied") {
  const TemporaryFolder folder;
  Command launcher(tiny("--run-dir run --kimg 500 --nproc 2 --set train.tick=0.1"),
                   {.folder = folder.path()});
  const fs::path page = folder / "run/report.html";
  REQUIRE(eventually([&] { return holds(text_in(page), "<h3>Losses</h3>"); }, 100));
  const pid_t pid = pids_of(folder / "run").at("1").get<pid_t>();
  ::kill(pid, SIGKILL);
  CHECK(launcher.wait().code == 6);
  const std::string after = read_file(page);
  CHECK(holds(after, "<b>killed</b>: rank 1 ("));
  CHECK(holds(after, "<h2>How it ended</h2>"));
  CHECK(holds(after, "<td>1 (first cause)</td>"));
  CHECK(holds(after, "<td>signal 9</td>"));
}

// What stood on the page of such runs was "good".
TEST_CASE("APlayerThatDoesNotMoveIsTheVerdict") {
  const TemporaryFolder folder;
  for (const std::string player : {"G", "D"}) {
    const Outcome outcome =
        gantrain(tiny("--run-dir " + player + " --kimg 0.096 --set " + player +
                      ".lr=0 --set train.tick=0.016 --metrics swd --set metrics.images=16 --set "
                      "metrics.at_end=off"),
                 {.folder = folder.path()});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    const std::string page = read_file(folder / player / "report.html");
    CHECK(holds(page, "<b>" + player + " does not move</b>: the weights of " + player + " have"));
    CHECK(holds(page, "Rule: weights that do not move: in each of the last 3 ticks"));
    // The SWD of a tick's line was measured before training.
    CHECK(holds(outcome.err, "(kimg 0)  mem"));
  }
}

TEST_CASE("ReportOfOneRunIsWrittenIntoItsFolder") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0.064");
  const std::string by_run = read_file(run / "report.html");
  CHECK(holds(by_run, "<dt>Status</dt><dd>done "));
  fs::remove(run / "report.html");
  const Outcome outcome = gantrain({"report", "run"}, {.folder = folder.path()});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "run/report.html\n");
  CHECK(holds(read_file(run / "report.html"), "<dt>Status</dt><dd>done "));
}

TEST_CASE("ReportOfSeveralRunsComparesThem") {
  const TemporaryFolder folder;
  trained(folder, "a", "--kimg 0.064");
  trained(folder, "b", "--kimg 0.064 --seed 7");
  const Outcome outcome = gantrain({"report", "a", "b"}, {.folder = folder.path()});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "compare.html\n");
  const std::string page = read_file(folder / "compare.html");
  CHECK(holds(page, "<tr><td>train.seed</td><td>0</td><td>7</td></tr>"));
  CHECK(!holds(page, "<tr><td>train.batch</td>"));
  CHECK(gantrain({"report", "a", "b", "-o", "x.html"}, {.folder = folder.path()}).code == 0);
  CHECK(read_file(folder / "x.html").size() > 1000);
}

TEST_CASE("ReportOfWhatIsNoRunIsRefused") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "empty");
  fs::create_directories(folder / "young");
  write_file(folder / "young/STATUS", "running\n");
  for (const std::string arguments :
       {"report missing", "report empty", "report young empty", "report young young"}) {
    CAPTURE(arguments);
    const Outcome outcome = gantrain(words_of(arguments), {.folder = folder.path()});
    CHECK(outcome.code == 3);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.out.empty());
  }
  CHECK(gantrain({"report"}, {.folder = folder.path()}).code == 2);
  // A run that has come to nothing yet has a page of its own.
  CHECK(gantrain({"report", "young"}, {.folder = folder.path()}).code == 0);
  CHECK(gantrain({"report", "young", "-o", "empty"}, {.folder = folder.path()}).code == 8);
}

}  // namespace gantrain
