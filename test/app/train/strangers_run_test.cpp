// SPDX-License-Identifier: Apache-2.0
// Runs that are resumed in a folder that somebody else has prepared, and files named on the command
// line that are devices.
#include <sys/stat.h>

#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

TEST_CASE("AResumedRunWritesNowhereALinkLeadsAndReadsNoEndlessJson") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0.032");
  const fs::path victim = folder / "victim";
  fs::create_directory(victim);
  for (const char* name : {"latest.png", "rank0.json", "pids.json", "a.tmp4711"})
    write_file(victim / name, "theirs");
  for (const char* name : {"samples", "errors"}) {
    fs::remove_all(run / name);
    fs::create_directory_symlink(victim, run / name);
  }
  const std::string deep(300'000, '[');
  append_line(run / "stats.jsonl", "{\"x\":" + deep + std::string(300'000, ']') + "}");
  const Outcome resumed = gantrain(tiny("--run-dir run --kimg 0.064"), {.folder = folder.path()});
  INFO(resumed.err);
  CHECK(resumed.code == 0);
  for (const char* name : {"samples", "errors"}) {
    CHECK_FALSE(fs::is_symlink(run / name));
    CHECK(holds(resumed.err, std::string(name) + ": was a link, which is not followed"));
  }
  CHECK(fs::exists(run / "samples/latest.png"));
  size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(victim)) {
    ++files;
    CHECK(read_file(entry.path()) == "theirs");
  }
  CHECK(files == 4);
}

TEST_CASE("AResumeIsRefusedWhereAFileOfTheRunIsALinkOrAPipe") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0.032");
  write_file(folder / "victim", "theirs");
  for (const char* name : {"stats.jsonl", "log.txt"}) {
    CAPTURE(name);
    fs::rename(run / name, run / "kept");
    fs::create_symlink(folder / "victim", run / name);
    const Outcome resumed = gantrain(tiny("--run-dir run --kimg 0.064"), {.folder = folder.path()});
    INFO(resumed.err);
    CHECK(resumed.code != 0);
    CHECK(holds(resumed.err, std::string(name) + ": is a link, which is not followed"));
    CHECK(text_in(folder / "victim") == "theirs");
    fs::rename(run / "kept", run / name);
  }
}

TEST_CASE("AConfigurationThatIsAPipeIsNotWaitedFor") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0.032");
  fs::remove(run / "config.json");
  REQUIRE(::mkfifo((run / "config.json").c_str(), 0600) == 0);
  for (const char* words :
       {"metrics run --metrics swd --data synth:shapes", "inspect run", "report run"}) {
    CAPTURE(words);
    const Outcome outcome = gantrain(words_of(words), {.folder = folder.path(), .seconds = 60});
    INFO(outcome.err);
    CHECK(outcome.code == (holds(words, "metrics") ? 3 : 0));
  }
}

TEST_CASE("ABatchScriptGoesToStandardOutput") {
  const TemporaryFolder folder;
  const Outcome outcome =
      gantrain(words_of("slurm -o /dev/stdout --preset dcgan-tiny --data synth:shapes --run-dir r"),
               {.folder = folder.path()});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(holds(outcome.out, "#SBATCH"));
  CHECK(fs::is_symlink("/dev/stdout"));
}

}  // namespace
}  // namespace gantrain
