// SPDX-License-Identifier: Apache-2.0
#include "launch/where/devices.h"

#include <sched.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "support/catch.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "util/error.h"

namespace gantrain {

namespace {

namespace fs = std::filesystem;

// A driver with that many whole GPUs, whose UUIDs it does not tell.
GpuDriver driver_of(int64_t gpus) {
  GpuDriver driver{.version = "580.65.06"};
  for (int64_t i = 0; i < gpus; ++i) driver.devices.push_back({.minor = i});
  return driver;
}

// Four GPUs in a container that was given the second half of a machine's eight.
GpuDriver driver_with_uuids() {
  GpuDriver driver = driver_of(4);
  const std::vector<std::string> uuids{"GPU-1a2b-0", "GPU-1a2b-1", "GPU-77aa", "GPU-9f00"};
  for (size_t i = 0; i < uuids.size(); ++i) {
    driver.devices[i].minor = static_cast<int64_t>(i) + 4;
    driver.devices[i].uuid = uuids[i];
  }
  return driver;
}

VisibleGpus with_mask(const std::string& mask, const GpuDriver& driver) {
  return visible_gpus({{"CUDA_VISIBLE_DEVICES", mask}}, driver);
}

World launcher_of(int64_t ranks) {
  World world;
  world.ranks.local_world = world.ranks.world = ranks;
  return world;
}

World worker_of(int64_t local_rank, int64_t local_world) {
  World world = launcher_of(local_world);
  world.role = World::Role::kWorker;
  world.ranks.rank = world.ranks.local_rank = local_rank;
  return world;
}

RankInfo local(int64_t rank, int64_t world) { return {.local_rank = rank, .local_world = world}; }

GpuOutlook outlook_of(int64_t gpus) { return {.visible = {.count = gpus}, .driver = "580.65.06"}; }

}  // namespace

TEST_CASE("VisibleGpusAreTheDriversLessTheMask") {
  CHECK(visible_gpus({}, driver_of(4)).count == 4);
  CHECK(visible_gpus({{"NVIDIA_VISIBLE_DEVICES", "0"}, {"ROCR_VISIBLE_DEVICES", "0"}}, driver_of(4))
            .count == 4);
  const std::vector<std::pair<std::string, int64_t>> table{{"0", 1},
                                                           {"3,1", 2},
                                                           {"0,1,2,3", 4},
                                                           {"0,9,1", 1},
                                                           {"0,2,-1,1", 2},
                                                           {" 1 , 2 ", 2},
                                                           {"1st,2nd", 2},
                                                           {"0,GPU-77aa", 1},
                                                           {"0,,1", 1}};
  for (const auto& [mask, count] : table) {
    INFO(mask);
    for (const GpuDriver& driver : {driver_of(4), driver_with_uuids()}) {
      CHECK(with_mask(mask, driver).count == count);
      CHECK_FALSE(with_mask(mask, driver).mistaken);
    }
  }
}

TEST_CASE("UuidsMayBeShortenedToWhatNamesOneGpuAlone") {
  const std::vector<std::pair<std::string, int64_t>> table{{"GPU-77aa", 1},
                                                           {"GPU-7", 1},
                                                           {"gpu-7", 0},  // a word names no GPU
                                                           {"GPU-77AA,GPU-9", 2},
                                                           {"GPU-1a2b-0,GPU-1a2b-1", 2},
                                                           {"GPU-9,GPU-1a2b", 1},
                                                           {"GPU-9,0", 1},
                                                           {"GPU-9,GPU-5,GPU-7", 1}};
  for (const auto& [mask, count] : table) {
    INFO(mask);
    CHECK(with_mask(mask, driver_with_uuids()).count == count);
  }
  // What the driver does not tell is believed, up to the number of GPUs.
  CHECK(with_mask("GPU-a", driver_of(2)).count == 1);
  CHECK(with_mask("GPU-a,GPU-b,GPU-c", driver_of(2)).count == 2);
}

TEST_CASE("AWordThatNamesNoGpuIsAMistake") {
  for (const char* mask : {"all", "gpu-0", "cuda:0", "auto"}) {
    INFO(mask);
    CHECK(with_mask(mask, driver_of(2)).count == 0);
    CHECK(with_mask(mask, driver_of(2)).mistaken);
  }
}

TEST_CASE("AMaskThatHidesAllGpusIsNoMistake") {
  for (const char* mask : {"", " ", "-1", "-1,0", "NoDevFiles", "none", "void"}) {
    INFO(mask);
    const VisibleGpus visible = with_mask(mask, driver_of(2));
    CHECK(visible.count == 0);
    CHECK_FALSE(visible.mistaken);
    CHECK(decide_device(DeviceKind::kAuto, {.visible = visible}) == DeviceKind::kCpu);
  }
}

TEST_CASE("AMaskThatNamesNoGpuIsAMistakeAndNotAReasonForACpuRun") {
  GpuDriver driver = driver_with_uuids();
  driver.devices.resize(2);
  for (const char* mask :
       {"1,1", "0,1,0", "2", "7,0", ",0", "GPU-1a2b", "GPU-5", "GPU-1a2b-0,GPU-1A2B-0"}) {
    INFO(mask);
    const VisibleGpus visible = with_mask(mask, driver);
    CHECK(visible.count == 0);
    CHECK(visible.mistaken);
    CHECK_THROWS_WITH(decide_device(DeviceKind::kAuto, {.visible = visible}),
                      Catch::Contains(std::string("CUDA_VISIBLE_DEVICES=") + mask) &&
                          Catch::Contains("--device cpu"));
  }
}

TEST_CASE("OfMigInstancesAProcessSeesOne") {
  GpuDriver driver = driver_of(2);
  driver.devices[0].mig_instances = 3;
  CHECK(visible_gpus({}, driver).count == 1);
  const std::vector<std::pair<std::string, int64_t>> table{
      {"MIG-a", 1},
      {"MIG-a,MIG-b", 1},
      {"MIG-GPU-4711/1/0,MIG-GPU-4711/2/0", 1},
      {"MIG-a,MIG-a", 0},
      {"0", 1},
      {"0,1", 1},  // no whole GPU is shown beside an instance
      {"1", 1},
      {"1,0", 1}};
  for (const auto& [mask, count] : table) {
    INFO(mask);
    CHECK(with_mask(mask, driver).count == count);
  }
  driver.devices[0].mig_instances = 0;
  CHECK(with_mask("0,1", driver).count == 2);
}

TEST_CASE("TwoRanksOnAListOfMigInstancesAreRefusedWithTheReason") {
  const VisibleGpus two = with_mask("MIG-a,MIG-b", driver_of(1));
  CHECK_THROWS_WITH(check_ranks_have_gpus(launcher_of(2), two),
                    Catch::Contains("2 ranks") && Catch::Contains("one MIG instance, of 2") &&
                        Catch::Contains("--nproc 1"));
  CHECK_NOTHROW(check_ranks_have_gpus(launcher_of(1), two));
  CHECK_NOTHROW(check_ranks_have_gpus(worker_of(1, 2), with_mask("MIG-b", driver_of(1))));
}

TEST_CASE("WithoutADriverNoGpuIsVisible") {
  CHECK(visible_gpus({}, {}).count == 0);
  CHECK(with_mask("0,1", {}).count == 0);
  CHECK_FALSE(with_mask("0,1", {}).mistaken);
}

TEST_CASE("GpusThatThisUserMayNotOpenAreNotSilentlyLeftOut") {
  const VisibleGpus visible = visible_gpus({}, {.version = "580.65.06", .forbidden = 2});
  CHECK(visible.count == 0);
  CHECK_THROWS_WITH(decide_device(DeviceKind::kAuto, {.visible = visible}),
                    Catch::Contains("2 GPUs here") && Catch::Contains("/dev/nvidia"));
}

TEST_CASE("UnderWslTheMaskSaysHowManyGpusThereAre") {
  const GpuDriver driver{.devices = {{}}, .wsl = true};
  CHECK(visible_gpus({}, driver).count == 1);
  CHECK(with_mask("1", driver).count == 1);
  CHECK(with_mask("0,1", driver).count == 2);
  CHECK(with_mask("-1", driver).count == 0);
}

TEST_CASE("ARankTakesTheOnlyGpuOrTheOneOfItsLocalRank") {
  CHECK(choose_device(1, local(0, 4)) == 0);
  CHECK(choose_device(1, local(3, 4)) ==
        0);  // --gpus-per-task: each task sees one, always device 0
  CHECK(choose_device(4, local(0, 4)) == 0);
  CHECK(choose_device(4, local(3, 4)) == 3);
  CHECK_THROWS_AS(choose_device(2, local(2, 4)), UserError);
  CHECK_THROWS_AS(choose_device(0, local(0, 1)), UserError);
  CHECK_THROWS_WITH(choose_device(2, local(3, 4)),
                    Catch::Contains("local rank 3 of 4") && Catch::Contains("2 visible"));
}

TEST_CASE("TheDeviceFollowsFromWishGpusDriverAndLibrary") {
  enum End { kCpu, kCuda, kExit4 };
  struct Row {
    DeviceKind wanted;
    int64_t gpus;
    const char* driver;
    bool library;
    End end;
  };
  const DeviceKind automatic = DeviceKind::kAuto, cpu = DeviceKind::kCpu, cuda = DeviceKind::kCuda;
  const std::vector<Row> table{{automatic, 0, "", true, kCpu},
                               {automatic, 0, "", false, kCpu},
                               {automatic, 0, "550.54.15", true, kCpu},
                               {automatic, 2, "580.65.06", true, kCuda},
                               {automatic, 2, "", true, kCuda},  // WSL
                               {automatic, 2, "580.65.06", false, kExit4},
                               {automatic, 2, "550.54.15", true, kExit4},
                               {automatic, 2, "550.54.15", false, kExit4},
                               {cuda, 0, "", true, kExit4},
                               {cuda, 0, "580.65.06", false, kExit4},
                               {cuda, 1, "580.65.06", true, kCuda},
                               {cuda, 1, "580.65.06", false, kExit4},
                               {cuda, 1, "575.57.08", true, kExit4},
                               {cpu, 0, "", false, kCpu},
                               {cpu, 2, "580.65.06", false, kCpu},
                               {cpu, 2, "550.54.15", true, kCpu},
                               {cpu, 2, "580.65.06", true, kCpu}};
  for (const Row& row : table) {
    INFO(static_cast<int>(row.wanted) << " " << row.gpus << " " << row.driver << row.library);
    GpuOutlook outlook = outlook_of(row.gpus);
    outlook.driver = row.driver;
    outlook.cuda_library = row.library;
    if (row.end != kExit4) {
      CHECK(decide_device(row.wanted, outlook) == (row.end == kCuda ? cuda : cpu));
      continue;
    }
    try {
      decide_device(row.wanted, outlook);
      FAIL("not refused");
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::kEnvironment);
      CHECK_THAT(e.what(), Catch::Contains("--device cpu"));
    }
  }
}

