// SPDX-License-Identifier: Apache-2.0
// A run that is stopped, asked for a state, or finds a broken one: it goes on as if nothing had
// been.
#include <signal.h>

#include <algorithm>

#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// A finished run, and one that was made longer.
const std::string kDone = "--kimg 0.064", kLonger = "--kimg 0.128";

Outcome resume(const TemporaryFolder& folder, const std::string& name, const std::string& same) {
  return gantrain(tiny("--run-dir " + name + " " + same), {.folder = folder.path()});
}

// That a run was stopped and says how it goes on. Returns the kimg where it stands.
double check_stopped(const Outcome& stopped,
                     const TemporaryFolder& folder,
                     const std::string& name) {
  INFO(stopped.err);
  CHECK(holds(stopped.err, "\nstopped "));
  CHECK(stopped.left.empty());
  const std::string last = stopped.err.substr(stopped.err.rfind('\n', stopped.err.size() - 2) + 1);
  CHECK(starts_with(last, "next    "));
  CHECK(holds(last, "gantrain "));
  CHECK(holds(last, "--run-dir " + name));
  const Words status = words_of(read_file(folder / (name + "/STATUS")));  // stopped 0.128 kimg ...
  REQUIRE(status.size() >= 3);
  CHECK(status[0] == "stopped");
  const auto kimg = parse_double(status[1]);
  REQUIRE(kimg);
  return *kimg;
}

void check_resumed(const TemporaryFolder& folder,
                   const std::string& name,
                   const std::string& same,
                   const std::string& whole) {
  const fs::path newest = files_like(folder / name, "state-").back();
  const Outcome resumed = resume(folder, name, same);
  INFO(resumed.err);
  REQUIRE(resumed.code == 0);
  CHECK(holds(resumed.err, "resume  at "));
  CHECK(holds(resumed.err, newest.filename().string()));
  CHECK(starts_with(read_file(folder / (name + "/STATUS")), "done"));
  CHECK(model_sha(folder / name) == whole);
}

// Runs have no end in sight until they are stopped; this is a little later.
std::string up_to(double stopped_at) { return " --kimg " + shortest(stopped_at + 0.08); }

void check_signals(const std::string& ranks) {
  const TemporaryFolder folder;
  const std::string same = "--set train.tick=0.1 --set save.every=0.2 " + ranks;
  const std::vector<std::pair<int, int>> stops = {{SIGINT, 130}, {SIGTERM, 75}, {SIGUSR1, 75}};
  double stopped_at = 0;
  for (const auto& [number, code] : stops) {
    CAPTURE(ranks, number);
    const std::string name = "stopped" + std::to_string(number);
    Command command(tiny("--run-dir " + name + " --kimg 500 " + same), {.folder = folder.path()});
    REQUIRE(command.wait_for("tick 1"));
    command.signal(number);
    const Outcome outcome = command.wait();
    CHECK(outcome.code == code);
    CHECK(holds(outcome.err, "(signal " + std::to_string(number) + ")"));
    stopped_at = std::max(stopped_at, check_stopped(outcome, folder, name));
  }
  const std::string end = same + up_to(stopped_at);
  const std::string whole = model_sha(train(folder, "whole", end));
  for (const auto& [number, code] : stops) {
    check_resumed(folder, "stopped" + std::to_string(number), end, whole);
  }
}

TEST_CASE("ASignalStopsOneRankThatResumesExactly") { check_signals("--nproc 1"); }
TEST_CASE("ASignalStopsTwoRanksThatResumeExactly") { check_signals("--nproc 2"); }

TEST_CASE("TheTimeLimitStopsARunThatResumesExactly") {
  const TemporaryFolder folder;
  const std::string same = "--set save.every=0.2";
  const Outcome outcome = gantrain(tiny("--run-dir run --stop-after 0.5s --kimg 500 " + same),
                                   {.folder = folder.path()});
  INFO(outcome.err);
  CHECK(outcome.code == 75);
  CHECK(outcome.seconds < 60);
  const std::string end = same + up_to(check_stopped(outcome, folder, "run"));
  check_resumed(folder, "run", end, model_sha(train(folder, "whole", end)));
}

TEST_CASE("ARunStopsBeforeItsAllocationEndsAndResumesExactly") {
  const TemporaryFolder folder;
  const std::string same = "--set save.every=0.2 --nproc 2";
  const std::string hour = std::to_string(static_cast<int64_t>(unix_seconds()) + 3600);
  const Outcome outcome =
      gantrain(tiny("--run-dir run --time-margin 59m59s --kimg 500 " + same),
               {.environment = {{"SLURM_JOB_END_TIME", hour}}, .folder = folder.path()});
  INFO(outcome.err);
  CHECK(outcome.code == 75);
  CHECK(holds(outcome.err, "margin  the allocation ends at "));
  CHECK(holds(outcome.err, "(--time-margin)"));
  const std::string end = same + up_to(check_stopped(outcome, folder, "run"));
  check_resumed(folder, "run", end, model_sha(train(folder, "whole", end)));
}

TEST_CASE("AStoppedRunEndsWithTheCodeThatASchedulerRestarts") {
  const TemporaryFolder folder;
  const Outcome outcome =
      gantrain(tiny("--run-dir run --stop-after 0.5s --kimg 500 --stopped-code 143"),
               {.folder = folder.path()});
  CHECK(outcome.code == 143);
  check_stopped(outcome, folder, "run");
  const Outcome done =
      gantrain(tiny("--run-dir done --kimg 0 --stopped-code 143"), {.folder = folder.path()});
  CHECK(done.code == 0);
}

