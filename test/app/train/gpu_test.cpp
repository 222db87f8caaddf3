// SPDX-License-Identifier: Apache-2.0
// What the program does where GPUs are seen, on a machine that has none: /dev and the driver's
// version are played in a mount namespace, which only root can make.
#include <fmt/format.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "config/value.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// $1: the driver's version; the rest is the command.
constexpr const char* kTwoGpus = R"(set -e
mount -t tmpfs tmpfs /dev
mknod -m 666 /dev/null c 1 3
mknod -m 666 /dev/urandom c 1 9
for file in nvidiactl nvidia0 nvidia1; do : > /dev/$file; done
[ ! -d /proc/driver/nvidia ] || mount -t tmpfs tmpfs /proc/driver/nvidia
mount -t tmpfs tmpfs /sys/module
mkdir /sys/module/nvidia
echo $1 > /sys/module/nvidia/version
shift
exec "$@"
)";

// The program without its CUDA library, on a machine with two GPUs.
class TwoGpus {
 public:
  TwoGpus() {
    fs::copy_file(gantrain_program(), folder / "gantrain");
    fs::create_symlink(gantrain_program().parent_path() / "libgantrain_trainer.so",
                       folder / "libgantrain_trainer.so");
    write_file(folder / "two_gpus.sh", kTwoGpus);
  }

  bool can_be_played() const {
    if (run("true").code == 0) return true;
    WARN("skipped: no mount namespace can be made here (root and unshare are needed)");
    return false;
  }

  Outcome run(const std::string& command, const std::string& driver = "580.65.06") const {
    return run_without_gpus(fmt::format("unshare -m sh two_gpus.sh {} {}", driver, command));
  }

  // On this machine as it is.
  Outcome run_without_gpus(const std::string& command) const {
    const std::string line =
        fmt::format("cd '{}' && {} > out 2> err < /dev/null", folder.path().string(), command);
    Outcome outcome;
    const int status = std::system(line.c_str());
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.out = read_file(folder / "out");
    outcome.err = read_file(folder / "err");
    return outcome;
  }

  TemporaryFolder folder;
};

const std::string kTrain = "env -u CUDA_VISIBLE_DEVICES ./gantrain --preset dcgan-tiny ";

}  // namespace

TEST_CASE("GpusWithoutACudaLibraryAreNeverAReasonForACpuRun") {
  const TwoGpus machine;
  if (!machine.can_be_played()) return;
  for (const std::string& command :
       {kTrain,
        kTrain + "--device cuda",
        kTrain + "--amp --device cuda",
        std::string("./gantrain bench ops --device auto"),
        std::string("./gantrain bench step --device cuda --preset dcgan-tiny"),
        std::string("./gantrain generate --model m --seeds 0 -o g.png"),
        std::string("./gantrain interpolate --model m --seeds 0-1 -o g.webp")}) {
    CAPTURE(command);
    const Outcome outcome = machine.run(command);
    CHECK(outcome.code == 4);
    CHECK(is_one_error_line(outcome.err));
    CHECK_THAT(outcome.err,
               Catch::Contains("2 GPUs") && Catch::Contains("GANTRAIN_CUDA=ON") &&
                   Catch::Contains("--device cpu"));
  }
  CHECK_FALSE(fs::exists(machine.folder / "runs"));
}

TEST_CASE("OnlyTheUserChoosesACpuWhereGpusAre") {
  const TwoGpus machine;
  if (!machine.can_be_played()) return;
  for (const std::string& command : {kTrain + "--dry-run --device cpu",
                                     std::string("env CUDA_VISIBLE_DEVICES= ./gantrain --dry-run"),
                                     std::string("./gantrain --smoke --dry-run")}) {
    CAPTURE(command);
    const Outcome outcome = machine.run(command);
    INFO(outcome.err);
    CHECK(outcome.code == 0);
    CHECK_THAT(outcome.out, Catch::Contains("device cpu"));
  }
  const Outcome drawn =
      machine.run("./gantrain generate --model m --seeds 0 -o g.png --device cpu");
  CHECK(drawn.code == 3);  // there is no model m
}

TEST_CASE("ADriverThatIsTooOldIsNamedBesideTheOneThatIsNeeded") {
  const TwoGpus machine;
  if (!machine.can_be_played()) return;
  write_file(machine.folder / "libgantrain_cuda.so", "built, but nobody loads it\n");
  for (const std::string& command :
       {kTrain, std::string("./gantrain generate --model m --seeds 0 -o g.png")}) {
    const Outcome outcome = machine.run(command, "550.54.15");
    CAPTURE(outcome.err);
    CHECK(outcome.code == 4);
    CHECK(is_one_error_line(outcome.err));
    CHECK_THAT(outcome.err, Catch::Contains("550.54.15") && Catch::Contains("580.65"));
  }
}

TEST_CASE("ACudaLibraryThatCannotBeLoadedEndsTheRunWithTheReason") {
  const TwoGpus machine;
  if (!machine.can_be_played()) return;
  write_file(machine.folder / "libgantrain_cuda.so", "no library\n");
  const std::string worker =
      "env RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 "
      "MASTER_PORT=29555 ";
  for (const std::string& command :
       {kTrain + "--nproc 2", worker + "./gantrain --preset dcgan-tiny"}) {
    CAPTURE(command);
    const Outcome outcome = machine.run(command);
    INFO(outcome.err);
    CHECK(outcome.code == 4);
    CHECK(is_one_error_line(outcome.err));
    CHECK_THAT(outcome.err,
               Catch::Contains("libgantrain_cuda.so") && Catch::Contains("gantrain doctor") &&
                   Catch::Contains("--device cpu"));
  }
}