TEST_CASE("ARefusalNamesTheNumberOfGpusAndWhatToDo") {
  GpuOutlook outlook = outlook_of(2);
  outlook.cuda_library = false;
  CHECK_THROWS_WITH(decide_device(DeviceKind::kAuto, outlook),
                    Catch::Contains("2 GPUs are visible") && Catch::Contains("GANTRAIN_CUDA=ON"));
  outlook = outlook_of(1);
  outlook.driver = "550.54.15";
  CHECK_THROWS_WITH(decide_device(DeviceKind::kAuto, outlook),
                    Catch::Contains("driver 550.54.15") && Catch::Contains("12.4") &&
                        Catch::Contains("13.0") && Catch::Contains("580.65") &&
                        Catch::Contains("cuda-compat-13-0"));
}

TEST_CASE("ARefusalNamesTheWayToACudaLibraryOfThisInstallation") {
  GpuOutlook outlook = outlook_of(1);
  outlook.cuda_library = false;
  outlook.way_out = "install another wheel";
  CHECK_THROWS_WITH(decide_device(DeviceKind::kAuto, outlook),
                    Catch::Contains("install another wheel") && !Catch::Contains("scripts"));
}

TEST_CASE("TheCompatibilityPackageIsFoundInItsUsualPlaces") {
  const fs::path stub = fs::path(build_folder()) / "test/driver/libcuda.so.1";
  for (const char* place :
       {"cuda/compat", "cuda/compat/lib", "cuda-13.0/compat", "cuda-13.2/compat"}) {
    CAPTURE(place);
    const TemporaryFolder local;
    CHECK(compatibility_folder({}, local.path()).empty());
    fs::create_directories(local / place);
    fs::copy_file(stub, local / place / "libcuda.so.1");
    CHECK(compatibility_folder({}, local.path()) == local / place);
    // One that is older than what is needed will not do.
    setenv("GANTRAIN_STUB_CUDA", "12080", /*overwrite=*/1);
    CHECK(compatibility_folder({}, local.path()).empty());
    unsetenv("GANTRAIN_STUB_CUDA");
  }
  const TemporaryFolder conda;
  fs::create_directories(conda / "cuda-compat");
  fs::copy_file(stub, conda / "cuda-compat/libcuda.so.1");
  CHECK(compatibility_folder({{"CONDA_PREFIX", conda.path()}}, "/does/not/exist") ==
        conda / "cuda-compat");
}

