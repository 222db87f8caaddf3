// SPDX-License-Identifier: Apache-2.0
// Why a run ended is on disk, also where nobody reads standard error.
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <thread>

#include "launch/where/network.h"
#include "support/catch.h"
#include "support/reserved_port.h"
#include "support/tiny.h"
#include "util/error.h"
#include "util/file.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// Whether a state is there whole, not one that is being written.
bool has_state(const fs::path& run) {
  for (const fs::path& file : files_like(run, "state-")) {
    if (file.extension() == ".pt") return true;
  }
  return false;
}

// Runs tiny(more) in the folder with a shell's redirections; returns the exit code.
int run_in_shell(const TemporaryFolder& folder,
                 const std::string& more,
                 const std::string& redirections) {
  std::string line = "cd " + shell_quote(folder.path().string()) + " && exec " +
                     shell_quote(gantrain_program().string());
  for (const std::string& word : tiny(more)) line += " " + shell_quote(word);
  const int status = std::system((line + " " + redirections).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

nlohmann::ordered_json json_of(const fs::path& path) {
  return nlohmann::ordered_json::parse(read_file(path));
}

// Another reference to a file that a process has open, with the locks on it; an empty one if there
// is none.
UniqueFd file_of(pid_t process, const fs::path& path) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", process))) {
    std::error_code error;
    if (fs::read_symlink(entry.path(), error) != path) continue;
    const int number = std::stoi(entry.path().filename());
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), number, 0)));
  }
  return UniqueFd();
}

void check_error_file(const fs::path& path, int64_t pid) {
  const nlohmann::ordered_json message = json_of(path).at("message");
  CHECK(holds(message.at("message"), "rank 1 "));
  CHECK(holds(message.at("message"), "died of signal 9 (SIGKILL)"));
  const nlohmann::ordered_json& extra = message.at("extraInfo");
  const auto seconds = parse_int(extra.at("timestamp").get<std::string>());
  REQUIRE(seconds);
  CHECK(*seconds > 1'700'000'000);
  CHECK(holds(extra.at("py_callstack"), "signal 9"));
  CHECK(extra.at("time").get<std::string>().size() == 20);
  CHECK(extra.at("rank") == 1);
  CHECK(extra.at("local_rank") == 1);
  CHECK(!extra.at("host").get<std::string>().empty());
  CHECK(extra.at("pid") == pid);
  CHECK(!extra.at("phase").is_null());
  CHECK(extra.at("iteration") > 0);
  CHECK(extra.at("kimg") > 0.0);
  CHECK(extra.at("exit_code").is_null());
  CHECK(extra.at("signal") == 9);
  CHECK(extra.at("signal_name") == "SIGKILL");
  CHECK(extra.at("first_cause") == true);
  CHECK(holds(extra.at("last_state"), "run/state-"));
  CHECK(holds(extra.at("resume"), "--run-dir run"));
}

}  // namespace

TEST_CASE("TheReasonIsOnDiskWhereStandardErrorIsGone") {
  for (const std::string redirections : {"2>/dev/full", ">&- 2>&-"}) {
    CAPTURE(redirections);
    const TemporaryFolder folder;
    int code = -1;
    const std::string more = "--nproc 2 --run-dir run --set save.every=0.1 --set train.tick=0.1";
    // It ends by itself, should the test find no rank to kill.
    const std::string endless = more + " --kimg 500 --stop-after 120s";
    std::thread run([&] { code = run_in_shell(folder, endless, redirections); });
    const bool saved = eventually(
        [&] {
          return holds(text_in(folder / "run/log.txt"), "speed  ") && has_state(folder / "run");
        },
        100);
    const nlohmann::ordered_json pids = saved ? pids_of(folder / "run") : nlohmann::ordered_json();
    if (saved) ::kill(pids.at("1").get<pid_t>(), SIGKILL);
    run.join();
    REQUIRE(saved);
    CHECK(code == 6);
    CHECK(!pids.at("host").get<std::string>().empty());
    CHECK(starts_with(read_file(folder / "run/STATUS"), "failed with exit code 6: rank 1 "));
    const std::string log = read_file(folder / "run/log.txt");
    CHECK(holds(log, "error   rank 1 "));
    CHECK(holds(log, "\nnext    "));
    check_error_file(folder / "run/errors/rank1.json", pids.at("1").get<int64_t>());
    CHECK(!fs::exists(folder / "run/errors/pids.json"));
    if (redirections != "2>/dev/full") continue;
    // The run that goes on keeps the earlier reason aside.
    REQUIRE(run_in_shell(folder, more + " --kimg 0.1 --resume auto", "2>/dev/null") == 0);
    CHECK(!fs::exists(folder / "run/errors/rank1.json"));
    CHECK(fs::exists(folder / "run/errors/earlier-1/rank1.json"));
    CHECK(starts_with(read_file(folder / "run/STATUS"), "done"));
  }
}

