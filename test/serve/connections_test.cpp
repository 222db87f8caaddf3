// SPDX-License-Identifier: Apache-2.0
// Clients that are slow, large, many or odd, against the connections alone.
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "serve/server.h"
#include "support/catch.h"
#include "support/process.h"
#include "util/text.h"

namespace gantrain {
namespace {

using Answer = std::function<std::string(const std::string&)>;

// A socket of 127.0.0.1, or of all addresses of both kinds, that is bound and does not listen.
int bound_socket(bool v6) {
  const int fd = ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_storage address{};
  if (v6) {
    const int no = 0;
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    address.ss_family = AF_INET6;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  const socklen_t size = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 ? fd : -1;
}

// Answers in a thread of its own until its end.
class Serving {
 public:
  explicit Serving(Answer answer, const ConnectionLimits& limits = {}, bool v6 = false)
      : listening_(bound_socket(v6)), end_(::eventfd(0, EFD_CLOEXEC)) {
    REQUIRE(listening_ >= 0);
    ::listen(listening_, SOMAXCONN);  // else a client that comes before the thread is refused
    thread_ = std::thread([this, answer = std::move(answer), limits] {
      all_ended_ = answer_requests(listening_, end_, answer, limits);
    });
  }
  ~Serving() { ended(); }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  bool ended() {
    if (!thread_.joinable()) return all_ended_;
    ::eventfd_write(end_, 1);
    thread_.join();
    ::close(end_);
    ::close(listening_);
    return all_ended_;
  }
  uint16_t port() const {
    sockaddr_in6 address{};  // the port is where IPv4 has it
    socklen_t size = sizeof address;
    ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size);
    return address.sin6_port;
  }

 private:
  int listening_, end_;
  bool all_ended_ = false;
  std::thread thread_;
};

class Client {
 public:
  explicit Client(const Serving& server, bool v6 = false)
      : fd_(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval most{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = server.port();
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = server.port();
    six.sin6_addr = in6addr_loopback;
    const auto* address = v6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&v4);
    REQUIRE(::connect(fd_, address, v6 ? sizeof six : sizeof v4) == 0);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void say(const std::string& text) const {
    (void)!::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  void say_no_more() const { ::shutdown(fd_, SHUT_WR); }
  // What comes until the end, or the first so many bytes of it.
  std::string hear(size_t most = std::string::npos) const {
    std::string all;
    std::string part(65536, ' ');
    while (all.size() < most) {
      const ssize_t got = ::recv(fd_, part.data(), std::min(part.size(), most - all.size()), 0);
      if (got <= 0) break;
      all.append(part, 0, static_cast<size_t>(got));
    }
    return all;
  }
  // Whether there is an answer, or an end.
  bool has_heard() const {
    char byte = 0;
    return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno == ECONNRESET;
  }
  int status() const {
    const std::string answer = hear();
    return answer.size() < 12 ? 0 : static_cast<int>(parse_int(answer.substr(9, 3)).value_or(0));
  }

 private:
  int fd_;
};

const std::string kHead = "GET / HTTP/1.1\r\nHost: a\r\n";

std::string fine(const std::string&) { return "HTTP/1.1 200 OK\r\n\r\n"; }
auto descriptors() {
  return std::ranges::distance(std::filesystem::directory_iterator("/proc/self/fd"));
}
std::string echo(const std::string& request) { return request; }

}  // namespace

TEST_CASE("ARequestComesWholeWithTheFieldsThatPagesLookAt") {
  Serving server(echo);
  const Client client(server);
  const std::string request =
      "POST /a?b HTTP/1.1\r\nHOST:  x:1 \r\nCookie: c\r\nRange: bytes=0-,0-\r\nConnection: "
      "keep-alive\r\nAccept-Encoding: br, gzip\r\nContent-Length: 4\r\n\r\na\r\nb";
  for (const char byte : request) client.say({byte});
  CHECK(client.hear() ==
        "POST /a?b HTTP/1.1\r\nhost: x:1\r\naccept-encoding: gzip\r\ncontent-length: "
        "4\r\n\r\na\r\nb");
}

TEST_CASE("OneRequestAConnectionIsAnsweredWhateverFollowsIt") {
  std::atomic<int> asked = 0;
  Serving server([&asked](const std::string& request) {
    ++asked;
    return request;
  });
  const Client client(server);
  client.say(kHead + "\r\n" + kHead + "\r\n" + std::string(1 << 20, 'x'));
  CHECK(client.hear() == "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  CHECK(asked == 1);
}

TEST_CASE("WhatIsTooLargeOrCanBeReadInTwoWaysIsRefused") {
  std::atomic<int> asked = 0;
  Serving server([&asked](const std::string& request) {
    ++asked;
    return fine(request);
  });
  std::string many = kHead;
  for (int i = 0; i < 100; ++i) many += "a: b\r\n";
  const std::vector<std::pair<std::string, int>> cases = {
      {kHead + "Transfer-Encoding: chunked\r\n\r\n", 411},
      {kHead + "transfer-encoding:identity\r\nContent-Length: 1\r\n\r\n", 411},
      {kHead + "Content-Length: 4097\r\n\r\n", 413},
      {kHead + "Content-Length: 99999999999999999999999\r\n\r\n", 413},
      {"GET /" + std::string(5000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
      {kHead + "Expect: 100-continue\r\n\r\n", 417},
      {many + "\r\n", 431},
      {kHead + "a: " + std::string(20'000, 'b') + "\r\n\r\n", 431},
      {kHead + "a: " + std::string(20'000, 'b'), 431},  // without an end
      {kHead + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
      {kHead + "Content-Length: +1\r\n\r\n", 400},
      {kHead + "Content-Length: \r\n\r\n", 400},
      {kHead + "Host: b\r\n\r\n", 400},
      {kHead + "a: b\nContent-Length: 1\r\n\r\n", 400},
      {kHead + "a: b\r\n Content-Length: 1\r\n\r\n", 400},
      {kHead + "no field\r\n\r\n", 400},
      {kHead + std::string("a: \0\r\n\r\n", 8), 400},
  };
  for (const auto& [request, wanted] : cases) {
    CAPTURE(request.substr(0, 100));
    const Client client(server);
    client.say(request);
    CHECK(client.status() == wanted);
  }
  CHECK(asked == 0);
}

TEST_CASE("SlowClientsAreTimedFromTheirFirstMoment") {
  Serving server(fine, {.request_seconds = 0.3});
  for (const std::string& begun :
       {std::string("GET / HT"), kHead + "Content-Length: 5\r\n\r\nabc"}) {
    const auto is_told = [&] {  // unless it said this after the time already
      const Client client(server);
      client.say(begun);
      return client.status() == 408;
    };
    CHECK(eventually(is_told, 60));
  }
  const Client silent(server), drips(server);
  CHECK(silent.hear().empty());
  const auto is_over = [&] {
    drips.say("a");
    return drips.has_heard();
  };
  CHECK(eventually(is_over, 60));
}

TEST_CASE("IdleClientsMakeRoomForOthers") {
  Serving server(fine, {.connections = 20, .per_peer = 8});
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(std::make_unique<Client>(server));
    if (i % 2 == 0) idle.back()->say("GET / HT");
  }
  const Client client(server);
  client.say(kHead + "\r\n");
  CHECK(client.status() == 200);
  CHECK(idle.front()->hear().empty());
}

TEST_CASE("AFloodFromOneAddressTakesNothingFromAnother") {
  if (const int fd = bound_socket(true); fd >= 0) {
    ::close(fd);
  } else {
    WARN("skipped: no IPv6 here");
    return;
  }
  Serving server(fine, {.connections = 20, .per_peer = 4}, true);
  const Client first(server, true);
  std::vector<std::unique_ptr<Client>> flood;
  for (int i = 0; i < 40; ++i) flood.push_back(std::make_unique<Client>(server));
  first.say(kHead + "\r\n");
  CHECK(first.status() == 200);
}

TEST_CASE("AnswersThatNobodyReadsGo") {
  const std::string large(40 << 20, 'x');
  const auto answer = [&large](const std::string&) { return large; };
  SECTION("when others need the memory") {
    Serving server(answer, {.answer_bytes = 50 << 20, .idle_seconds = 600});
    const Client first(server), second(server);
    first.say(kHead + "\r\n");
    CHECK(first.hear(1) == "x");
    second.say(kHead + "\r\n");
    CHECK(second.hear().size() == large.size());
    CHECK(first.hear().size() < large.size() - 1);
  }
  SECTION("after a while") {
    const auto before = descriptors();
    Serving server(answer, {.idle_seconds = 0.2});
    const Client first(server);
    first.say(kHead + "\r\n");
    CHECK(first.hear(1) == "x");
    // The server's own three and the client's are left.
    CHECK(eventually([&] { return descriptors() == before + 4; }, 60));
    CHECK(first.hear().size() < large.size() - 1);
  }
}

TEST_CASE("AClientThatSaysNoMoreIsAnswered") {
  Serving server(fine);
  const Client whole(server), half(server);
  whole.say(kHead + "\r\n");
  whole.say_no_more();
  CHECK(whole.status() == 200);
  half.say(kHead);
  half.say_no_more();
  CHECK(half.hear().empty());
}

TEST_CASE("AnAnswerThatHangsHoldsNeitherOthersNorTheEnd") {
  struct Gate {
    std::mutex mutex;
    std::condition_variable opens;
    bool open = false;
  };
  const auto gate = std::make_shared<Gate>();
  Serving server([gate](const std::string& request) {
    std::unique_lock<std::mutex> lock(gate->mutex);
    if (starts_with(request, "POST")) gate->opens.wait(lock, [&] { return gate->open; });
    return fine(request);
  });
  const Client hangs(server), idle(server), other(server);
  hangs.say("POST / HTTP/1.1\r\n\r\n");
  other.say(kHead + "\r\n");
  CHECK(other.status() == 200);
  CHECK_FALSE(server.ended());
  CHECK(hangs.hear().empty());
  const std::lock_guard<std::mutex> lock(gate->mutex);
  gate->open = true;
  gate->opens.notify_all();
}

TEST_CASE("ClientsThatAreConnectedDoNotHoldTheEnd") {
  Serving server([](const std::string&) { return std::string(40 << 20, 'x'); });
  const Client idle(server), reads_nothing(server);
  reads_nothing.say(kHead + "\r\n");
  CHECK(reads_nothing.hear(1) == "x");
  CHECK(server.ended());
  CHECK(idle.hear().empty());
}

}  // namespace gantrain
