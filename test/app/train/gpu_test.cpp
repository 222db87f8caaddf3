// SPDX-License-Identifier: Apache-2.0
// What the program does where GPUs are seen, on a machine that has none: /dev and the driver's
// version are played in a mount namespace, which only root can make.
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>

#include "config/value.h"
#include "support/catch.h"
#include "support/paths.h"
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
[ -z "$COMPATIBILITY" ] || mount --bind "$COMPATIBILITY" /usr/local
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

TEST_CASE("AnOldDriverIsMadeUpForByTheCompatibilityPackageInItsUsualPlace") {
  const TwoGpus machine;
  if (!machine.can_be_played()) return;
  write_file(machine.folder / "libgantrain_cuda.so", "built, but nobody loads it\n");
  const fs::path place = machine.folder / "local/cuda/compat";
  fs::create_directories(place);
  fs::copy_file(fs::path(build_folder()) / "test/driver/libcuda.so.1", place / "libcuda.so.1");
  const std::string dry = "env -u CUDA_VISIBLE_DEVICES -u LD_LIBRARY_PATH ./gantrain ";
  setenv("COMPATIBILITY", (machine.folder / "local").c_str(), /*overwrite=*/1);
  const Outcome outcome = machine.run(dry + "--dry-run --preset dcgan-tiny", "550.54.15");
  const Outcome doctor = machine.run(dry + "doctor --json", "550.54.15");
  unsetenv("COMPATIBILITY");
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("device cuda"));
  REQUIRE(doctor.code == 0);
  CHECK(Json::parse(doctor.out).at("driver library") == "/usr/local/cuda/compat/libcuda.so.1");
  CHECK_THAT(Json::parse(doctor.out).at("driver cuda").get<std::string>(),
             Catch::Contains("up to 13.0"));
}

TEST_CASE("TheWayToCudaIsThatOfTheInstallation") {
  const TwoGpus machine;
  if (!machine.can_be_played()) return;
  // As wheel and package have it: the libraries in ../lib.
  for (const char* folder : {"there/bin", "there/lib"})
    fs::create_directories(machine.folder / folder);
  fs::rename(machine.folder / "gantrain", machine.folder / "there/bin/gantrain");
  fs::rename(machine.folder / "libgantrain_trainer.so",
             machine.folder / "there/lib/libgantrain_trainer.so");
  const std::string train = "env -u CUDA_VISIBLE_DEVICES there/bin/gantrain --preset dcgan-tiny";
  const auto refusal = [&](const std::string& library) {
    if (!library.empty()) write_file(machine.folder / "there/lib/libgantrain_cuda.so", library);
    const Outcome outcome = machine.run(train);
    CHECK(outcome.code == 4);
    CHECK(is_one_error_line(outcome.err));
    CHECK_THAT(outcome.err, !Catch::Contains("scripts"));
    return outcome.err;
  };
  CHECK_THAT(refusal(""), Catch::Contains("made with --cuda"));
  write_file(machine.folder / "there/__main__.py", "");
  CHECK_THAT(refusal(""), Catch::Contains("install a wheel that"));
  CHECK_THAT(refusal("no library\n"),
             Catch::Contains("pip install") && Catch::Contains("torch==2.11.0"));
}

TEST_CASE("AProcessorWithoutAvx2IsNamedBeforeARunStarts") {
  if (find_program("qemu-x86_64").empty()) {
    WARN("skipped: no qemu-x86_64 that plays an older processor");
    return;
  }
  const TwoGpus machine;
  const Outcome outcome = machine.run_without_gpus(
      "qemu-x86_64 -cpu Nehalem ./gantrain --dry-run --device cpu --preset dcgan-tiny");
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("this processor has no AVX2"));
}

TEST_CASE("AnotherPyTorchIsRefusedWithBothVersions") {
  const TemporaryFolder torch;
  fs::create_directories(torch / "lib");
  write_file(torch / "version.py", "__all__ = ['__version__']\n__version__ = '2.10.0+cpu'\n");
  const TwoGpus machine;
  for (const char* folder : {"lib", "lib/"}) {
    const Outcome outcome = machine.run_without_gpus(
        fmt::format("env GANTRAIN_TORCH_LIB={} ./gantrain --smoke", (torch / folder).string()));
    CHECK(outcome.code == 4);
    CHECK(is_one_error_line(outcome.err));
    CHECK_THAT(outcome.err,
               Catch::Contains("needs PyTorch 2.11.0") &&
                   Catch::Contains("there is PyTorch 2.10.0") &&
                   Catch::Contains("pip install torch==2.11.0"));
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
  CHECK_THAT(old.at("driver library").get<std::string>(), Catch::Contains("no cuda-compat-13-0"));
  CHECK_THAT(doctor("580.65.06").at("device").get<std::string>(),
             Catch::Contains("exit 4") && Catch::Contains("cannot be loaded"));
  CHECK_THAT(old.at("cuda library").get<std::string>(), Catch::Contains("cannot be loaded"));
  CHECK_THAT(old.at("device").get<std::string>(), Catch::Contains("580.65"));
}

TEST_CASE("DoctorNamesLibrariesNetworkAndDevices") {
  const Outcome outcome = gantrain({"doctor", "--json"});
  REQUIRE(outcome.code == 0);
  const Json facts = Json::parse(outcome.out);
  for (const char* key :
       {"gpus",          "gpu list",   "driver",       "driver cuda",  "driver library",
        "cpu vectors",   "device",     "cuda library", "cuda missing", "architectures",
        "cuda runtime",  "nccl",       "cudnn",        "cuda devices", "peer access",
        "shared memory", "interfaces", "nccl network", "gloo network", "infiniband"}) {
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