TEST_CASE("AStartThatIsRefusedLeavesNothingBehind") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "broken");
  write_file(folder / "broken/a.png", "no picture");
  for (const std::string refused : {"--run-dir deep/run --data missing.zip",
                                    "--out deep/runs --data broken",
                                    "--run-dir deep/run --resume nowhere",
                                    "--run-dir deep/run --init-from nowhere"}) {
    CAPTURE(refused);
    const Outcome outcome = gantrain(tiny(refused), {.folder = folder.path()});
    INFO(outcome.err);
    CHECK(outcome.code == 3);
    CHECK_FALSE(fs::exists(folder / "deep"));
  }
}

TEST_CASE("AStartThatIsRefusedLeavesAnOlderRunAsItWas") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0.032");
  fs::remove(run / ".lock");
  const auto all = [&] {
    std::map<std::string, std::string> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(run))
      files[entry.path().string()] = entry.is_regular_file() ? read_file(entry.path()) : "";
    return files;
  };
  const auto before = all();
  for (const std::string refused : {"--data missing.zip", "--set dcgan.channels=64"}) {
    CAPTURE(refused);
    const Outcome outcome =
        gantrain(tiny("--run-dir run --kimg 0.064 " + refused), {.folder = folder.path()});
    INFO(outcome.err);
    CHECK((outcome.code == 2 || outcome.code == 3));
    CHECK(all() == before);
  }
}

TEST_CASE("ARefusedStartLeavesTheFilesOfTheRunAtWorkAlone") {
  const TemporaryFolder folder;
  Command command(tiny("--run-dir run --kimg 500"), {.folder = folder.path()});
  REQUIRE(command.wait_for("speed  "));
  const std::string pids = read_file(folder / "run/errors/pids.json");
  const Outcome second = gantrain(tiny("--run-dir run --kimg 500"), {.folder = folder.path()});
  INFO(second.err);
  CHECK(second.code == 2);
  CHECK(read_file(folder / "run/STATUS") == "running\n");
  CHECK(read_file(folder / "run/errors/pids.json") == pids);
  command.signal(SIGTERM);
  CHECK(command.wait().code == 75);
}

TEST_CASE("AWorkerOfTorchrunLeavesItsReasonWhereTorchrunLooks") {
  const TemporaryFolder folder;
  const ReservedPort port;
  const fs::path file = folder / "elastic/error.json";
  const std::map<std::string, std::string> environment = {
      {"RANK", "0"},
      {"LOCAL_RANK", "0"},
      {"WORLD_SIZE", "1"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(port.number())},
      {"TORCHELASTIC_ERROR_FILE", file.string()}};
  const CommandOptions options{.environment = environment, .folder = folder.path()};
  for (const std::string wrong : {"--data missing.zip", "--set train.batch=0", "--preset dcgam"}) {
    CAPTURE(wrong);
    fs::remove(file);
    const Outcome outcome = gantrain(tiny("--run-dir run " + wrong), options);
    INFO(outcome.err);
    CHECK((outcome.code == 2 || outcome.code == 3));
    const nlohmann::ordered_json message = json_of(file).at("message");
    CHECK(message.at("extraInfo").at("exit_code") == outcome.code);
    CHECK(holds(outcome.err, message.at("message").get<std::string>().substr(0, 20)));
    CHECK(parse_int(message.at("extraInfo").at("timestamp").get<std::string>()));
  }
}

// Nothing looks at the stop while a worker waits in the store for those that never come.
TEST_CASE("AWorkerThatWaitsForOthersStopsWhenAsked") {
  const TemporaryFolder folder;
  const ReservedPort ports[2];  // each waits alone
  std::vector<std::unique_ptr<Command>> workers;
  for (const std::string rank : {"0", "1"}) {
    const ReservedPort& port = ports[workers.size()];
    workers.push_back(std::make_unique<Command>(
        tiny("--run-dir run" + rank + " --kimg 500 --timeout 60s"),
        CommandOptions{.environment = {{"RANK", rank},
                                       {"LOCAL_RANK", rank},
                                       {"WORLD_SIZE", "2"},
                                       {"MASTER_ADDR", "127.0.0.1"},
                                       {"MASTER_PORT", std::to_string(port.number())}},
                       .folder = folder.path()}));
  }
  std::this_thread::sleep_for(std::chrono::seconds(2));
  for (const auto& worker : workers) worker->signal(SIGTERM);
  const double asked = monotonic_seconds();
  for (const auto& worker : workers) CHECK(worker->wait().code == 75);
  CHECK(monotonic_seconds() - asked < 50);  // not the 60 s of the meeting
}

