// SPDX-License-Identifier: Apache-2.0
#include "distributed/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>

#include "util/text.h"

namespace gantrain {

namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
  void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
};

std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
  return text.data();
}

bool is_loopback(const std::string& address) {
  return starts_with(address, "127.") || address == "::1" || starts_with(address, "::ffff:127.");
}

// The address that the kernel would send from to `to`. Connecting a datagram socket sends nothing.
std::string source_towards(const addrinfo& to) {
  const int fd = ::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  std::string text;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::connect(fd, to.ai_addr, to.ai_addrlen) == 0 &&
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0) {
    text = text_of(reinterpret_cast<sockaddr*>(&own));
  }
  ::close(fd);
  return text;
}

std::string first_address() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return "";
  const std::unique_ptr<ifaddrs, FreeAddresses> all(found);
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    return text_of(one->ifa_addr);
  }
  return "";
}

}  // namespace

std::string local_address(const Endpoint& master) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(master.port);
  if (::getaddrinfo(master.host.c_str(), port.c_str(), &hints, &found) != 0) return first_address();
  const std::unique_ptr<addrinfo, FreeAddresses> all(found);
  std::string loopback;
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    const std::string source = source_towards(*one);
    if (source.empty()) continue;
    if (!is_loopback(source)) return source;
    loopback = source;
  }
  if (is_loopback(master.host) || master.host == "localhost") return loopback;
  const std::string other = first_address();
  return other.empty() ? loopback : other;
}

}  // namespace gantrain
