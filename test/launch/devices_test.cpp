// SPDX-License-Identifier: Apache-2.0
#include "launch/devices.h"

#include <sched.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "util/error.h"

namespace gantrain {

namespace {

// A folder that looks like /dev of a machine with a driver and `gpus` cards.
class FakeDev {
 public:
  explicit FakeDev(int gpus, bool driver = true) {
    std::string name = (std::filesystem::temp_directory_path() / "gantrain-dev-XXXXXX").string();
    path_ = mkdtemp(name.data());
    if (driver) touch("nvidiactl");
    for (const char* other : {"nvidia-uvm", "nvidia-modeset", "null"}) touch(other);
    for (int i = 0; i < gpus; ++i) touch("nvidia" + std::to_string(i));
  }
  ~FakeDev() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  void touch(const std::string& name) const { std::ofstream(path_ / name).put('x'); }
  std::filesystem::path path_;
};

World launcher_of(int64_t ranks) {
  World world;
  world.ranks.local_world = world.ranks.world = ranks;
  return world;
}

RankInfo local(int64_t rank, int64_t world) { return {.local_rank = rank, .local_world = world}; }

}  // namespace

TEST_CASE("VisibleGpusAreTheDriversLessTheMask") {
  const FakeDev dev(4);
  CHECK(visible_gpus({}, dev.path()) == 4);
  const std::vector<std::pair<std::string, int64_t>> table{{"", 0},
                                                           {"-1", 0},
                                                           {"0", 1},
                                                           {"3,1", 2},
                                                           {"0,1,2,3", 4},
                                                           {"0,9,1", 1},
                                                           {"0,-1,1", 1},
                                                           {" 1 , 2 ", 2},
                                                           {"GPU-4711", 1},
                                                           {"GPU-a,GPU-b", 2},
                                                           {"MIG-GPU-a/1/0", 1},
                                                           {"NoDevFiles", 0},
                                                           {"1,1", 1}};
  for (const auto& [mask, count] : table) {
    INFO(mask);
    CHECK(visible_gpus({{"CUDA_VISIBLE_DEVICES", mask}}, dev.path()) == count);
  }
}

TEST_CASE("WithoutADriverNoGpuIsVisible") {
  const FakeDev dev(2, false);
  CHECK(visible_gpus({}, dev.path()) == 0);
  CHECK(visible_gpus({{"CUDA_VISIBLE_DEVICES", "0,1"}}, dev.path()) == 0);
  CHECK(visible_gpus({}, "/does/not/exist") == 0);
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

TEST_CASE("MoreRanksThanGpusAreRefusedBeforeTheyStart") {
  CHECK(resolve_device(DeviceKind::kAuto, launcher_of(8), 0) == DeviceKind::kCpu);
  CHECK(resolve_device(DeviceKind::kAuto, launcher_of(2), 2) == DeviceKind::kCuda);
  CHECK(resolve_device(DeviceKind::kCpu, launcher_of(8), 2) == DeviceKind::kCpu);
  CHECK_THROWS_AS(resolve_device(DeviceKind::kCuda, launcher_of(1), 0), UserError);
  CHECK_THROWS_WITH(resolve_device(DeviceKind::kCuda, launcher_of(3), 2),
                    Catch::Contains("3 ranks") && Catch::Contains("2 visible"));
  World worker = launcher_of(4);
  worker.role = World::Role::kWorker;
  CHECK(resolve_device(DeviceKind::kAuto, worker, 1) == DeviceKind::kCuda);
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

}  // namespace gantrain
