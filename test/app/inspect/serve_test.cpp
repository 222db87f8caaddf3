// SPDX-License-Identifier: Apache-2.0
// gantrain serve from outside: addresses, pages, tokens, requests that a run obeys.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>

#include "support/catch.h"
#include "support/made_run.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kToken = "0123456789abcdef";
const std::string kBearer = "Authorization: Bearer 0123456789abcdef\r\n";

int free_port() {
  const TakenPort listener;
  return listener.port();
}

// Sends a request as it is and returns the whole answer; "" where nobody listens.
std::string send_raw(int port, const std::string& request) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    (void)!::write(fd, request.data(), request.size());
    char bytes[4096];
    for (ssize_t got = 0; (got = ::read(fd, bytes, sizeof bytes)) > 0;)
      answer.append(bytes, static_cast<size_t>(got));
  }
  ::close(fd);
  return answer;
}

// Status, headers and body of a request that names this machine.
std::string ask(int port,
                const std::string& line,
                const std::string& headers = "",
                const std::string& body = "",
                const std::string& host = "127.0.0.1") {
  return send_raw(port,
                  line + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + headers +
                      "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}

int code(const std::string& answer) {
  return answer.size() < 12 ? 0 : static_cast<int>(parse_int(answer.substr(9, 3)).value_or(0));
}

// A server over `folder`/runs that answers already.
class Served {
 public:
  explicit Served(const TemporaryFolder& folder, const std::string& more = "")
      : port(free_port()),
        command(words_of("serve runs --port " + std::to_string(port) + " " + more),
                {.folder = folder.path()}) {
    REQUIRE(eventually([&] { return !ask(port, "GET /page.css").empty(); }, 60));
  }
  Outcome end() {
    command.signal(SIGINT);
    return command.wait();
  }

  int port;
  Command command;
};

}  // namespace

TEST_CASE("ServeShowsAllRunsAndEndsWithZeroAtCtrlC") {
  const TemporaryFolder folder;
  make_run(folder / "runs/a b");
  make_run(folder / "runs/group/c", {.status = "running", .ticks = 25});
  Served served(folder);
  const std::string list = ask(served.port, "GET /");
  CHECK(code(list) == 200);
  CHECK(contains(list, "Content-Security-Policy: default-src 'none'"));
  CHECK(contains(list, "<a href=\"/run/a%20b\">a b</a>"));
  CHECK(contains(list,
                 "<a href=\"/run/group/c\">group/c</a></td><td data-head=\"Status\">running</td>"
                 "<td data-head=\"kimg\">100 of 200<"));
  const std::string page = ask(served.port, "GET /run/group/c");
  CHECK(code(page) == 200);
  CHECK(contains(page, "<h3>Losses</h3>"));
  CHECK(contains(page, "&lt;script&gt;alert(1)"));
  CHECK_FALSE(contains(page, "<script>"));
  CHECK_FALSE(contains(page, "STOP"));  // without a token there are no buttons
  const std::string metrics = ask(served.port, "GET /metrics");
  CHECK(contains(metrics, "Content-Type: text/plain; version=0.0.4"));
  CHECK(contains(metrics, "\ngantrain_kimg{run=\"a b\"} 200\n"));
  CHECK(contains(metrics, "\ngantrain_images_per_second{run=\"group/c\"} 500\n"));
  CHECK(contains(ask(served.port, "GET /api/runs"), "\"run\":\"group/c\""));
  // What the page's script asks for: nothing while nothing changes.
  const size_t at = page.find("X-Stamp: ") + 9;
  const std::string stamp = page.substr(at, page.find('\r', at) - at);
  CHECK(code(ask(served.port, "GET /run/group/c?part=" + stamp)) == 204);
  write_file(folder / "runs/group/c/STATUS", "done 200 kimg\n");
  CHECK(eventually(
      [&] {
        return contains(ask(served.port, "GET /run/group/c?part=" + stamp), "<dd>done 200 kimg");
      },
      30));
  const Outcome outcome = served.end();
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "http://127.0.0.1:" + std::to_string(served.port) + "/\n");
}

