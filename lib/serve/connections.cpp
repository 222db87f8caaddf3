// SPDX-License-Identifier: Apache-2.0
// One thread holds all connections and never waits for one of them; threads that make answers see
// only requests that are whole, small and plain.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "serve/server.h"
#include "util/error.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr size_t kWorkers = 4;
constexpr double kFresh = 0.5;   // seconds in which a client that is at work has moved
constexpr double kLinger = 1;    // seconds in which a client may read why it was refused
constexpr double kPatience = 2;  // seconds for answers that are being made at the end
constexpr int kMostAcceptedAtOnce = 64;

std::string refusal(int status, const char* phrase, const std::string& reason) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
      "X-Content-Type-Options: nosniff\r\nContent-Length: {}\r\n\r\n{}\n",
      status,
      phrase,
      reason.size() + 1,
      reason);
}

struct RequestHead {
  std::string refused;  // the answer where it is none that is taken, else ""
  std::string text;     // the request's line and the fields that pages look at
  size_t body = 0;      // bytes
};

// `head` is all lines of a request before the empty one. Fields that no page needs stay outside:
// the HTTP library would answer a long Range with many copies of a page.
RequestHead read_request_head(const std::string& head, const ConnectionLimits& limits) {
  const auto refused = [](int status, const char* phrase, const char* reason) {
    return RequestHead{refusal(status, phrase, reason), "", 0};
  };
  const auto plain = [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F; };
  RequestHead out;
  size_t lines = 0;
  for (size_t at = 0, end = 0; at < head.size(); at = end + 2) {
    end = head.find("\r\n", at);
    const std::string line = head.substr(at, end - at);
    if (++lines > limits.head_lines)
      return refused(431, "Request Header Fields Too Large", "too many header fields");
    if (!std::ranges::all_of(line, plain))
      return refused(400, "Bad Request", "control characters in a request");
    if (lines == 1) {
      if (line.size() > limits.line_bytes) return refused(414, "URI Too Long", "a long address");
      out.text = line + "\r\n";
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon == 0 || line[0] == ' ')
      return refused(400, "Bad Request", "a header field without a name");
    const std::string name = lower(line.substr(0, colon));
    std::string value = trim(line.substr(colon + 1));
    if (name == "transfer-encoding")
      return refused(411, "Length Required", "bodies need a Content-Length");
    if (name == "expect") return refused(417, "Expectation Failed", "send the body at once");
    if (name == "content-length") {
      if (value.empty() || value.find_first_not_of("0123456789") != std::string::npos)
        return refused(400, "Bad Request", "Content-Length is a number of bytes");
      out.body = value.size() > 9 ? limits.body_bytes + 1 : std::stoul(value);
      if (out.body > limits.body_bytes)
        return refused(413, "Content Too Large", "no request needs so long a body");
    } else if (name == "accept-encoding") {  // the library's other one takes seconds of a processor
      value = value.find("gzip") == std::string::npos ? "identity" : "gzip";
    } else if (name != "host" && name != "authorization" && name != "accept" &&
               name != "content-type") {
      continue;
    }
    if (out.text.find("\r\n" + name + ":") != std::string::npos)
      return refused(400, "Bad Request", "a header field twice");
    out.text += name + ": " + value + "\r\n";
  }
  return out;
}

// Threads that make answers. What they share outlives them: one may hang in a file system that does
// not answer.
struct Workers {
  std::function<std::string(const std::string&)> answer;
  int made;  // eventfd: there are answers
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<uint64_t, std::string>> requests, answers;  // of which connection
  size_t alive = kWorkers;
  bool ended = false;

  void work() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      // Answers that nobody has taken yet would fill the memory.
      changed.wait(lock,
                   [this] { return ended || (!requests.empty() && answers.size() < kWorkers); });
      if (ended) break;
      const auto [connection, request] = std::move(requests.front());
      requests.pop_front();
      lock.unlock();
      std::string text = answer(request);
      lock.lock();
      answers.emplace_back(connection, std::move(text));
      ::eventfd_write(made, 1);
    }
    --alive;
    changed.notify_all();
  }

  void take(uint64_t connection, std::string request) {
    const std::lock_guard<std::mutex> lock(mutex);
    requests.emplace_back(connection, std::move(request));
    changed.notify_one();
  }

  // Whether all have ended in time.
  bool end() {
    std::unique_lock<std::mutex> lock(mutex);
    ended = true;
    changed.notify_all();
    return changed.wait_for(
        lock, std::chrono::duration<double>(kPatience), [this] { return alive == 0; });
  }
};

// kWaits: for a worker; kCloses: the answer was sent.
enum class Stage { kReads, kWaits, kSends, kCloses, kGone };

