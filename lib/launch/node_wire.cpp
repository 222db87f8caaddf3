// SPDX-License-Identifier: Apache-2.0
#include "launch/node_wire.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "util/error.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr size_t kMostUnread = 1 << 20;  // bytes without a newline: no launcher sends that

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// Waits until the descriptor is ready for `events`; false if the time is over before.
bool ready(int fd, short events, double end) {
  pollfd polled{fd, events, 0};
  while (true) {
    const double left = std::max(end - monotonic_seconds(), 0.0);
    const int count = ::poll(&polled, 1, static_cast<int>(left * 1e3));
    if (count > 0) return true;
    if (count == 0 || errno != EINTR) return false;
  }
}

// Connects to one address; 0 or an errno.
int connect_to(const addrinfo& to, double end, UniqueFd& connected) {
  UniqueFd fd(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  if (::connect(fd.get(), to.ai_addr, to.ai_addrlen) != 0 && errno != EINPROGRESS) return errno;
  if (!ready(fd.get(), POLLOUT, end)) return ETIMEDOUT;
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

}  // namespace

NodeWire::NodeWire(UniqueFd connected) : fd_(std::move(connected)) {
  set_nonblocking(fd_.get());
  const int yes = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void NodeWire::send(const NodeMessage& message) {
  if (!open()) return;
  unsent_ += encode(message);
  flush();
}

void NodeWire::flush() {
  while (open() && !unsent_.empty()) {
    const ssize_t size = ::send(fd_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (size < 0) {  // what the other side said last may still be read
      unsent_.clear();
      return;
    }
    unsent_.erase(0, static_cast<size_t>(size));
  }
}

void NodeWire::take_lines(std::vector<NodeMessage>& messages) {
  size_t begin = 0;
  for (size_t end = 0; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto message = decode(std::string_view(unread_).substr(begin, end - begin));
    if (!message) {
      fd_.close();
      return;
    }
    messages.push_back(*message);
  }
  unread_.erase(0, begin);
  const bool foreign = !unread_.empty() && unread_.front() != '{';  // a rank of another launcher
  if (foreign || unread_.size() > kMostUnread) fd_.close();
}

std::vector<NodeMessage> NodeWire::receive() {
  std::vector<NodeMessage> messages;
  flush();
  char buffer[4096];
  while (open()) {
    const ssize_t size = ::read(fd_.get(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (size <= 0) {
      fd_.close();
      break;
    }
    unread_.append(buffer, static_cast<size_t>(size));
    take_lines(messages);
  }
  return messages;
}

void NodeWire::finish(double seconds) {
  const double end = monotonic_seconds() + seconds;
  flush();
  while (open() && has_unsent() && ready(fd_.get(), POLLOUT, end)) flush();
  // With unread bytes left, close() would make the kernel drop what the other side has not read.
  if (open()) ::shutdown(fd_.get(), SHUT_WR);
  receive();
  fd_.close();
}

std::optional<NodeWire> accept_wire(const Listener& listener) {
  UniqueFd fd(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return std::nullopt;
  return NodeWire(std::move(fd));
}

std::optional<NodeWire> connect_wire(const Endpoint& master, double seconds, std::string& problem) {
  const double end = monotonic_seconds() + seconds;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(master.port);
  const int unresolved = ::getaddrinfo(master.host.c_str(), port.c_str(), &hints, &found);
  if (unresolved != 0) {
    problem = fmt::format("host {}: {}", master.host, ::gai_strerror(unresolved));
    return std::nullopt;
  }
  const std::unique_ptr<addrinfo, FreeAddresses> all(found);
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    UniqueFd connected;
    const int code = connect_to(*one, end, connected);
    if (code == 0 && !is_connected_to_itself(connected.get()))
      return NodeWire(std::move(connected));
    problem = std::strerror(code == 0 ? ECONNREFUSED : code);
  }
  return std::nullopt;
}

}  // namespace gantrain
