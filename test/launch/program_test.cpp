// SPDX-License-Identifier: Apache-2.0
// Programs of the user's as ranks: `gantrain launch` without its command line.
#include "launch/local/program.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "launch_helper.h"
#include "support/catch.h"
#include "support/reserved_port.h"
#include "support/temporary_folder.h"
#include "util/file.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// A shell script as every rank, with a folder of its own, which is its variable D.
struct Script {
  TemporaryFolder folder;
  Program program;

  explicit Script(const std::string& text) {
    program.words = {"sh", "-c", "D=" + folder.path().string() + "\n" + text};
    program.run_id = "run";
    program.scratch = folder / "scratch";
  }
  Launcher::Result run(int64_t ranks, const LaunchOptions& options = {}) const {
    return Launcher(program, local_world(ranks), options).wait();
  }
  // Until the rank has written a line to that file, which is all that it holds.
  std::string line(const std::string& name) const {
    eventually([&] { return ends_with(read_if_there(name), "\n"); }, 60);
    return trim(read_if_there(name));
  }
  std::string read_if_there(const std::string& name) const {
    return content_of(folder / name, 1 << 20).value_or("");
  }
};

pid_t pid_in(const std::string& text) { return static_cast<pid_t>(parse_int(text).value_or(-1)); }

}  // namespace

TEST_CASE("AProgramHasTorchrunsEnvironment") {
  const Script script(
      "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE "
      "$ROLE_RANK $ROLE_WORLD_SIZE $ROLE_NAME $TORCHELASTIC_RESTART_COUNT "
      "$TORCHELASTIC_MAX_RESTARTS $TORCHELASTIC_RUN_ID $TORCHELASTIC_USE_AGENT_STORE "
      "$MASTER_ADDR $(basename $TORCHELASTIC_ERROR_FILE)");
  const auto result = script.run(2);
  CHECK(result.code == 0);
  for (const std::string rank : {"0", "1"}) {
    CHECK_THAT(result.out,
               Catch::Contains("[rank " + rank + "] " + rank + " " + rank + " 2 2 0 1 " + rank +
                               " 2 default 0 0 run False 127.0.0.1 rank" + rank + ".json\n"));
  }
}

TEST_CASE("ALoneProgramWritesAndReadsAsIfNobodyStoodBetween") {
  const Script script("printf 'no newline'; printf 'an error' >&2; echo ${OMP_NUM_THREADS-unset}");
  const auto result = script.run(1);
  CHECK(result.out == "no newline" +
                          std::string(environment_variable("OMP_NUM_THREADS").empty()
                                          ? "unset"
                                          : environment_variable("OMP_NUM_THREADS")) +
                          "\n");
  CHECK(result.err == "an error");
}

TEST_CASE("TheFirstFailureGivesTheExitCodeAndItsCause") {
  struct Case {
    const char* text;
    int code;
    const char* cause;
  };
  const auto [text, code, cause] = GENERATE(
      Case{"echo nonsense >&2; echo 'no such layer' >&2; exit 41", 41, "exit code 41: nonsense"},
      Case{"kill -9 $$", 137, "died of signal 9 (SIGKILL)"},
      Case{"kill -SEGV $$", 139, "died of signal 11 (SIGSEGV)"},
      Case{"printf '{\"message\": {\"message\": \"ValueError: odd\"}}' >$TORCHELASTIC_ERROR_FILE; "
           "echo noise >&2; exit 1",
           1,
           "exit code 1: ValueError: odd"},
      Case{"exec $D/missing", 127, "exit code 127"});
  const Script script(std::string("[ $RANK = 1 ] || exec sleep 600\n") + text);
  const auto result = script.run(3);
  CHECK(result.code == code);
  CHECK_THAT(result.err, Catch::Contains("error   rank 1 (") && Catch::Contains(cause));
  CHECK_THAT(result.err, !Catch::Contains("error   rank 0") && !Catch::Contains("phase"));
}

TEST_CASE("WhoLostAPeerIsNotTheCause") {
  const Script script(
      "if [ $RANK = 0 ]; then\n"
      "  echo $$ >$D/first; echo 'RuntimeError: Connection closed by peer' >&2; exit 1\n"
      "fi\n"
      "while [ ! -s $D/first ]; do :; done; while kill -0 $(cat $D/first); do :; done 2>/dev/null\n"
      "echo 'KeyError: 7' >&2; exit 5");
  const auto result = script.run(2);
  CHECK(result.code == 5);
  CHECK_THAT(result.err, Catch::Contains("error   rank 1 (") && Catch::Contains("KeyError: 7"));
}

