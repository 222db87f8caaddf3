// SPDX-License-Identifier: Apache-2.0
#include "launch/where/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "launch/local/processes.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

void UniqueFd::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void need_descriptors(int64_t count, const std::string& what) {
  const auto wanted = static_cast<rlim_t>(count);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  if (limit.rlim_max < wanted) {
    fail(Exit::kEnvironment,
         "{} may have to open {} files at a time, and {} are allowed: raise the hard limit (ulimit "
         "-Hn, LimitNOFILE of the service, --ulimit nofile of the container)",
         what,
         count,
         limit.rlim_max);
  }
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(Exit::kEnvironment, "cannot make a pipe: {}", errno_text());
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

bool read_from(int fd, std::string& text, size_t most) {
  char buffer[64 * 1024];
  for (size_t taken = 0; taken < most;) {
    const ssize_t size = ::read(fd, buffer, sizeof buffer);
    if (size > 0) {
      text.append(buffer, static_cast<size_t>(size));
      taken += static_cast<size_t>(size);
    } else if (size == 0 || errno != EINTR) {
      return size < 0 && errno == EAGAIN;
    }
  }
  return true;
}

void poll_until(std::vector<pollfd>& polled, double until) {
  // Rounded up: a poll() that returns early would be called again and again.
  const double left = std::ceil(std::max(until - monotonic_seconds(), 0.0) * 1e3);
  ::poll(polled.data(), polled.size(), std::isinf(left) ? -1 : static_cast<int>(left));
}

bool wait_for(int fd, short events, double until) {
  std::vector<pollfd> polled{{fd, events, 0}};
  do {
    poll_until(polled, until);
  } while (polled[0].revents == 0 && monotonic_seconds() < until);
  return polled[0].revents != 0;
}

namespace {

// Inodes of the sockets that listen on the port, from /proc/net/tcp and tcp6.
std::set<std::string> listening_inodes(int64_t port) {
  std::set<std::string> inodes;
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
          timeout >> inode;
      if (state == "0A" && ends_with(local, wanted)) inodes.insert("socket:[" + inode + "]");
    }
  }
  return inodes;
}

bool holds_one_of(const std::string& pid, const std::set<std::string>& sockets) {
  std::error_code error;
  for (fs::directory_iterator entry("/proc/" + pid + "/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unreadable;
    if (sockets.count(fs::read_symlink(entry->path(), unreadable).string()) != 0) return true;
  }
  return false;
}

std::string command_of(const std::string& pid) {
  std::string command = proc_file(pid, "cmdline");
  std::ranges::replace(command, '\0', ' ');
  std::ranges::replace(command, '\n', ' ');
  command = trim(command);
  return command.size() > 80 ? command.substr(0, 77) + "..." : command;
}

// Binds, and listens too if so; false with errno if not.
bool bind_to(int socket, const addrinfo& to, bool listens) {
  const int yes = 1;
  const int no = 0;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (to.ai_family == AF_INET6) setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  return bind(socket, to.ai_addr, to.ai_addrlen) == 0 && (!listens || listen(socket, 1024) == 0);
}

int64_t port_of_socket(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// The addresses of a host and port, without any if it has none; then `problem` says why.
Addresses addresses_of(const std::string& host, const char* port, std::string& problem) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unresolved = ::getaddrinfo(host.c_str(), port, &hints, &found);
  if (unresolved == 0) return Addresses(found);
  problem = fmt::format("host {}: {}", host, ::gai_strerror(unresolved));
  return nullptr;
}

bool resolves(const std::string& host) {
  std::string problem;
  return addresses_of(host, nullptr, problem) != nullptr;
}

// Connects to one address; 0 or an errno.
int connect_one(const addrinfo& to, double until, UniqueFd& connected) {
  UniqueFd fd(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  if (::connect(fd.get(), to.ai_addr, to.ai_addrlen) != 0 && errno != EINPROGRESS) return errno;
  if (!wait_for(fd.get(), POLLOUT, until)) return ETIMEDOUT;
  int problem = 0;
  socklen_t size = sizeof problem;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
  if (problem == 0) connected = std::move(fd);
  return problem;
}

// A port of this machine above 32767 that nobody listens on may by chance be the one that the
// kernel connects from, and then the socket is connected with itself.
bool is_connected_to_itself(int fd) {
  sockaddr_storage own{};
  sockaddr_storage other{};
  socklen_t size = sizeof own;
  socklen_t other_size = sizeof other;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&other), &other_size) == 0 &&
         size == other_size && std::memcmp(&own, &other, size) == 0;
}

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
  return std::ranges::any_of(list, [&](const std::string& entry) {
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

std::string address_of_socket(int socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) return "";
  return address_text(reinterpret_cast<sockaddr*>(&own));
}

std::vector<std::string> addresses_to_bind(const std::string& host) {
  if (starts_with(host, "127.") || host == "::1") return {host};
  std::string problem;
  std::set<std::string> found;
  const Addresses all = addresses_of(host, nullptr, problem);
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next)
    found.insert(address_text(one->ai_addr));
  // ::1 comes first, as it does where ranks connect.
  if (host == "localhost" && !found.empty()) return {found.rbegin(), found.rend()};
  const std::string only = found.size() == 1 ? *found.begin() : "";
  const bool loopback = starts_with(only, "127.") || only == "::1";  // Debian's own host name
  for (const Interface& interface : network_interfaces()) {
    if (!loopback && contains(interface.addresses, only)) return {only};
  }
  info("nodes   listening on all addresses: {} is not exactly one address of this machine", host);
  return kAllAddresses;
}

Listener listen_on(int64_t port, const std::vector<std::string>& addresses, bool listens) {
  int problem = 0;
  for (const std::string& address : addresses) {
    std::string unknown;
    const Addresses to = addresses_of(address, std::to_string(port).c_str(), unknown);
    if (!to) continue;
    UniqueFd socket(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket && bind_to(socket.get(), *to, listens)) {
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
       addresses == kLoopback ? ", or none to have a free one chosen" : "");
}

UniqueFd accept_from(const Listener& listener) {
  const int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
  return UniqueFd(::accept4(listener.socket.get(), nullptr, nullptr, flags));
}

UniqueFd connect_to(const Endpoint& endpoint, double seconds, std::string& problem) {
  const double until = monotonic_seconds() + seconds;
  Addresses all = addresses_of(endpoint.host, std::to_string(endpoint.port).c_str(), problem);
  int failed = EHOSTUNREACH;
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    UniqueFd connected;
    const int code = connect_one(*one, until, connected);
    if (code == 0 && !is_connected_to_itself(connected.get())) return connected;
    failed = code == 0 ? ECONNREFUSED : code;
    problem = std::strerror(failed);
  }
  all.reset();
  errno = failed;
  return {};
}

std::string port_holder(int64_t port) {
  const std::set<std::string> sockets = listening_inodes(port);
  if (sockets.empty()) return "";
  for (const std::string& pid : all_processes()) {
    if (holds_one_of(pid, sockets)) return fmt::format("pid {} ({})", pid, command_of(pid));
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

std::vector<Interface> network_interfaces() {
  std::vector<Interface> all;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return all;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    auto at = std::ranges::find(all, std::string_view(entry->ifa_name), &Interface::name);
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
  for (const auto& entry : fs::directory_iterator(sys / "class/infiniband", none))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace gantrain