TEST_CASE("AProcessorWithoutAvx2IsNamedAndNoOther") {
  CHECK(slow_cpu_text(true).empty());
  CHECK_THAT(slow_cpu_text(false), Catch::Contains("AVX2") && Catch::Contains("slower"));
}

TEST_CASE("AnOldDriverWithTheForwardCompatibilityPackageWillDo") {
  GpuOutlook outlook = outlook_of(1);
  outlook.driver = "550.54.15";
  outlook.compatibility = {12, 9};
  CHECK_THROWS_AS(decide_device(DeviceKind::kAuto, outlook), UserError);
  outlook.compatibility = {13, 0};
  CHECK(decide_device(DeviceKind::kAuto, outlook) == DeviceKind::kCuda);
}

TEST_CASE("MoreRanksThanGpusAreRefusedBeforeTheyStart") {
  const VisibleGpus two{.count = 2};
  CHECK_NOTHROW(check_ranks_have_gpus(launcher_of(2), two));
  CHECK_THROWS_WITH(
      check_ranks_have_gpus(launcher_of(3), two),
      Catch::Contains("3 ranks") && Catch::Contains("2 visible") && Catch::Contains("--nproc 2"));
  CHECK_NOTHROW(check_ranks_have_gpus(worker_of(1, 4), two));
  CHECK_NOTHROW(check_ranks_have_gpus(worker_of(3, 4), {.count = 1}));
  CHECK_THROWS_WITH(check_ranks_have_gpus(worker_of(2, 4), two),
                    Catch::Contains("local rank 2 of 4") && Catch::Contains("2 visible"));
}

