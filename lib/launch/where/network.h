// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "launch/where/environment.h"

namespace gantrain {

// Owns a file descriptor and closes it when it is destroyed.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

// Sees to it that this process, and those that it starts, may have so many files open: where the
// limit is lower, it is raised to the most that may be had. Throws UserError(kEnvironment) where
// that is not enough, with both numbers and `what` needs them, as in "the launcher of 8 ranks".
void need_descriptors(int64_t count, const std::string& what);

// A pipe. Both ends are closed when the process executes another program.
struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
Pipe make_pipe();

// From now on no read from the descriptor waits.
void set_nonblocking(int fd);

// Appends what can be read: where reads wait, all of it; else what is there. It takes about `most`
// bytes at the most. Returns false at the end, or if the other side is gone.
bool read_from(int fd, std::string& text, size_t most);

// Waits until one of `polled` is ready or monotonic_seconds() is `until`; for ever if that is
// infinite.
void poll_until(std::vector<pollfd>& polled, double until);

// Waits until the descriptor is ready for `events`; false if the time is over before.
bool wait_for(int fd, short events, double until);

struct Listener {
  UniqueFd socket;  // It listens already, so that who connects early waits and is not refused.
  int64_t port = 0;
};

inline const std::vector<std::string> kLoopback = {"127.0.0.1"};
inline const std::vector<std::string> kAllAddresses = {"::", "0.0.0.0"};

// Where rank 0 and its launcher listen that others look for at that host: on loopback only where
// the host says so itself, else on the host's address if that is one of this machine. Else, and
// where the host has several, on all addresses, which the log says. listen_on() takes the first
// that works.
std::vector<std::string> addresses_to_bind(const std::string& host);

// Opens a socket that listens on the first of the addresses that this machine has. Port 0 lets the
// kernel choose. Throws UserError(kEnvironment) if the port is in use, with the pid and the command
// of the process that holds it if /proc shows them. With `listens` false the port is only kept: the
// kernel gives it to nobody else, and another process may listen on it that sets SO_REUSEADDR, as
// libuv and c10d do.
Listener listen_on(int64_t port, const std::vector<std::string>& addresses, bool listens = true);

// A connection that has come; an empty one if there is none. It never waits.
UniqueFd accept_from(const Listener& listener);

// Tries once to connect, for at most so many seconds. If that fails, it returns an empty one, and
// `problem` and errno say why.
UniqueFd connect_to(const Endpoint& endpoint, double seconds, std::string& problem);

// The address of this side of a connection, in numbers; "" if it has none.
std::string address_of_socket(int socket);

// Which process listens on the port: "pid 4711 (python3 train.py)", or "" if that is not known.
std::string port_holder(int64_t port);

// The host at which ranks look for rank 0: world.master.host, unless that does not resolve and
// world.master_fallback does.
std::string reachable_master(const World& world);

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