TEST_CASE("AWorkerThatIsKilledLeavesItsReasonToo") {
  const TemporaryFolder folder;
  const ReservedPort port;
  const fs::path elastic = folder / "elastic.json";
  Command worker(tiny("--run-dir run --kimg 500 --set train.tick=0.1"),
                 {.environment = {{"RANK", "0"},
                                  {"LOCAL_RANK", "0"},
                                  {"WORLD_SIZE", "1"},
                                  {"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", std::to_string(port.number())},
                                  {"TORCHELASTIC_ERROR_FILE", elastic.string()}},
                  .folder = folder.path()});
  REQUIRE(worker.wait_for("speed  "));
  const pid_t pid = worker.pid();
  worker.signal(SIGKILL);
  CHECK(worker.wait().code == 128 + SIGKILL);
  const fs::path status = folder / "run/STATUS";
  CHECK(eventually(
      [&] { return starts_with(text_in(status), "failed with exit code 137: rank 0 "); }, 60));
  const nlohmann::ordered_json extra =
      json_of(folder / "run/errors/rank0.json").at("message").at("extraInfo");
  CHECK(extra.at("pid") == pid);
  CHECK(extra.at("signal") == SIGKILL);
  CHECK(extra.at("iteration") > 0);
  CHECK(json_of(elastic).at("message").at("extraInfo").at("signal") == SIGKILL);
  CHECK(holds(read_file(folder / "run/log.txt"), "error   rank 0 "));
}

TEST_CASE("ALauncherThatIsKilledLeavesItsReasonToo") {
  const TemporaryFolder folder;
  Command launcher(tiny("--run-dir run --kimg 500 --nproc 2 --set train.tick=0.1"),
                   {.folder = folder.path()});
  REQUIRE(launcher.wait_for("speed  "));
  const std::string reason = fmt::format(
      "failed with exit code 137: the launcher ({}, pid {}) died", host_name(), launcher.pid());
  const nlohmann::ordered_json pids = pids_of(folder / "run");
  launcher.signal(SIGKILL);
  CHECK(launcher.wait().code == 128 + SIGKILL);
  CHECK(eventually([&] { return starts_with(text_in(folder / "run/STATUS"), reason); }, 60));
  const std::string log = read_file(folder / "run/log.txt");
  CHECK(holds(log, "error   the launcher ("));
  CHECK(holds(log, "\nnext    "));
  for (const std::string rank : {"0", "1"}) {
    const nlohmann::ordered_json file = json_of(folder / ("run/errors/rank" + rank + ".json"));
    CHECK(holds(file.at("message").at("message"), "the launcher ("));
    const nlohmann::ordered_json& extra = file.at("message").at("extraInfo");
    CHECK(extra.at("pid") == pids.at(rank));
    CHECK(extra.at("signal") == SIGKILL);
    CHECK(extra.at("iteration") > 0);
  }
}

TEST_CASE("ALauncherThatIsKilledLeavesItsReasonWhenItsRanksEndSlowly") {
  const TemporaryFolder folder;
  Command launcher(tiny("--run-dir run --kimg 500 --nproc 2 --set train.tick=0.1"),
                   {.folder = folder.path()});
  REQUIRE(launcher.wait_for("speed  "));
  // A second reference to rank 0's own lock, as a thread of rank 0 has it that the kernel cannot
  // end before the disk has answered.
  const UniqueFd lock = file_of(pids_of(folder / "run").at("0").get<pid_t>(), folder / "run/.lock");
  if (!lock) {
    WARN("skipped: no file of another process can be had here (pidfd_getfd)");
    return;
  }
  launcher.signal(SIGKILL);
  CHECK(launcher.wait().code == 128 + SIGKILL);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  CHECK(text_in(folder / "run/STATUS") == "running\n");
  ::flock(lock.get(), LOCK_UN);
  CHECK(eventually(
      [&] { return starts_with(text_in(folder / "run/STATUS"), "failed with exit code 137: "); },
      60));
}

TEST_CASE("TheStackOfACrashIsOnDisk") {
  const TemporaryFolder folder;
  Command launcher(tiny("--run-dir run --kimg 500 --set train.tick=0.1"),
                   {.folder = folder.path()});
  REQUIRE(launcher.wait_for("speed  "));
  ::kill(pids_of(folder / "run").at("0").get<pid_t>(), SIGSEGV);
  const Outcome outcome = launcher.wait();
  CHECK(outcome.code == 6);
  const nlohmann::ordered_json message = json_of(folder / "run/errors/rank0.json").at("message");
  CHECK(holds(message.at("message"), "died of signal 11 (SIGSEGV)"));
  const auto lines = split(message.at("extraInfo").at("py_callstack").get<std::string>(), '\n');
  REQUIRE(lines.size() > 3);
  // "program(function+0x12) [0x7f...]", the same lines that standard error has.
  for (size_t i = 1; i < 4; ++i) CHECK(holds(outcome.err, lines[i]));
  CHECK(holds(lines[2], "[0x"));
}

TEST_CASE("ARunFolderWithAnImpossibleNameIsNamedAndEndsWith8") {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  const std::string longest(300, 'x');
  for (const std::string& name : {longest, std::string("file"), std::string("file/run")}) {
    for (const std::string more : {"", " --resume auto"}) {
      const Outcome outcome = gantrain(tiny("--run-dir " + name + more), {.folder = folder.path()});
      INFO(outcome.err);
      CHECK(outcome.code == 8);
      CHECK(is_one_error_line(outcome.err));
      CHECK(holds(outcome.err, name + ": "));
    }
  }
}

}  // namespace gantrain
