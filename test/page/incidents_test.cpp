// SPDX-License-Identifier: Apache-2.0
#include "page/run_record.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

TEST_CASE("IncidentsAreResumesRestartsWarningsAndErrors") {
  const TemporaryFolder folder;
  write_file(folder / "log.txt",
             "2026-01-12 09:00:00 data    synth:shapes\n"
             "2026-01-12 09:00:01 resume  at 12.5 kimg (state-000012.500.pt)\n"
             "2026-01-12 09:00:02 warning 3 pictures left out (data.on_bad=skip):\n"
             "2026-01-12 09:00:02 warning   a.png: broken PNG\n"
             "2026-01-12 09:00:09 error   rank 1 (vm, pid 7) died of signal 9 (SIGKILL)\n"
             "2026-01-12 09:00:10 starting the ranks again (restart 1 of 2)\n"
             "no time at all\n"
             "2026-01-12 09:00:11 next    gantrain --resume auto\n");
  write_file(folder / "log-rank1.txt", "2026-01-12 09:00:05 warning disk is slow\n");
  write_file(folder / "superseded-state-000020.pt", "");
  fs::create_directories(folder.path() / "errors" / "earlier-1");
  write_file(folder.path() / "errors" / "earlier-1" / "rank0.json", "{}");
  RunRecord run;
  read_incidents(folder.path(), run);
  std::vector<std::string> texts;
  for (const Incident& incident : run.incidents) texts.push_back(incident.text);
  CHECK(texts ==
        std::vector<std::string>{
            "resume  at 12.5 kimg (state-000012.500.pt)",
            "warning 3 pictures left out (data.on_bad=skip):",
            "warning   a.png: broken PNG",
            "[rank 1] warning disk is slow",
            "error   rank 1 (vm, pid 7) died of signal 9 (SIGKILL)",
            "starting the ranks again (restart 1 of 2)",
            "1 files of a history that the run has left behind: superseded-state-000020.pt",
            "failures of earlier sessions: errors/earlier-1/rank0.json"});
  CHECK(run.resumes == std::vector<double>{12.5});
  CHECK(run.next == "gantrain --resume auto");
  CHECK(run.incidents[4].is_error);
}

TEST_CASE("OfVeryManyIncidentsTheEndsAreKept") {
  const TemporaryFolder folder;
  std::string log;
  for (int i = 0; i < 1000; ++i)
    log += "2026-01-12 09:00:00 warning number " + std::to_string(i) + "\n";
  write_file(folder / "log.txt", log);
  RunRecord run;
  read_incidents(folder.path(), run);
  CHECK(run.incidents.size() == 200);
  CHECK(run.incidents.front().text == "warning number 0");
  CHECK(run.incidents.back().text == "warning number 999");
  CHECK(run.incidents[100].text == "... 801 more, which the logs have ...");
}

TEST_CASE("AFolderWithoutLogsHasNoIncidents") {
  RunRecord run;
  read_incidents("/nowhere", run);
  CHECK(run.incidents.empty());
}

}  // namespace gantrain