TEST_CASE("ServeReadsNothingElseAndAnswersToNoOtherName") {
  const TemporaryFolder folder;
  make_run(folder / "runs/a");
  write_file(folder / "secret", "secret");
  Served served(folder);
  for (const std::string path : {"/run/../secret",
                                 "/run/a/../../secret",
                                 "/run/%2e%2e/secret",
                                 "/run/a/%2e%2e/%2e%2e/secret",
                                 "/run//etc/passwd",
                                 "/run/a/config.json",
                                 "/run/a%00",
                                 "/run/",
                                 "/nothing"}) {
    CAPTURE(path);
    CHECK(code(ask(served.port, "GET " + path)) == 404);
  }
  CHECK(code(ask(served.port, "GET /", "", "", "evil.org")) == 403);
  CHECK(code(ask(served.port, "GET /metrics", "", "", "127.0.0.1.evil.org:80")) == 403);
  CHECK(code(ask(served.port, "DELETE /run/a")) == 405);
  // Long paths, and what is no HTTP, end nothing.
  ask(served.port, "GET /" + std::string(8000, 'a'));
  ask(served.port, "POST /" + std::string(8000, 'a'));
  ask(served.port, "POST /" + std::string(100'000, 'a'));
  send_raw(served.port, "\r\n\r\n\xff\xff");
  CHECK(code(ask(served.port, "GET /")) == 200);
  CHECK(served.end().code == 0);
}

TEST_CASE("StopAndSaveAreAskedForWithTheTokenAlone") {
  const TemporaryFolder folder;
  make_run(folder / "runs/a", {.status = "running", .ticks = 25});
  make_run(folder / "runs/ended");
  write_file(folder / "token", std::string(kToken) + "\n");
  Served served(folder, "--token token");
  CHECK(contains(ask(served.port, "GET /run/a", kBearer), ">STOP</button>"));
  CHECK_FALSE(contains(ask(served.port, "GET /run/ended", kBearer), ">STOP</button>"));
  const std::string form = "Content-Type: application/x-www-form-urlencoded\r\n";
  // base64 of ":0123456789abcdef", which a browser would send by itself
  const std::string basic = "Authorization: Basic OjAxMjM0NTY3ODlhYmNkZWY=\r\n";
  const std::string stop = "POST /run/a/stop";
  CHECK(code(ask(served.port, stop)) == 403);
  CHECK(code(ask(served.port, stop, form, "token=0123456789abcdeF")) == 403);
  CHECK(code(ask(served.port, stop + "?token=" + kToken)) == 403);
  CHECK(code(ask(served.port, stop, basic)) == 403);
  CHECK(code(ask(served.port, "GET /run/a/stop", kBearer)) == 404);
  CHECK_FALSE(fs::exists(folder / "runs/a/STOP"));
  CHECK(code(ask(served.port, "POST /run/ended/stop", kBearer)) == 409);
  CHECK(code(ask(served.port, "POST /run/nobody/stop", kBearer)) == 404);
  CHECK(code(ask(served.port, "POST /run/a/remove", kBearer)) == 404);
  CHECK(code(ask(served.port, "POST /run/../x/stop", kBearer)) == 404);
  // A request that announces no body has none.
  const std::string bare = "Host: 127.0.0.1\r\nConnection: close\r\n" + kBearer + "\r\n";
  CHECK(code(send_raw(served.port, "POST /run/nobody/stop HTTP/1.1\r\n" + bare)) == 404);
  CHECK_FALSE(fs::exists(folder / "runs/a/STOP"));
  CHECK(code(send_raw(served.port, stop + " HTTP/1.1\r\n" + bare)) == 200);
  CHECK(fs::exists(folder / "runs/a/STOP"));
  const std::string answer = ask(served.port,
                                 "POST /run/a/save",
                                 form + "Accept: text/html\r\n",
                                 "token=" + std::string(kToken));
  CHECK(code(answer) == 303);
  CHECK(contains(answer, "Location: /run/a?asked"));
  CHECK(fs::exists(folder / "runs/a/SAVE"));
  CHECK_FALSE(fs::exists(folder / "runs/ended/STOP"));
  CHECK(served.end().code == 0);
}

TEST_CASE("WithATokenEverythingNeedsItOnEveryAddress") {
  const TemporaryFolder folder;
  make_run(folder / "runs/a");
  write_file(folder / "token", kToken);
  const std::string basic = "Authorization: Basic OjAxMjM0NTY3ODlhYmNkZWY=\r\n";
  for (const bool loopback : {true, false}) {
    CAPTURE(loopback);
    Served served(folder, loopback ? "--token token" : "--host 0.0.0.0 --token token");
    for (const std::string path : {"/", "/run/a", "/metrics", "/api/runs", "/page.js"}) {
      CAPTURE(path);
      CHECK(code(ask(served.port, "GET " + path)) == 401);
      CHECK(code(ask(served.port, "GET " + path, kBearer, "", "node7")) == (loopback ? 403 : 200));
      CHECK(code(ask(served.port, "GET " + path, basic)) == 200);
    }
    CHECK(served.end().code == 0);
  }
}

TEST_CASE("ATokenThatIsMadeLiesInAFileOfItsUserAlone") {
  const TemporaryFolder folder;
  make_run(folder / "runs/a");
  fs::create_directory(folder / "runtime");
  const int port = free_port();
  Command served(words_of("serve runs --token auto --port " + std::to_string(port)),
                 {.environment = {{"XDG_RUNTIME_DIR", (folder / "runtime").string()}},
                  .folder = folder.path()});
  REQUIRE(eventually([&] { return !ask(port, "GET /").empty(); }, 60));
  const fs::path file = fs::directory_iterator(folder / "runtime/gantrain")->path();
  CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(fs::status(file.parent_path()).permissions() == fs::perms::owner_all);
  const std::string token = trim(read_file(file));
  CHECK(code(ask(port, "GET /", "Authorization: Bearer " + token + "\r\n")) == 200);
  served.signal(SIGTERM);
  const Outcome outcome = served.wait();
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.out, "token in " + file.string() + "\n"));
  CHECK_FALSE(contains(outcome.out, token));
  CHECK_FALSE(fs::exists(file));
}