TEST_CASE("AProgramThatIsNotThereIsNamed") {
  Script script("");
  script.program.words = {(script.folder / "missing").string()};
  const auto result = script.run(2);
  CHECK(result.code == 3);
  CHECK_THAT(result.err, Catch::Contains("missing cannot be started: No such file or directory"));
}

TEST_CASE("AProgramThatHandlesAStopGetsItAlone") {
  // Its child would write down that it was told to end. It ends with what it waits for, else that
  // would have the grace time.
  const Script script(
      "trap 'echo saved >$D/saved; kill -9 $child; exit 0' TERM\n"
      "(trap 'echo told >$D/told' TERM; : >$D/trapped; while :; do sleep 0.05; done) & child=$!\n"
      "while [ ! -e $D/trapped ]; do sleep 0.01; done\n"
      "echo x >$D/ready; while :; do wait; done");
  Launcher launcher(script.program, local_world(1));
  REQUIRE(!script.line("ready").empty());
  launcher.signal(SIGTERM);
  const auto result = launcher.wait();
  CHECK(result.code == 0);
  CHECK(script.read_if_there("saved") == "saved\n");
  CHECK(script.read_if_there("told").empty());
}

TEST_CASE("WhatAScriptWaitsForGetsTheStopAndTheGraceTime") {
  // The shell itself dies of the signal at once; what it waits for saves.
  const Script script(
      "sh -c \"trap 'sleep 0.3; echo saved >$D/saved; exit 0' TERM; echo x >$D/ready; "
      "while :; do sleep 0.05; done\"; echo never");
  Launcher launcher(script.program, local_world(1));
  REQUIRE(!script.line("ready").empty());
  launcher.signal(SIGTERM);
  const auto result = launcher.wait();
  CHECK(result.code == 143);
  CHECK(script.read_if_there("saved") == "saved\n");
  CHECK(result.err.find("error") == std::string::npos);
}

TEST_CASE("AProgramThatIgnoresAStopIsKilledAfterTheGraceTime") {
  const Script script("trap '' TERM; echo $$ >$D/ready; while :; do sleep 0.05; done");
  LaunchOptions options;
  options.grace.seconds = 0.3;
  Launcher launcher(script.program, local_world(1), options);
  REQUIRE(!script.line("ready").empty());
  launcher.signal(SIGTERM);
  CHECK(launcher.wait().code == 137);
}

TEST_CASE("ANoticeIsPassedOnAndEndsNothing") {
  const Script script(
      "trap 'echo noticed; exit 0' USR1; echo $$ >$D/ready; while :; do sleep 0.05; done");
  Launcher launcher(script.program, local_world(1));
  REQUIRE(!script.line("ready").empty());
  launcher.signal(SIGUSR1);
  const auto result = launcher.wait();
  CHECK(result.code == 0);
  CHECK(result.out == "noticed\n");
}

TEST_CASE("ANoticeEndsNobodyWhoDoesNotHandleIt") {
  // What the shell waits for handles the notice; the shell itself would die of it.
  const Script script(
      "sh -c \"trap 'echo noticed; : >$D/noticed' USR1; echo x >$D/ready; "
      "while [ ! -e $D/noticed ]; do sleep 0.05; done\"; echo after");
  Launcher launcher(script.program, local_world(1));
  REQUIRE(!script.line("ready").empty());
  launcher.signal(SIGUSR1);
  const auto result = launcher.wait();
  CHECK(result.code == 0);
  CHECK(result.out == "noticed\nafter\n");
}

TEST_CASE("InThePauseBeforeARestartANoticeEndsNothingAndAStopIsNoSave") {
  const Script script("exit 3");
  LaunchOptions options = restarting(1);
  options.patience.first_restart = 600;
  Launcher launcher(script.program, local_world(1), options);
  REQUIRE(launcher.wait_for("restart 1 of 1"));
  launcher.signal(SIGUSR1);
  launcher.signal(SIGTERM);
  const auto result = launcher.wait();
  CHECK(result.code == 143);
  CHECK_THAT(result.err, Catch::Contains("signal 15 (SIGTERM): stopped before the ranks"));
}