TEST_CASE("TheFilesSaveAndStopAreObeyed") {
  const TemporaryFolder folder;
  // No tick comes before: the run looks for these files between ticks.
  const std::string same = "--set train.tick=500 --set save.every=500.5";
  Command command(tiny("--run-dir run --kimg 500 " + same), {.folder = folder.path()});
  REQUIRE(command.wait_for("speed  "));
  CHECK(files_like(folder / "run", "state-").empty());
  write_file(folder / "run/SAVE", "");
  CHECK(eventually([&] { return files_like(folder / "run", "state-").size() == 1; }, 60));
  CHECK(eventually([&] { return !fs::exists(folder / "run/SAVE"); }, 60));
  CHECK(!command.family().empty());  // a saved run goes on
  write_file(folder / "run/STOP", "");
  const Outcome outcome = command.wait();
  CHECK(outcome.code == 75);
  CHECK(!fs::exists(folder / "run/STOP"));
  const std::string end = same + up_to(check_stopped(outcome, folder, "run"));
  check_resumed(folder, "run", end, model_sha(train(folder, "whole", end)));
}

TEST_CASE("TheUntrainedModelStaysWhenARunStopsWithinItsFirstKimg") {
  const TemporaryFolder folder;
  const fs::path start = trained(folder, "start", "--kimg 0") / "model-000000.safetensors";
  Command command(tiny("--run-dir run --kimg 500 --set train.tick=0.05"),
                  {.folder = folder.path()});
  REQUIRE(command.wait_for("tick 1"));
  command.signal(SIGTERM);
  const Outcome outcome = command.wait();
  INFO(outcome.err);
  REQUIRE(outcome.code == 75);
  const std::vector<fs::path> models = files_like(folder / "run", "model-");
  CHECK(models.size() == 2);
  const bool kept = read_file(folder / "run/model-000000.safetensors") == read_file(start);
  CHECK(kept);
}

TEST_CASE("AFinishedRunSaysSoAndGoesOnWhenItIsMadeLonger") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", kDone);
  const std::string model = model_sha(run);
  const Outcome again = resume(folder, "run", kDone);
  INFO(again.err);
  CHECK(again.code == 0);
  CHECK(again.seconds < 60);
  CHECK(holds(again.err, "already done"));
  CHECK(holds(again.err, "--kimg"));
  CHECK(model_sha(run) == model);
  CHECK(starts_with(read_file(run / "STATUS"), "done"));
  const std::string whole = model_sha(trained(folder, "whole", kLonger));
  CHECK(model_sha(train(folder, "run", kLonger)) == whole);
}

TEST_CASE("ABrokenStateIsPassedOverForTheOneBefore") {
  const TemporaryFolder folder;
  const std::string same = "--set save.every=0.032 --set train.tick=0.032 --kimg ";
  const std::string whole = model_sha(trained(folder, "whole", same + "0.128"));
  const fs::path half = trained(folder, "half", same + "0.064");
  const auto check = [&](const std::string& name, const auto& spoil) {
    CAPTURE(name);
    fs::copy(half, folder / name, fs::copy_options::recursive);
    const std::vector<fs::path> states = files_like(folder / name, "state-");
    REQUIRE(states.size() == 2);
    std::string bytes = read_file(states[1]);
    spoil(bytes);
    write_file(states[1], bytes);
    const Outcome outcome = resume(folder, name, same + "0.128");
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    const size_t warned = outcome.err.find("warning " + name + "/" + states[1].filename().string());
    REQUIRE(warned != std::string::npos);
    CHECK(holds(outcome.err, "the one before"));
    CHECK(outcome.err.find(name + "/" + states[0].filename().string()) > warned);
    CHECK(model_sha(folder / name) == whole);
  };
  check("truncated", [](std::string& bytes) { bytes.resize(bytes.size() / 2); });
  check("shorter", [](std::string& bytes) { bytes.pop_back(); });
  check("empty", [](std::string& bytes) { bytes.clear(); });
  check("flipped", [](std::string& bytes) { bytes[bytes.size() / 3] ^= 4; });
}

TEST_CASE("WithoutAWholeStateNothingIsLoaded") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", kDone);
  const fs::path state = files_like(run, "state-").back();
  std::string bytes = read_file(state);
  bytes[bytes.size() / 2] ^= 1;
  write_file(state, bytes);
  const Outcome outcome = resume(folder, "run", kLonger);
  INFO(outcome.err);
  CHECK(outcome.code == 3);
  CHECK(holds(outcome.err, state.filename().string()));
  CHECK(holds(outcome.err, "--resume none"));
  const Outcome named =
      gantrain(tiny("--run-dir other --resume " + state.string()), {.folder = folder.path()});
  INFO(named.err);
  CHECK(named.code == 3);
  CHECK(holds(named.err, state.filename().string()));
}

TEST_CASE("AChangedRateIsRefusedAtResumeUnlessForced") {
  const TemporaryFolder folder;
  trained(folder, "run", kDone);
  const std::string changed = kLonger + " --set G.adam.lr=1e-4";
  const Outcome refused = resume(folder, "run", changed);
  INFO(refused.err);
  CHECK(refused.code == 2);
  for (const std::string part : {"G.adam.lr", "0.0002", "0.0001", "--force G.adam.lr"}) {
    CAPTURE(part);
    CHECK(holds(refused.err, part));
  }
  CHECK(resume(folder, "run", changed + " --force D.adam.lr").code == 2);
  const Outcome forced = resume(folder, "run", changed + " --force G.adam.lr");
  INFO(forced.err);
  CHECK(forced.code == 0);
  CHECK(model_sha(folder / "run") != model_sha(trained(folder, "plain", kLonger)));
}

}  // namespace
}  // namespace gantrain