struct Connection {
  uint64_t number;
  int socket;
  std::string peer;
  double moved, deadline;  // monotonic seconds
  Stage stage = Stage::kReads;
  std::string bytes = "";  // what has come, or what is to be sent
  size_t done = 0;         // bytes that were searched for the head's end, or sent
  size_t whole = 0;        // bytes of the request once its head is known
  std::string head = "";   // as the pages see it
};

// Addresses that one user has many of count as one.
std::string peer_of(const sockaddr_storage& address) {
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  in_addr v4 = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  if (address.ss_family == AF_INET6) {
    if (!IN6_IS_ADDR_V4MAPPED(&v6)) return std::string(v6.s6_addr, v6.s6_addr + 8);
    std::memcpy(&v4, v6.s6_addr + 12, sizeof v4);
  }
  return (ntohl(v4.s_addr) >> 24) == 127 ? "loopback" : fmt::format("{:08x}", v4.s_addr);
}

class Connections {
 public:
  Connections(int listening, std::shared_ptr<Workers> workers, const ConnectionLimits& limits)
      : listening_(listening), workers_(std::move(workers)), limits_(limits) {
    // The pages need descriptors, too.
    limits_.connections = std::min<std::ptrdiff_t>(limits.connections, ::sysconf(_SC_OPEN_MAX) / 2);
  }
  ~Connections() {
    for (const Connection& one : all_) ::close(one.socket);
  }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  void run(int end) {
    std::vector<pollfd> polled;
    for (;;) {
      now_ = monotonic_seconds();
      polled = {{end, POLLIN, 0}, {workers_->made, POLLIN, 0}};
      polled.push_back({now_ < rests_until_ ? -1 : listening_, POLLIN, 0});
      double next = rests_until_ > now_ ? rests_until_ : now_ + 60;
      for (const Connection& one : all_) {
        const bool waits = one.stage == Stage::kWaits;
        const short events = one.stage == Stage::kSends ? POLLOUT : POLLIN;
        polled.push_back({waits ? -1 : one.socket, events, 0});
        if (!waits) next = std::min(next, one.deadline);
      }
      const int wait = static_cast<int>(std::max(0.0, next - now_) * 1000) + 1;
      if (::poll(polled.data(), polled.size(), wait) < 0 && errno != EINTR)
        fail(Exit::kEnvironment, "serve cannot wait for requests: {}", errno_text());
      now_ = monotonic_seconds();
      if (polled[0].revents != 0) return;
      size_t at = 3;
      for (Connection& one : all_) {
        if (polled[at++].revents != 0) one.stage == Stage::kSends ? send(one) : receive(one);
        if (one.stage != Stage::kWaits && now_ > one.deadline) expire(one);
      }
      sweep();
      if (polled[1].revents != 0) take_answers();
      if (polled[2].revents != 0) accept_all();
    }
  }