TEST_CASE("ARunStopsWhenServeIsAskedTo") {
  const TemporaryFolder folder;
  write_file(folder / "token", kToken);
  fs::create_directories(folder / "runs");
  Served served(folder, "--token token");
  CHECK(contains(ask(served.port, "GET /", kBearer), "There are no runs in"));
  Command run(tiny("--run-dir runs/a --kimg 500 --set train.tick=0.1"), {.folder = folder.path()});
  const auto list = [&] { return ask(served.port, "GET /", kBearer); };
  REQUIRE(eventually([&] { return contains(list(), "\"Status\">running</td>"); }, 100));
  REQUIRE(
      eventually([&] { return code(ask(served.port, "POST /run/a/stop", kBearer)) == 200; }, 100));
  CHECK(run.wait().code == 75);
  CHECK(eventually([&] { return contains(list(), "<summary>stopped</summary>"); }, 60));
  CHECK(served.end().code == 0);
}

TEST_CASE("WhatServeCannotServeIsRefused") {
  const TemporaryFolder folder;
  make_run(folder / "runs/a");
  write_file(folder / "file", "");
  const TakenPort taken;
  const std::vector<std::pair<std::string, int>> cases = {
      {"serve", 2},
      {"serve missing", 3},
      {"serve file", 3},
      {"serve runs --port 70000", 2},
      {"serve runs --host 0.0.0.0", 2},
      {"serve runs --host 192.0.2.1 --token auto", 4},  // TEST-NET: not this machine's
      {"serve runs --token missing", 3},
      {"serve runs --token file", 3},
      {"serve runs --port " + std::to_string(taken.port()), 4},
  };
  for (const auto& [arguments, wanted] : cases) {
    CAPTURE(arguments);
    const Outcome outcome = gantrain(words_of(arguments), {.folder = folder.path(), .seconds = 20});
    CHECK(outcome.code == wanted);
    CHECK(is_one_error_line(outcome.err));
  }
}

}  // namespace gantrain
