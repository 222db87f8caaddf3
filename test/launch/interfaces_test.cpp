// SPDX-License-Identifier: Apache-2.0
#include "launch/fake_machine.h"
#include "launch/where/network.h"
#include "support/catch.h"

namespace gantrain {

namespace {

using Names = std::vector<std::string>;

const std::vector<Interface> kCluster{{"lo", {"127.0.0.1", "::1"}, true},
                                      {"eth0", {"10.0.0.5"}, true},
                                      {"eth1", {"10.1.0.5"}, true},
                                      {"eth10", {}, false},
                                      {"ib0", {"192.168.0.5"}, true},
                                      {"docker0", {"172.17.0.1"}, false},
                                      {"virbr0", {"192.168.122.1"}, false}};

std::vector<Interface> without(const Names& names) {
  std::vector<Interface> some;
  for (const Interface& one : kCluster) {
    if (std::find(names.begin(), names.end(), one.name) == names.end()) some.push_back(one);
  }
  return some;
}

}  // namespace

TEST_CASE("NcclTakesWhatItsVariableNames") {
  const std::vector<std::pair<std::string, Names>> table{
      {"eth", {"eth0", "eth1"}},
      {"=eth1", {"eth1"}},
      {"=eth", {}},
      {"eth1,ib", {"eth1", "ib0"}},
      {"^docker,lo,virbr", {"eth0", "eth1", "ib0"}},
      {"^=eth0,lo,docker0,virbr0", {"eth1", "ib0"}},
      {"wlan", {}}};
  for (const auto& [setting, names] : table) {
    INFO(setting);
    CHECK(nccl_interfaces(kCluster, setting) == names);
  }
}

TEST_CASE("NcclPrefersInfiniBandThenRealInterfacesThenTheRest") {
  CHECK(nccl_interfaces(kCluster, "") == Names{"ib0"});
  CHECK(nccl_interfaces(without({"ib0"}), "") == Names{"eth0", "eth1"});
  CHECK(nccl_interfaces(without({"ib0", "eth0", "eth1"}), "") == Names{"docker0", "virbr0"});
  CHECK(nccl_interfaces(without({"ib0", "eth0", "eth1", "docker0", "virbr0"}), "") == Names{"lo"});
  CHECK(nccl_interfaces({}, "").empty());
}

TEST_CASE("EveryInterfaceOfThisMachineIsListedOnce") {
  Names names;
  for (const Interface& one : network_interfaces()) {
    CHECK(std::find(names.begin(), names.end(), one.name) == names.end());
    names.push_back(one.name);
    for (const std::string& address : one.addresses)
      CHECK_THAT(address, Catch::Contains(".") || Catch::Contains(":"));
  }
  CHECK_FALSE(names.empty());
}

TEST_CASE("InfiniBandDevicesAreThoseOfSys") {
  const FakeMachine machine;
  CHECK(infiniband_devices(machine.roots().sys).empty());
  for (const char* name : {"mlx5_1", "mlx5_0"})
    machine.write(machine.roots().sys / "class/infiniband" / name / "node_type", "1: CA\n");
  CHECK(infiniband_devices(machine.roots().sys) == Names{"mlx5_0", "mlx5_1"});
}

}  // namespace gantrain