 private:
  void accept_all() {
    for (int i = 0; i < kMostAcceptedAtOnce; ++i) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      const int socket = ::accept4(
          listening_, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket < 0) {
        // Out of descriptors or memory: what is there goes on.
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) rests_until_ = now_ + 0.1;
        return;
      }
      const std::string peer = peer_of(address);
      if (has_room(peer)) {
        all_.push_back({++last_number_, socket, peer, now_, now_ + limits_.request_seconds});
        continue;
      }
      const std::string busy = refusal(503, "Service Unavailable", "too many connections");
      (void)!::send(socket, busy.data(), busy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      ::close(socket);
    }
  }

  // Whether one more connection of the peer may come, for which one that is slow may have to go.
  bool has_room(const std::string& peer) {
    const auto of_peer = [&](const Connection& one) { return one.peer == peer; };
    if (std::ranges::count_if(all_, of_peer) >= limits_.per_peer && !close_slowest(of_peer))
      return false;
    return std::ssize(all_) < limits_.connections ||
           close_slowest([](const Connection&) { return true; });
  }

  // Those who have had their answer and those who have not moved for a while go first, longest
  // first, then the others. Returns whether there was one.
  template <class Which>
  bool close_slowest(const Which& which) {
    const auto place = [this](const Connection& one) {
      const bool slow = one.stage == Stage::kCloses || now_ - one.moved > kFresh;
      return std::pair(!slow, one.moved);
    };
    Connection* slowest = nullptr;
    for (Connection& one : all_) {
      if (one.stage == Stage::kWaits || one.stage == Stage::kGone || !which(one)) continue;
      if (slowest == nullptr || place(one) < place(*slowest)) slowest = &one;
    }
    if (slowest == nullptr) return false;
    slowest->stage = Stage::kGone;
    sweep();
    return true;
  }

  void sweep() {
    std::erase_if(all_, [](const Connection& one) {
      if (one.stage == Stage::kGone) ::close(one.socket);
      return one.stage == Stage::kGone;
    });
  }

  void receive(Connection& one) {
    char bytes[16384];
    const ssize_t got = ::recv(one.socket, bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) one.stage = Stage::kGone;
    if (one.stage != Stage::kReads) return;
    one.bytes.append(bytes, static_cast<size_t>(got));
    if (one.whole == 0 && !has_head(one)) return;
    if (one.bytes.size() < one.whole) return;
    const size_t begin = one.done + 4;
    workers_->take(one.number, one.head + "\r\n" + one.bytes.substr(begin, one.whole - begin));
    one.stage = Stage::kWaits;
    one.bytes.clear();
  }

  // Whether the request's head is there and is taken.
  bool has_head(Connection& one) {
    const size_t end = one.bytes.find("\r\n\r\n", std::max<size_t>(one.done, 3) - 3);
    one.done = std::min(end, one.bytes.size());
    if (one.done > limits_.head_bytes) {
      answer(one, refusal(431, "Request Header Fields Too Large", "too long a header"));
      return false;
    }
    if (end == std::string::npos) return false;
    RequestHead head = read_request_head(one.bytes.substr(0, end + 2), limits_);
    if (!head.refused.empty()) {
      answer(one, std::move(head.refused));
      return false;
    }
    one.head = std::move(head.text);
    one.whole = end + 4 + head.body;
    return true;
  }

  void answer(Connection& one, std::string text) {
    one.bytes = std::move(text);
    one.done = 0;
    one.stage = Stage::kSends;
    one.moved = now_;
    one.deadline = now_ + limits_.idle_seconds;
    send(one);
  }

  void send(Connection& one) {
    const ssize_t sent =
        ::send(one.socket, one.bytes.data() + one.done, one.bytes.size() - one.done, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) one.stage = Stage::kGone;
      return;
    }
    one.done += static_cast<size_t>(sent);
    one.moved = now_;
    one.deadline = now_ + limits_.idle_seconds;
    if (one.done < one.bytes.size()) return;
    // Closed with unread bytes, a connection is reset, and the client may lose the answer.
    ::shutdown(one.socket, SHUT_WR);
    one.stage = Stage::kCloses;
    one.deadline = now_ + kLinger;
    one.bytes = std::string();
  }

  void expire(Connection& one) {
    if (one.stage == Stage::kReads && !one.bytes.empty()) {
      answer(one, refusal(408, "Request Timeout", "the request came too slowly"));
    } else {
      one.stage = Stage::kGone;
    }
  }

  void take_answers() {
    std::deque<std::pair<uint64_t, std::string>> answers;
    {
      const std::lock_guard<std::mutex> lock(workers_->mutex);
      eventfd_t count = 0;
      ::eventfd_read(workers_->made, &count);
      answers.swap(workers_->answers);
      workers_->changed.notify_all();
    }
    for (auto& each : answers) {
      const uint64_t number = each.first;
      const auto asker = std::ranges::find(all_, number, &Connection::number);
      answer(*asker, std::move(each.second));  // it was kept: it waits
      const auto unsent = [this] {
        size_t bytes = 0;
        for (const Connection& one : all_) bytes += one.bytes.size();
        return bytes;
      };
      const auto other = [&](const Connection& one) {
        return one.stage == Stage::kSends && one.number != number;
      };
      while (unsent() > limits_.answer_bytes && close_slowest(other)) continue;
    }
  }

  int listening_;
  std::shared_ptr<Workers> workers_;
  ConnectionLimits limits_;
  std::list<Connection> all_;
  double now_ = 0, rests_until_ = 0;  // monotonic seconds
  uint64_t last_number_ = 0;
};

}  // namespace

bool answer_requests(int listening,
                     int end,
                     std::function<std::string(const std::string&)> answer,
                     const ConnectionLimits& limits) {
  ::fcntl(listening, F_SETFL, ::fcntl(listening, F_GETFL) | O_NONBLOCK);
  ::listen(listening, SOMAXCONN);
  const int made = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made < 0) fail(Exit::kEnvironment, "serve has no descriptor left: {}", errno_text());
  const auto workers = std::make_shared<Workers>();
  workers->answer = std::move(answer);
  workers->made = made;
  for (size_t i = 0; i < kWorkers; ++i) std::thread([workers] { workers->work(); }).detach();
  Connections(listening, workers, limits).run(end);
  if (!workers->end()) return false;
  ::close(made);
  return true;
}

}  // namespace gantrain
