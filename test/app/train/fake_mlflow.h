// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "config/config.h"
#include "support/catch.h"
#include "support/process.h"
#include "util/text.h"

// A tracker that tests play, with every trouble that a server can make.

namespace gantrain {

struct Asked {
  std::string method, path, head, body;
};

inline std::string answer_of(int status, const std::string& body, const std::string& fields = "") {
  return fmt::format(
      "HTTP/1.1 {} x\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(), fields, body);
}

// Answers one request a connection, one after the other; "" closes without an answer.
class FakeServer {
 public:
  explicit FakeServer(std::function<std::string(const Asked&)> answer)
      : answer_(std::move(answer)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener_, 16) == 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

 private:
  void serve() {
    for (int socket = 0; (socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      if (const auto asked = read_request(socket)) {
        const std::string text = answer_(*asked);
        for (size_t done = 0; done < text.size();) {
          const ssize_t now = ::send(socket, text.data() + done, text.size() - done, MSG_NOSIGNAL);
          if (now <= 0) break;
          done += static_cast<size_t>(now);
        }
      }
      ::close(socket);
    }
  }

  static std::optional<Asked> read_request(int socket) {
    std::string text;
    size_t whole = std::string::npos;
    char piece[65536];
    while (text.size() < whole) {
      const ssize_t got = ::recv(socket, piece, sizeof piece, 0);
      if (got <= 0) return std::nullopt;
      text.append(piece, static_cast<size_t>(got));
      const size_t end = text.find("\r\n\r\n");
      if (end == std::string::npos || whole != std::string::npos) continue;
      const size_t length = text.find("Content-Length: ");
      whole = end + 4;
      if (length < end) whole += std::stoul(text.substr(length + 16));
    }
    const std::vector<std::string> words = split(text.substr(0, text.find("\r\n")), ' ');
    const size_t end = text.find("\r\n\r\n");
    return Asked{words[0], words[1], text.substr(0, end), text.substr(end + 4)};
  }

  std::function<std::string(const Asked&)> answer_;
  int listener_;
  int port_ = 0;
  std::thread thread_;
};

// An MLflow that, as one that keeps files, stores what comes as often as it comes.
class FakeMlflow {
 public:
  std::string answer(const Asked& asked) {
    const std::lock_guard lock(mutex_);
    heads += asked.head + "\n";
    const std::string what = asked.path.substr(asked.path.find("/mlflow/") + 8);
    if (trouble && starts_with(what, trouble_at)) return trouble(asked);
    const Json json = parse_foreign(asked.body);
    if (starts_with(what, "experiments/get-by-name"))
      return answer_of(200, R"({"experiment":{"experiment_id":"3","lifecycle_stage":"active"}})");
    if (what == "runs/search") return answer_of(200, found(json["filter"]).dump());
    if (what == "runs/create") return create(json);
    if (what == "runs/log-batch") return log_batch(json);
    if (starts_with(what, "metrics/get-history")) return answer_of(200, history(what).dump());
    if (what == "runs/update") status = json["status"];
    return answer_of(200, "{}");
  }

  // How many values have come.
  size_t count() {
    const std::lock_guard lock(mutex_);
    return points.size();
  }

  // The client is killed at each of these requests that change something, counted from 1: before
  // the request is obeyed where the number is odd, after that, but before the answer, where even.
  std::set<int> kills;
  std::atomic<pid_t> client{0};
  int changes = 0;
  int killed = 0;
  std::function<std::string(const Asked&)> trouble;
  std::string trouble_at;
  std::string heads, status;
  std::map<std::string, std::string> runs;                                // id -> gantrain.id
  std::map<std::pair<std::string, int64_t>, std::vector<double>> points;  // key, step
  std::map<std::string, std::string> params;

 private:
  // True where the client is to get no answer.
  bool kills_now(bool before) {
    if (before) ++changes;
    if (kills.count(changes) == 0 || (changes % 2 == 1) != before) return false;
    eventually([this] { return client != 0; }, 60);
    ::kill(client, SIGKILL);
    ++killed;
    return true;
  }

  std::string create(const Json& json) {
    if (kills_now(true)) return "";
    const std::string id = fmt::format("r{}", runs.size());
    runs[id] = json["tags"][0]["value"];
    if (kills_now(false)) return "";
    return answer_of(200, Json{{"run", {{"info", {{"run_id", id}}}}}}.dump());
  }

  Json found(const std::string& filter) const {
    Json all = Json::array();
    for (const auto& [id, tag] : runs) {
      if (filter.find(tag) != std::string::npos) all.push_back({{"info", {{"run_id", id}}}});
    }
    return {{"runs", all}};
  }

  std::string log_batch(const Json& json) {
    if (kills_now(true)) return "";
    if (json.contains("params")) {
      for (const Json& each : json["params"]) params[each["key"]] = each["value"];
    }
    if (json.contains("metrics")) {
      CHECK(json["metrics"].size() <= 1000);
      for (const Json& each : json["metrics"])
        points[{each["key"], each["step"]}].push_back(each["value"]);
    }
    if (kills_now(false)) return "";
    return answer_of(200, "{}");
  }

  // Two points a page.
  Json history(const std::string& what) const {
    std::string key = what.substr(what.find("metric_key=") + 11);
    const size_t amp = key.find('&');
    const size_t page = what.find("page_token=");
    const int64_t after = page == std::string::npos ? -1 : std::stoll(what.substr(page + 11));
    key = key.substr(0, amp);
    for (size_t at = 0; (at = key.find("%2F")) != std::string::npos;) key.replace(at, 3, "/");
    Json all = Json::array();
    Json answer = Json::object();
    for (const auto& [point, values] : points) {
      if (point.first != key || point.second <= after) continue;
      if (all.size() == 200) {
        answer["next_page_token"] = std::to_string(all.back()["step"].get<int64_t>());
        break;
      }
      all.push_back({{"key", key}, {"step", point.second}});
    }
    answer["metrics"] = all;
    return answer;
  }

  std::mutex mutex_;
};

// Sends what the server lacks of the run, and waits for no server.
inline Outcome send(const std::filesystem::path& run,
                    const std::string& url,
                    const std::map<std::string, std::string>& environment = {}) {
  return gantrain({"track", run.string(), "--track", "mlflow=" + url, "--wait", "0s"},
                  {.environment = environment});
}

inline bool says(const Outcome& outcome, const std::string& text) {
  return outcome.err.find(text) != std::string::npos;
}

}  // namespace gantrain