TEST_CASE("MoreRanksThanVisibleGpusAreRefusedWithBothNumbers") {
  const TwoGpus machine;
  if (!machine.can_be_played()) return;
  write_file(machine.folder / "libgantrain_cuda.so", "built, but nobody loads it\n");
  const std::vector<Words> table{
      {"", "--nproc 3", "3 ranks", "2 visible"},
      {"CUDA_VISIBLE_DEVICES=1", "--nproc 2", "2 ranks", "1 visible"},
      {"CUDA_VISIBLE_DEVICES=MIG-a,MIG-b", "--nproc 2", "one MIG instance", "1 visible"},
      {"CUDA_VISIBLE_DEVICES=0,0", "", "twice", "no GPU is visible"},
      {"CUDA_VISIBLE_DEVICES=5", "", "5 names none", "no GPU is visible"}};
  for (const Words& row : table) {
    const Outcome outcome =
        machine.run("env " + row[0] + " ./gantrain --preset dcgan-tiny " + row[1]);
    CAPTURE(row[0], outcome.err);
    CHECK(outcome.code == 4);
    CHECK_THAT(outcome.err, Catch::Contains(row[2]) && Catch::Contains(row[3]));
  }
}

TEST_CASE("DoctorSaysWhatIsWrongWithTheGpusAndEndsWell") {
  const TwoGpus machine;
  if (!machine.can_be_played()) return;
  const auto doctor = [&](const std::string& driver) {
    const Outcome outcome =
        machine.run("env -u CUDA_VISIBLE_DEVICES ./gantrain doctor --json", driver);
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.out);
  };
  const Json bare = doctor("580.65.06");
  CHECK(bare.at("gpus") == 2);
  CHECK(bare.at("gpu list").size() == 2);
  CHECK(bare.at("driver") == "580.65.06");
  CHECK(bare.at("cuda library") == "not built");
  CHECK_THAT(bare.at("device").get<std::string>(), Catch::Contains("exit 4"));
  write_file(machine.folder / "libgantrain_cuda.so", "no library\n");
  const Json old = doctor("550.54.15");
  CHECK_THAT(old.at("driver cuda").get<std::string>(),
             Catch::Contains("12.4") && Catch::Contains("13.0"));
  CHECK_THAT(doctor("580.65.06").at("device").get<std::string>(),
             Catch::Contains("exit 4") && Catch::Contains("cannot be loaded"));
  CHECK_THAT(old.at("cuda library").get<std::string>(), Catch::Contains("cannot be loaded"));
  CHECK_THAT(old.at("device").get<std::string>(), Catch::Contains("580.65"));
}

TEST_CASE("DoctorNamesLibrariesNetworkAndDevices") {
  const Outcome outcome = gantrain({"doctor", "--json"});
  REQUIRE(outcome.code == 0);
  const Json facts = Json::parse(outcome.out);
  for (const char* key : {"gpus",
                          "gpu list",
                          "driver",
                          "driver cuda",
                          "device",
                          "cuda library",
                          "cuda missing",
                          "architectures",
                          "cuda runtime",
                          "nccl",
                          "cudnn",
                          "cuda devices",
                          "peer access",
                          "interfaces",
                          "nccl network",
                          "gloo network",
                          "infiniband"}) {
    CAPTURE(key);
    CHECK(facts.contains(key));
  }
  CHECK_FALSE(facts.at("interfaces").empty());
  if (facts.at("gpus") == 0) CHECK(facts.at("cuda devices") == "no GPU");
  if (facts.at("cuda library") != "built") return;
  // Loaded and asked, with or without a GPU.
  CHECK_THAT(facts.at("cuda runtime").get<std::string>(),
             Catch::StartsWith("made for 13.0, found 13."));
  CHECK_THAT(facts.at("nccl").get<std::string>(), Catch::Contains("found 2."));
  CHECK_THAT(facts.at("cudnn").get<std::string>(), Catch::StartsWith("found 9."));
  CHECK_THAT(facts.at("architectures").get<std::string>(),
             Catch::StartsWith("sm_") && Catch::Contains(" compute_"));
  CHECK(facts.at("cuda missing").empty());
}

// A library that needs another one, whose name is changed here to that of none.
TEST_CASE("DoctorNamesTheLibrariesThatAreMissing") {
  const fs::path built = gantrain_program().parent_path() / "libgantrain_cuda.so";
  if (!fs::exists(built)) {
    WARN("skipped: this build has no CUDA library");
    return;
  }
  const TwoGpus machine;
  std::string library = read_file(built);
  const std::string needed = "libcudart.so.13", changed = "libnothere.so.1";
  size_t changes = 0;
  for (size_t at = 0; (at = library.find(needed, at)) != std::string::npos; ++changes)
    library.replace(at, needed.size(), changed);
  REQUIRE(changes > 0);
  write_file(machine.folder / "libgantrain_cuda.so", library);
  const Outcome outcome = machine.run_without_gpus("./gantrain doctor --json");
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const Json facts = Json::parse(outcome.out);
  CHECK(facts.at("cuda missing") == Json::array({changed}));
  CHECK_THAT(facts.at("cuda library").get<std::string>(),
             Catch::Contains("cannot be loaded") && Catch::Contains(changed));
}

TEST_CASE("DoctorShowsWhichInterfacesTheVariablesChoose") {
  const Outcome outcome =
      gantrain({"doctor", "--json"},
               {.environment = {{"NCCL_SOCKET_IFNAME", "=lo"}, {"GLOO_SOCKET_IFNAME", "lo"}}});
  REQUIRE(outcome.code == 0);
  const Json facts = Json::parse(outcome.out);
  CHECK(facts.at("nccl network") == "lo (NCCL_SOCKET_IFNAME==lo)");
  CHECK(facts.at("gloo network") == "lo (GLOO_SOCKET_IFNAME)");
}

}  // namespace gantrain
