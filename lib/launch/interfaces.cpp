// SPDX-License-Identifier: Apache-2.0
#include "launch/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>

#include "util/text.h"

namespace gantrain {

namespace {

// The text of an IPv4 or IPv6 address; "" for others and for those that hold on one link alone.
std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&six)) inet_ntop(AF_INET6, &six, text, sizeof text);
  }
  return text;
}

bool named_by(const std::string& name, const std::vector<std::string>& list, bool whole) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& entry) {
    return whole ? name == entry : starts_with(name, entry);
  });
}

// NCCL's rules for one setting that is not empty.
std::vector<std::string> matching(const std::vector<Interface>& all, std::string setting) {
  const bool without = starts_with(setting, "^");
  if (without) setting.erase(0, 1);
  const bool whole = starts_with(setting, "=");
  if (whole) setting.erase(0, 1);
  std::vector<std::string> found;
  for (const Interface& interface : all) {
    if (interface.addresses.empty()) continue;
    if (named_by(interface.name, split(setting, ','), whole) != without)
      found.push_back(interface.name);
  }
  return found;
}

}  // namespace

std::vector<Interface> network_interfaces() {
  std::vector<Interface> all;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return all;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    auto at = std::find_if(
        all.begin(), all.end(), [&](const Interface& one) { return one.name == entry->ifa_name; });
    if (at == all.end()) at = all.insert(all.end(), {entry->ifa_name, {}, false});
    at->up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    const std::string text = address_text(entry->ifa_addr);
    if (!text.empty()) at->addresses.push_back(text);
  }
  freeifaddrs(first);
  return all;
}

std::vector<std::string> nccl_interfaces(const std::vector<Interface>& all,
                                         const std::string& setting) {
  if (!setting.empty()) return matching(all, setting);
  for (const char* preferred : {"ib", "^docker,lo,virbr", "docker,virbr", "lo"}) {
    const std::vector<std::string> found = matching(all, preferred);
    if (!found.empty()) return found;
  }
  return {};
}

std::vector<std::string> infiniband_devices(const std::filesystem::path& sys) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(sys / "class/infiniband", none))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace gantrain
