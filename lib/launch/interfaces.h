// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gantrain {

// A network interface of this machine.
struct Interface {
  std::string name;                    // "eth0"
  std::vector<std::string> addresses;  // IPv4 and IPv6, without those of the link alone
  bool up = false;
};

std::vector<Interface> network_interfaces();

// The names of those over which NCCL makes connections, where `setting` is the value of
// NCCL_SOCKET_IFNAME: beginnings of names, separated by commas; "=" in front makes them whole
// names, "^" those to leave out. With "" NCCL takes what it prefers: InfiniBand's, then any but
// docker's, virtual bridges' and the loopback, then these.
std::vector<std::string> nccl_interfaces(const std::vector<Interface>& all,
                                         const std::string& setting);

// Names of InfiniBand and RoCE devices ("mlx5_0"), in order. `sys` is another folder in tests.
std::vector<std::string> infiniband_devices(const std::filesystem::path& sys = "/sys");

}  // namespace gantrain
