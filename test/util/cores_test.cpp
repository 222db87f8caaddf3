// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <algorithm>
#include <map>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/file.h"
#include "util/system.h"

namespace gantrain {

TEST_CASE("UsableCoresAreThoseOfTheAffinityMask") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  const int64_t in_mask = CPU_COUNT(&before);
  CHECK(usable_cores() == std::min(in_mask, cores_of_quota().value_or(in_mask)));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  CHECK(usable_cores() == 1);
  CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
}

// As /proc and /sys show a process with these control groups, whose folders have these files.
std::optional<int64_t> quota(const std::string& groups,
                             const std::map<std::string, std::string>& files) {
  const TemporaryFolder root;
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root / path).parent_path());
    write_file(root / path, text);
  };
  write("proc/self/cgroup", groups);
  for (const auto& [path, text] : files) write("sys/fs/cgroup/" + path, text);
  return cores_of_quota(root.path().string());
}

TEST_CASE("ALimitOfControlGroupsIsANumberOfCores") {
  CHECK(quota("0::/\n", {{"cpu.max", "400000 100000\n"}}) == 4);
  CHECK(quota("0::/\n", {{"cpu.max", "150000 100000\n"}}) == 2);
  CHECK(quota("0::/\n", {{"cpu.max", "max 100000\n"}}) == std::nullopt);
  CHECK(quota("0::/\n", {}) == std::nullopt);
  // Those that a group lies in limit it, too.
  CHECK(quota("0::/pods/one\n",
              {{"cpu.max", "max 100000\n"},
               {"pods/cpu.max", "300000 100000\n"},
               {"pods/one/cpu.max", "800000 100000\n"}}) == 3);
  // Of a container whose path is the host's.
  CHECK(quota("0::/docker/4f\n", {{"cpu.max", "200000 100000\n"}}) == 2);
  const std::string first = "5:memory:/a\n4:cpu,cpuacct:/a\n0::/\n";
  CHECK(quota(first,
              {{"cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n"},
               {"cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}}) == 1);
  CHECK(quota(first,
              {{"cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"},
               {"cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}}) == std::nullopt);
}

}  // namespace gantrain