TEST_CASE("ANoticeThatComesBeforeTheLauncherKnowsItsRanksIsKeptForThem") {
  // The launcher, its parent, stands still from its first moment on, often before it has read who
  // its ranks are.
  const Script script(
      "kill -STOP $PPID 2>/dev/null; trap 'echo noticed; exit 0' USR1; echo $$ >$D/ready\n"
      "while [ ! -e $D/sent ]; do sleep 0.01; done; kill -CONT $PPID 2>/dev/null\n"
      "while :; do sleep 0.05; done");
  for (int attempt = 0; attempt < 5; ++attempt) {
    Launcher launcher(script.program, local_world(1));
    REQUIRE(!script.line("ready").empty());
    ::kill(launcher.pid(), SIGUSR1);
    write_file(script.folder / "sent", "");
    const auto result = launcher.wait();
    CHECK(result.code == 0);
    CHECK(result.out == "noticed\n");
    for (const char* name : {"ready", "sent"}) std::filesystem::remove(script.folder / name);
  }
}

TEST_CASE("NothingThatAProgramStartedOutlivesTheLauncher") {
  // A daemon in a session of its own; the program goes on, or has ended.
  const std::string ends = GENERATE("sleep 600", "exit 0");
  const bool killed = ends != "exit 0";
  const Script script(
      "setsid sh -c 'echo $$ >$0/daemon; exec sleep 600' $D &\n"
      "while [ ! -s $D/daemon ]; do sleep 0.02; done\n" +
      ends);
  Launcher launcher(script.program, local_world(1));
  const pid_t daemon = pid_in(script.line("daemon"));
  REQUIRE(daemon > 0);
  if (killed) launcher.signal(SIGKILL);
  CHECK(launcher.wait().code == (killed ? 137 : 0));
  CHECK(eventually([&] { return !is_alive(daemon); }, 60));
}

TEST_CASE("RestartsHaveAnotherPortAndCount") {
  const Script script(
      "echo $TORCHELASTIC_RESTART_COUNT $MASTER_PORT >>$D/attempts$RANK\n"
      "[ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 7");
  const auto result = script.run(2, restarting(2));
  CHECK(result.code == 0);
  const std::vector<std::string> attempts = split(script.read_if_there("attempts0"), '\n');
  CHECK(starts_with(attempts.at(attempts.size() - 2), "2 "));
  CHECK_THAT(result.err, Catch::Contains("restart 2 of 2"));
  // An attempt more than there may be.
  const Script fails("exit 7");
  CHECK(fails.run(2, restarting(2)).code == 7);
}

TEST_CASE("TheMastersPortIsFreeForTheProgramAndForNobodyElse") {
  const Listener kept = listen_on(0, kAllAddresses, /*listens=*/false);
  std::string problem;
  CHECK(!connect_to({"127.0.0.1", kept.port}, 1, problem));
  const Listener theirs = listen_on(kept.port, kAllAddresses);  // as c10d does
  CHECK(connect_to({"127.0.0.1", kept.port}, 1, problem));
  CHECK_THROWS(listen_on(kept.port, kAllAddresses, /*listens=*/false));
}

TEST_CASE("OutputGoesToFilesAndWithTeeToTheScreenToo") {
  const bool tee = GENERATE(false, true);
  Script script("echo out; echo err >&2");
  script.program.log_dir = script.folder / "logs";
  script.program.tee = tee;
  const auto result = script.run(2);
  for (const std::string rank : {"0", "1"}) {
    CHECK(script.read_if_there("logs/run/0/rank" + rank + ".out") == "out\n");
    CHECK(script.read_if_there("logs/run/0/rank" + rank + ".err") == "err\n");
    CHECK((result.out.find("[rank " + rank + "] out\n") != std::string::npos) == tee);
    CHECK((result.err.find("[rank " + rank + "] err\n") != std::string::npos) == tee);
  }
}

