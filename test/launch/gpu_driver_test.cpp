// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <string>
#include <vector>

#include "launch/fake_machine.h"
#include "launch/where/devices.h"
#include "support/catch.h"

namespace gantrain {

namespace {

std::vector<int64_t> minors(const GpuDriver& driver) {
  std::vector<int64_t> all;
  for (const GpuDevice& device : driver.devices) all.push_back(device.minor);
  return all;
}

}  // namespace

TEST_CASE("TheDriversVersionIsReadFromEitherModulesTextOrFromSys") {
  const std::vector<std::pair<std::string, std::string>> table{
      {closed_module("550.54.15"), "550.54.15"},
      {open_module("580.65.06"), "580.65.06"},
      {closed_module("580.105"), "580.105"},
      {"NVRM version: something else\n", ""},
      {"", ""}};
  for (const auto& [text, version] : table) {
    INFO(text);
    const FakeMachine machine;
    machine.add_driver(text);
    CHECK(look_at_driver(machine.roots()).version == version);
    machine.write(machine.roots().sys / "module/nvidia/version", "535.129.03\n");
    CHECK(look_at_driver(machine.roots()).version == (version.empty() ? "535.129.03" : version));
  }
}

TEST_CASE("EachDriverBranchHasItsNewestCuda") {
  const std::vector<std::pair<std::string, CudaVersion>> table{{"", {0, 0}},
                                                               {"unknown", {0, 0}},
                                                               {"390.157", {0, 0}},
                                                               {"535.129.03", {12, 2}},
                                                               {"550.54.15", {12, 4}},
                                                               {"560.35.03", {12, 6}},
                                                               {"570.86.10", {12, 8}},
                                                               {"575.51.03", {12, 9}},
                                                               {"579.99", {12, 9}},
                                                               {"580.65.06", {13, 0}},
                                                               {"590.44.01", {13, 1}},
                                                               {"700.10", {13, 1}}};
  for (const auto& [driver, cuda] : table) {
    INFO(driver);
    CHECK(newest_cuda(driver) == cuda);
  }
}

TEST_CASE("DriversBeforeThatOfCuda13AreTooOld") {
  for (const char* old : {"535.129.03", "575.57.08", "580.64", "580.64.99"}) CHECK(is_too_old(old));
  for (const char* fine : {"580.65", "580.65.06", "580.100", "590.44.01", "1000.1", "", "unknown"})
    CHECK_FALSE(is_too_old(fine));
}

TEST_CASE("GpusAreTheDeviceFilesWhateverTheirNumbers") {
  const FakeMachine machine;
  CHECK(look_at_driver(machine.roots()).devices.empty());
  machine.add_driver(open_module("580.65.06"));
  CHECK(look_at_driver(machine.roots()).devices.empty());  // a container without a GPU
  for (const int minor : {10, 3, 5}) machine.add_gpu(minor);
  CHECK(minors(look_at_driver(machine.roots())) == std::vector<int64_t>{3, 5, 10});
}

TEST_CASE("DeviceFilesWithoutADriverAreNoGpus") {
  const FakeMachine machine;
  machine.add_gpu(0);
  CHECK(look_at_driver(machine.roots()).devices.empty());
  SystemRoots nowhere;
  nowhere.dev = nowhere.proc = nowhere.sys = nowhere.lib = "/does/not/exist";
  CHECK(look_at_driver(nowhere).devices.empty());
}

TEST_CASE("AGpuIsDescribedByTheDriversFilesAndByItsMigInstances") {
  const FakeMachine machine;
  machine.add_driver(closed_module("580.65.06"));
  machine.add_gpu(0, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6");
  machine.add_gpu(1, "GPU-" + std::string(32, '?'));
  machine.add_mig_instance(1, 1, 0);
  machine.add_mig_instance(1, 2, 0);
  machine.add_mig_instance(1, 2, 1);
  machine.add_mig_instance(7, 1, 0);  // of a GPU that this container has not been given
  const GpuDriver driver = look_at_driver(machine.roots());
  REQUIRE(driver.devices.size() == 2);
  CHECK(driver.devices[0] == GpuDevice{0,
                                       "NVIDIA H100 80GB HBM3",
                                       "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
                                       "0000:10:00.0",
                                       0});
  CHECK(driver.devices[1].uuid.empty());
  CHECK(driver.devices[1].bus == "0000:11:00.0");
  CHECK(driver.devices[1].mig_instances == 3);
}

TEST_CASE("AGpuWhoseFileThisUserMayNotOpenIsForbidden") {
  if (geteuid() != 0) {
    WARN("skipped: only root can play another user");
    return;
  }
  const FakeMachine machine;
  machine.add_driver(closed_module("580.65.06"));
  machine.add_gpu(0);
  machine.add_gpu(1);
  std::filesystem::permissions(machine.dev("nvidia1"), std::filesystem::perms::owner_all);
  for (std::filesystem::path at = machine.roots().dev; at.has_relative_path();
       at = at.parent_path()) {
    if (at.string().find("gantrain") == std::string::npos) break;
    std::filesystem::permissions(at, std::filesystem::perms::all);
  }
  std::filesystem::permissions(machine.dev("nvidia0"), std::filesystem::perms::all);
  REQUIRE(seteuid(65534) == 0);
  const GpuDriver driver = look_at_driver(machine.roots());
  REQUIRE(seteuid(0) == 0);
  CHECK(minors(driver) == std::vector<int64_t>{0});
  CHECK(driver.forbidden == 1);
}

TEST_CASE("UnderWslOneGpuIsSeenWhereWindowsHasNvidiasDriver") {
  // WSL itself, and containers there by Docker's NVIDIA runtime and by CDI.
  for (const char* library : {"wsl/lib/libcuda.so.1",
                              "x86_64-linux-gnu/libcuda.so.1",
                              "wsl/drivers/nvmdi.inf_amd64_1/libcuda.so.1.1"}) {
    INFO(library);
    const FakeMachine machine;
    machine.write(machine.dev("dxg"), "");
    machine.write(machine.roots().lib / "wsl/drivers/iigd.inf_amd64_2/libcuda.so.1.1", "");
    CHECK(look_at_driver(machine.roots()).devices.empty());  // another maker's GPU
    machine.write(machine.roots().lib / library, "");
    const GpuDriver driver = look_at_driver(machine.roots());
    CHECK(driver.wsl);
    CHECK(driver.devices.size() == 1);
  }
}

}  // namespace gantrain
