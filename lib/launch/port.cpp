// SPDX-License-Identifier: Apache-2.0
#include "launch/port.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

namespace fs = std::filesystem;

// Inodes of the sockets that listen on the port, from /proc/net/tcp and tcp6.
std::set<std::string> listening_inodes(int64_t port) {
  std::set<std::string> inodes;
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
          timeout >> inode;
      if (state == "0A" && ends_with(local, wanted)) inodes.insert("socket:[" + inode + "]");
    }
  }
  return inodes;
}

bool holds_one_of(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code error;
  for (fs::directory_iterator entry(process / "fd", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unreadable;
    if (sockets.count(fs::read_symlink(entry->path(), unreadable).string()) != 0) return true;
  }
  return false;
}

std::string command_of(const fs::path& process) {
  std::ifstream file(process / "cmdline");
  std::string command((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (char& c : command) {
    if (c == '\0' || c == '\n') c = ' ';
  }
  command = trim(command);
  return command.size() > 80 ? command.substr(0, 77) + "..." : command;
}

// Binds and listens; false with errno if not.
bool bind_to(int socket, int64_t port, bool loopback_only, int family) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const auto number = htons(static_cast<uint16_t>(port));
  int bound = -1;
  if (family == AF_INET6) {
    const int no = 0;
    setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = number;
    bound = bind(socket, reinterpret_cast<const sockaddr*>(&any), sizeof any);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = number;
    address.sin_addr.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
    bound = bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  return bound == 0 && listen(socket, 1024) == 0;
}

int64_t port_of_socket(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

bool resolves(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

}  // namespace

Listener listen_on(int64_t port, bool loopback_only) {
  int problem = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    if (family == AF_INET6 && loopback_only) continue;
    UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket && bind_to(socket.get(), port, loopback_only, family)) {
      const int64_t actual = port_of_socket(socket.get());
      return {std::move(socket), actual};
    }
    problem = errno;
    if (problem == EADDRINUSE) break;  // not a lack of IPv6
  }
  errno = problem;
  if (problem != EADDRINUSE) {
    fail(Exit::kEnvironment, "cannot listen on port {}: {}", port, errno_text());
  }
  const std::string holder = port_holder(port);
  fail(Exit::kEnvironment,
       "port {} is in use{}: give another --master-port{}",
       port,
       holder.empty() ? "" : " by " + holder,
       loopback_only ? ", or none to have a free one chosen" : "");
}

std::string port_holder(int64_t port) {
  const std::set<std::string> sockets = listening_inodes(port);
  if (sockets.empty()) return "";
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string pid = entry->path().filename().string();
    if (!parse_int(pid) || !holds_one_of(entry->path(), sockets)) continue;
    return fmt::format("pid {} ({})", pid, command_of(entry->path()));
  }
  return "";
}

std::string reachable_master(const World& world) {
  if (world.master_fallback.empty() || resolves(world.master.host)) return world.master.host;
  if (!resolves(world.master_fallback)) return world.master.host;
  warn("host name {} does not resolve: rank 0 is looked for at {} (--master-addr sets it)",
       world.master.host,
       world.master_fallback);
  return world.master_fallback;
}

}  // namespace gantrain