TEST_CASE("ASlowReaderGetsEveryLineWhole") {
  // More than pipes and the launcher hold; nobody reads until the ranks wait for it.
  const Script script(
      "i=0; while [ $i -lt 20000 ]; do echo line $i of rank $RANK, which is quite long; "
      "i=$((i + 1)); done; echo >$D/done$RANK");
  Launcher launcher(script.program, local_world(2));
  usleep(100'000);
  CHECK(script.read_if_there("done0").empty());
  const auto result = launcher.wait();
  CHECK(result.code == 0);
  CHECK(result.out.size() > 2 * 20000 * 40);
  std::array<int64_t, 2> next{};
  bool whole = true;
  for (const std::string& line : split(result.out, '\n')) {
    if (line.empty()) continue;
    const size_t rank = line.size() > 6 && line[6] == '1' ? 1 : 0;
    whole = whole && line == fmt::format("[rank {}] line {} of rank {}, which is quite long",
                                         rank,
                                         next.at(rank)++,
                                         rank);
  }
  CHECK(whole);
  CHECK(next[0] + next[1] == 40000);
}

TEST_CASE("ProgramsOfTwoNodesMeetFailAndRestartTogether") {
  const ReservedPort port;
  const Script script(
      "echo $RANK $LOCAL_RANK $WORLD_SIZE $GROUP_RANK $TORCHELASTIC_RUN_ID $MASTER_PORT\n"
      ": >$D/$TORCHELASTIC_RESTART_COUNT.$RANK\n"
      "[ $RANK = 3 ] || exec sleep 600\n"
      "for k in 0 1 2; do\n"
      "  while [ ! -e $D/$TORCHELASTIC_RESTART_COUNT.$k ]; do sleep 0.01; done\n"
      "done\n"
      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || { echo first >&2; exit 9; }\n"
      "echo second >&2; exit 9");
  Program other = script.program;
  other.run_id = "another";
  other.scratch = script.folder / "other";
  Launcher first(script.program, node(0, port, {2, 2}), restarting(1));
  Launcher second(other, node(1, port, {2, 2}), restarting(1));
  const auto here = first.wait(), there = second.wait();
  for (const auto& result : {here, there}) {
    CHECK(result.code == 9);
    CHECK_THAT(result.err, Catch::Contains("node 1: rank 3 (") && Catch::Contains(": second"));
  }
  CHECK_THAT(here.out, Catch::Contains("[rank 1] 1 1 4 0 run "));
  CHECK_THAT(there.out, Catch::Contains("[rank 3] 3 1 4 1 run "));
}

TEST_CASE("ANodeWhoseRanksHaveEndedTakesPartInWhatBecomesOfTheOthers") {
  const int64_t early = GENERATE(0, 1);
  const bool succeeds = GENERATE(true, false);
  const ReservedPort port;
  const Script script(
      fmt::format(": >$D/$TORCHELASTIC_RESTART_COUNT.$RANK\n"
                  "[ $RANK = {} ] && exit 0\n"
                  "while [ ! -e $D/$TORCHELASTIC_RESTART_COUNT.{} ]; do sleep 0.01; done\n"
                  "sleep 0.5\n"
                  "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && {} || {{ echo late >&2; exit 9; }}",
                  early,
                  early,
                  succeeds ? "exit 0" : "false"));
  Launcher first(script.program, node(0, port), restarting(1));
  Launcher second(script.program, node(1, port), restarting(1));
  for (Launcher* launcher : {&first, &second}) {
    const auto result = launcher->wait();
    INFO(result.err);
    CHECK(result.code == (succeeds ? 0 : 9));
    CHECK_THAT(result.err, Catch::Contains("starting the ranks again (restart 1 of 1)"));
  }
  CHECK(script.read_if_there("1.0") == script.read_if_there("1.1"));
  CHECK(std::filesystem::exists(script.folder / "1.0"));
}

TEST_CASE("TheCauseIsFoundInWhatPythonPrints") {
  CHECK(cause_in("", "") == "");
  CHECK(cause_in("", "a\nb\nc\nd\n") == "b\nc\nd");
  CHECK(cause_in("",
                 "noise\nTraceback (most recent call last):\n  File \"a.py\", line 1\n    x\n"
                 "ValueError: no\n\nDuring handling of the above exception, another exception "
                 "occurred:\n\nTraceback (most recent call last):\n  File \"b.py\"\n"
                 "KeyError: 'G'\nsome warning\n") == "KeyError: 'G'\nsome warning");
  CHECK(cause_in("",
                 "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a.py\"\n"
                 "[rank1]: RuntimeError: gone\n") == "RuntimeError: gone");
  CHECK(cause_in("",
                 "terminate called after throwing an instance of 'c10::Error'\n  what():  bad\n") ==
        "  what():  bad");
  CHECK(cause_in("", "10%\r20%\rkilled\n") == "killed");
}

}  // namespace gantrain