TEST_CASE("ThreadsAreTheFlagThenTheUsersVariableThenAShareOfTheCores") {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  const int64_t cores = CPU_COUNT(&set);
  LaunchOptions o;
  CHECK(threads_per_rank(o, {}, 1) == cores);
  CHECK(threads_per_rank(o, {}, 1000) == 1);
  CHECK(threads_per_rank(o, {{"OMP_NUM_THREADS", "7"}}, 1) == 7);
  CHECK(threads_per_rank(o, {{"OMP_NUM_THREADS", "3,2"}}, 1) == 3);
  CHECK(threads_per_rank(o, {{"OMP_NUM_THREADS", "lots"}}, 1) == cores);
  o.threads = 5;
  CHECK(threads_per_rank(o, {{"OMP_NUM_THREADS", "7"}}, 2) == 5);
}

TEST_CASE("IdleThreadsSpinShortlyUnlessTheUserSaysHowTheyWait") {
  const IdleThreads ours = idle_threads({{"OMP_NUM_THREADS", "2"}}, 2);
  CHECK(ours.variables.at("OMP_WAIT_POLICY") == "active");
  CHECK(ours.variables.at("GOMP_SPINCOUNT") == "8000");
  CHECK(ours.variables.contains("GANTRAIN_WATCH_THREADS"));
  CHECK_THAT(ours.text, Catch::Contains("at once while other programs compute"));
  CHECK(idle_threads({{"OMP_WAIT_POLICY", ""}}, 2).variables == ours.variables);
  for (const auto& [name, value] : Env{{"OMP_WAIT_POLICY", "active"}, {"GOMP_SPINCOUNT", "5"}}) {
    const IdleThreads theirs = idle_threads({{name, value}}, 2);
    CHECK(theirs.variables.empty());
    CHECK_THAT(theirs.text, Catch::Contains(name + "=" + value));
  }
}

TEST_CASE("OnManyCoresIdleThreadsSpinSoShortlyThatNobodyNeedsToWatch") {
  const IdleThreads ours = idle_threads({}, 128);
  CHECK(ours.variables == Env{{"OMP_WAIT_POLICY", "active"}, {"GOMP_SPINCOUNT", "1000"}});
}

}  // namespace gantrain
