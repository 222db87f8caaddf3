// SPDX-License-Identifier: Apache-2.0
// Curves sent to a tracker that this test plays, with every trouble that a server can make. The
// real servers are asked by scripts/trackers_test.sh.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "config/config.h"
#include "support/catch.h"
#include "support/process.h"
#include "support/reserved_port.h"
#include "support/temporary_folder.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

struct Asked {
  std::string method, path, head, body;
};

std::string answer_of(int status, const std::string& body, const std::string& fields = "") {
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

constexpr int kValues = 25;  // of a row, with the step

std::string row(int64_t step, double shift = 0) {
  Json json = Json::object();
  for (int i = 1; i < kValues; ++i)
    json[fmt::format("Loss/D/{}", i)] = {{"num", 1}, {"mean", step * 0.1 + i + shift}, {"std", 0}};
  json["AMP/bad"] = {{"num", 0}, {"mean", nullptr}, {"std", nullptr}, {"bad", 3}};
  json["Progress/kimg"] = {{"num", 1}, {"mean", static_cast<double>(step) / 1e3}, {"std", 0}};
  json["timestamp"] = 1795727699.25 + static_cast<double>(step);
  return json.dump() + "\n";
}

std::string rows(int64_t first, int64_t last, double shift = 0) {
  std::string text;
  for (int64_t step = first; step <= last; ++step) text += row(step, shift);
  return text;
}

fs::path make_run(const TemporaryFolder& folder, const std::string& text) {
  const fs::path run = folder / "run";
  fs::create_directory(run);
  write_file(run / "config.json",
             R"({"values":{"train.kimg":{"value":2},"run.resume":{"value":"auto"}}})");
  write_file(run / "STATUS", "done 2 kimg\n");
  write_file(run / "stats.jsonl", text);
  return run;
}

Outcome send(const fs::path& run,
             const std::string& url,
             const std::map<std::string, std::string>& environment = {}) {
  return gantrain({"track", run.string(), "--track", "mlflow=" + url, "--wait", "0s"},
                  {.environment = environment});
}

bool says(const Outcome& outcome, const std::string& text) {
  return outcome.err.find(text) != std::string::npos;
}

void check_each_once(const FakeMlflow& mlflow, int64_t steps) {
  CHECK(mlflow.points.size() == static_cast<size_t>(steps * kValues));
  size_t twice = 0;
  for (const auto& [point, values] : mlflow.points) twice += values.size() - 1;
  CHECK(twice == 0);
  CHECK(mlflow.runs.size() == 1);
}

TEST_CASE("AddressesWithSecretsAndOtherKindsAreRefusedAtTheStart") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& word) {
    const Outcome outcome = gantrain({"--preset", "dcgan-tiny", "--dry-run", "--track", word});
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find("tops3cret") == std::string::npos);
    return outcome.err;
  };
  for (const char* url :
       {"http://me:tops3cret@h", "https://h/?token=tops3cret", "http://h/#tops3cret"})
    CHECK(refused(std::string("mlflow=") + url).find("come from the environment") !=
          std::string::npos);
  CHECK(refused("mlfow=http://h").find("did you mean mlflow?") != std::string::npos);
  CHECK(refused("wandb").find("wandb sync") != std::string::npos);
  CHECK(refused("trackio").find("TRACKIO_SERVER_URL is not set") != std::string::npos);
  CHECK(refused("http://me:tops3cret@h").find("mlflow=URL or trackio=URL") != std::string::npos);
  for (const char* odd :
       {"mlflow=ftp://h", "mlflow=http://", "mlflow=http://h:0", "mlflow=http://h x"})
    CHECK(refused(odd).find("--track mlflow") != std::string::npos);
  const Outcome two = gantrain({"--preset",
                                "dcgan-tiny",
                                "--dry-run",
                                "--track",
                                "mlflow=http://a",
                                "--track",
                                "trackio=http://[::1]:7860/x"});
  CHECK(two.code == 0);
  CHECK(two.out.find("mlflow=http://a,trackio=http://[::1]:7860/x") != std::string::npos);
}

TEST_CASE("EachOfAThousandPointsIsThereOnceWhateverOfTenTimesIsKilled") {
  const TemporaryFolder folder;
  FakeMlflow mlflow;
  FakeServer server([&](const Asked& asked) { return mlflow.answer(asked); });
  const fs::path run = make_run(folder, rows(1, 1000));
  mlflow.kills = {2, 4, 7, 8, 11, 13, 16, 18, 21, 24};
  int codes = 0;
  for (int start = 0; start < 11; ++start) {
    mlflow.client = 0;
    Command command({"track", run.string(), "--track", "mlflow=" + server.url()});
    mlflow.client = command.pid();
    codes += command.wait().code == 128 + SIGKILL ? 1 : 0;
  }
  CHECK(codes == 10);
  CHECK(mlflow.killed == 10);
  check_each_once(mlflow, 1000);
  CHECK(mlflow.params["train.kimg"] == "2");
  CHECK(mlflow.status == "FINISHED");
  const Outcome again = send(run, server.url());
  CHECK(again.code == 0);
  check_each_once(mlflow, 1000);
}

TEST_CASE("RowsWhoseAnswerWasLostAreNotSentAgainWhereTheRunWentBackAndGrowsSlowly") {
  const TemporaryFolder folder;
  FakeMlflow mlflow;
  FakeServer server([&](const Asked& asked) { return mlflow.answer(asked); });
  const fs::path run = make_run(folder, rows(1, 72));
  mlflow.kills = {4};  // the second half has arrived
  Command command({"track", run.string(), "--track", "mlflow=" + server.url()});
  mlflow.client = command.pid();
  CHECK(command.wait().code == 128 + SIGKILL);
  REQUIRE(mlflow.points.count({"Loss/D/1", 72}) == 1);
  for (const int64_t last : {40, 41, 80}) {
    write_file(run / "stats.jsonl", rows(1, 30) + rows(31, last, 0.5));
    CHECK(send(run, server.url()).code == 0);
  }
  check_each_once(mlflow, 80);
}

TEST_CASE("EachTroubleOfAServerIsNamedAndTheRowsWait") {
  const TemporaryFolder folder;
  FakeMlflow mlflow;
  FakeServer server([&](const Asked& asked) { return mlflow.answer(asked); });
  const fs::path run = make_run(folder, rows(1, 3));
  const std::string json = R"({"error_code":"X","message":"no s3cr3t-token today"})";
  const std::vector<std::pair<std::string, std::string>> troubles = {
      {answer_of(401, json), "MLFLOW_TRACKING_TOKEN"},
      {answer_of(403, "<html>"), "refuses what is sent (403)"},
      {answer_of(404, "<html>"), "is no mlflow server: it answers 404"},
      {answer_of(200, "<html>sign in</html>"), "no JSON, such as a page"},
      {answer_of(200, "[1]"), "is no mlflow server: it answers 200"},
      {answer_of(302, "", "Location: https://login.example/?t=1\r\n"), "https://login.example/,"},
      {answer_of(429, "{}", "Retry-After: 7\r\n"), "asks to wait (429)"},
      {answer_of(503, "{}", "Retry-After: Fri, 27 Nov 2026 00:00:00 GMT\r\n"),
       "asks to wait (503)"},
      {answer_of(500, json), "fails (500: no *** today)"},
      {"", "closed the connection"},
      {"hello\r\n\r\n", "no HTTP"},
      {"HTTP/1.1 200 x\r\nContent-Length: 90\r\n\r\n{", "broke off"},
      {"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no HTTP"},
  };
  for (const auto& [text, told] : troubles) {
    for (const char* at : {"experiments/get-by-name", "runs/log-batch"}) {
      fs::remove(run / "track.json");
      const std::string raw = text;
      mlflow.trouble = [raw](const Asked&) { return raw; };
      mlflow.trouble_at = at;
      const Outcome outcome = send(run, server.url(), {{"MLFLOW_TRACKING_TOKEN", "s3cr3t-token"}});
      INFO(at << "\n" << told << "\n" << outcome.err);
      CHECK(outcome.code == 4);
      CHECK(says(outcome, told));
      CHECK(says(outcome, "the rest: "));
      CHECK_FALSE(says(outcome, "s3cr3t-token"));
    }
  }
  mlflow.trouble = nullptr;
  mlflow.runs.clear();
  fs::remove(run / "track.json");
  CHECK(send(run, server.url(), {{"MLFLOW_TRACKING_TOKEN", "s3cr3t-token"}}).code == 0);
  check_each_once(mlflow, 3);
  CHECK(mlflow.heads.find("Authorization: Bearer s3cr3t-token") != std::string::npos);
  for (const fs::directory_entry& file : fs::directory_iterator(run))
    CHECK(read_file(file.path()).find("s3cr3t-token") == std::string::npos);
}

TEST_CASE("AnAnswerMayComeInPiecesOrUntilTheEnd") {
  const TemporaryFolder folder;
  FakeMlflow mlflow;
  FakeServer server([&](const Asked& asked) {
    const std::string text = mlflow.answer(asked), body = text.substr(text.find("\r\n\r\n") + 4);
    if (asked.method == "GET") return "HTTP/1.0 200 OK\r\n\r\n" + body;
    return "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTRANSFER-encoding: Chunked\r\n\r\n" +
           fmt::format("1;x=y\r\n{}\r\n{:X}\r\n{}\r\n0\r\n\r\n",
                       body.substr(0, 1),
                       body.size() - 1,
                       body.substr(1));
  });
  CHECK(send(make_run(folder, rows(1, 3)), server.url()).code == 0);
  check_each_once(mlflow, 3);
}

TEST_CASE("ASilentServerOrNoneIsNotWaitedForLongerThanAskedFor") {
  const TemporaryFolder folder;
  const fs::path run = make_run(folder, rows(1, 3));
  const TakenPort silent;
  const Outcome outcome = gantrain({"track",
                                    run.string(),
                                    "--track",
                                    fmt::format("mlflow=http://127.0.0.1:{}", silent.port()),
                                    "--wait",
                                    "1s"});
  CHECK(outcome.code == 4);
  CHECK(says(outcome, "does not answer in time"));
  const Outcome away = send(run, "http://127.0.0.1:9");
  CHECK(away.code == 4);
  CHECK(says(away, "cannot be reached"));
}

TEST_CASE("ARunThatWentBackSendsNoStepTwice") {
  const TemporaryFolder folder;
  FakeMlflow mlflow;
  FakeServer server([&](const Asked& asked) { return mlflow.answer(asked); });
  const std::string whole = row(10);
  const fs::path run = make_run(folder, rows(1, 9) + whole.substr(0, 100));
  REQUIRE(send(run, server.url()).code == 0);
  check_each_once(mlflow, 9);  // half a row is none
  write_file(run / "stats.jsonl", rows(1, 10));
  REQUIRE(send(run, server.url()).code == 0);
  check_each_once(mlflow, 10);
  write_file(run / "stats.jsonl", rows(1, 6));  // as a resumed run begins
  REQUIRE(send(run, server.url()).code == 0);
  write_file(run / "stats.jsonl", rows(1, 6) + "{broken\n" + rows(7, 14, 0.5));
  REQUIRE(send(run, server.url()).code == 0);
  check_each_once(mlflow, 14);
  // Begun from nothing, because it was killed before its first save: the same run.
  write_file(run / "stats.jsonl", rows(1, 15, 0.25));
  REQUIRE(send(run, server.url()).code == 0);
  check_each_once(mlflow, 15);
  // Begun from nothing because that was asked for: another run.
  write_file(run / "config.json", R"({"values":{"run.resume":{"value":"none"}}})");
  write_file(run / "stats.jsonl", rows(1, 2, 0.75));
  REQUIRE(send(run, server.url()).code == 0);
  CHECK(mlflow.runs.size() == 2);
  CHECK(mlflow.points[{"Loss/D/1", 1}].size() == 2);
}

TEST_CASE("ARowThatTheServerRejectsIsLeftOutAlone") {
  const TemporaryFolder folder;
  FakeMlflow mlflow;
  mlflow.trouble_at = "runs/log-batch";
  FakeServer server([&](const Asked& asked) {
    const bool bad = asked.body.find("\"step\":5,") != std::string::npos ||
                     asked.body.find("\"step\":5}") != std::string::npos;
    return bad ? answer_of(400, R"({"error_code":"INVALID_PARAMETER_VALUE","message":"odd"})")
               : mlflow.answer(asked);
  });
  mlflow.trouble = nullptr;
  const Outcome outcome = send(make_run(folder, rows(1, 8)), server.url());
  CHECK(outcome.code == 0);
  CHECK(says(outcome, "rejects rows (400: odd); the row of 5 images in stats.jsonl is left out"));
  check_each_once(mlflow, 7);
}

TEST_CASE("ABrokenMemoryIsNotGuessed") {
  const TemporaryFolder folder;
  const fs::path run = make_run(folder, rows(1, 3));
  for (const char* text : {"{", "{}", R"({"servers":{"mlflow=http://127.0.0.1:9":{"id":7}}})"}) {
    write_file(run / "track.json", text);
    const Outcome outcome = send(run, "http://127.0.0.1:9");
    CHECK(outcome.code == 3);
    CHECK(says(outcome, "track.json"));
  }
}

// The means of a run's stats.jsonl that the server has, each once.
void check_all_there(const FakeMlflow& mlflow, const fs::path& run) {
  std::set<int64_t> sent, written;
  for (const auto& [point, values] : mlflow.points) {
    CHECK(values.size() == 1);
    sent.insert(point.second);
  }
  each_line(run / "stats.jsonl", kMostOfLines, [&](const std::string& line) {
    const double kimg = parse_foreign(line)["Progress/kimg"]["mean"];
    written.insert(std::llround(kimg * 1e3));
  });
  CHECK(sent == written);
  CHECK(mlflow.runs.size() == 1);
}

TEST_CASE("ATrainingIsTrackedByAProcessBesideItAndGoesOnWithoutAServer") {
  const TemporaryFolder folder;
  FakeMlflow mlflow;
  FakeServer server([&](const Asked& asked) { return mlflow.answer(asked); });
  const auto train = [&](const std::string& more) {
    return gantrain(tiny("--run-dir run --tick 0.016 --metrics none " + more),
                    {.folder = folder.path()});
  };
  const Outcome first = train("--kimg 0.064 --track mlflow=" + server.url());
  INFO(first.err);
  REQUIRE(first.code == 0);
  CHECK(first.left.empty());
  CHECK(mlflow.status == "FINISHED");
  CHECK(mlflow.points.count({"Loss/D/loss", 64}) == 1);
  CHECK(mlflow.params["run.track"] == "mlflow=" + server.url());
  const Outcome longer = train("--kimg 0.128 --track mlflow=" + server.url());
  CHECK(longer.code == 0);
  check_all_there(mlflow, folder / "run");
  const Outcome away =
      train("--kimg 0.192 --track mlflow=http://127.0.0.1:9 --set run.track_wait=1s");
  INFO(away.err);
  CHECK(away.code == 0);
  CHECK(says(away, "cannot be reached"));
  CHECK(says(away, "lacks rows; the rest: "));
}

// What `ps` shows of a process, with zeros between its words; "" where it is gone.
std::string words_of_process(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/cmdline", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string kTracked =
    "--run-dir run --tick 0.016 --metrics none --set run.track_wait=1s --track mlflow=";

TEST_CASE("WhateverAServerAnswersTrainingGoesOnAndNothingIsLost") {
  const std::vector<std::pair<std::string, std::string>> troubles = {
      {answer_of(401, R"({"message":"who is that?"})"), "refuses what is sent (401: who is that?)"},
      {answer_of(404, "<html>"), "is no mlflow server: it answers 404"},
      {answer_of(500, "{}"), "fails (500)"},
      {"HTTP/1.1 200 x\r\nContent-Length: 90\r\n\r\n{", "broke off in the middle"},
      {"", "is not found: "}};
  for (const auto& [text, told] : troubles) {
    INFO(told);
    const TemporaryFolder folder;
    FakeMlflow mlflow;
    FakeServer server([&](const Asked& asked) { return mlflow.answer(asked); });
    mlflow.trouble = [answer = text](const Asked&) { return answer; };
    // A name with a part of more than 63 letters, which no resolver asks for.
    const std::string url =
        text.empty() ? "http://" + std::string(64, 'a') + ".example" : server.url();
    const Outcome outcome =
        gantrain(tiny("--kimg 0.032 " + kTracked + url), {.folder = folder.path()});
    INFO(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(outcome.left.empty());
    CHECK(says(outcome, "track   mlflow=" + url + " " + told));
    CHECK(says(outcome, "done"));
    CHECK(says(outcome, "lacks rows; the rest: "));
    mlflow.trouble = nullptr;
    mlflow.runs.clear();
    mlflow.points.clear();
    CHECK(send(folder / "run", server.url()).code == 0);
    check_all_there(mlflow, folder / "run");
  }
}

// As torchrun, srun and mpirun start them: no launcher of ours is above the ranks.
TEST_CASE("UnderAnotherLauncherAProcessBesideRankZeroSendsWhileTheRunTrains") {
  const TemporaryFolder folder;
  FakeMlflow mlflow;
  FakeServer server([&](const Asked& asked) { return mlflow.answer(asked); });
  const ReservedPort port;
  std::vector<std::unique_ptr<Command>> ranks;
  for (const std::string rank : {"0", "1"}) {
    ranks.push_back(std::make_unique<Command>(
        tiny("--kimg 5000 " + kTracked + server.url()),
        CommandOptions{.environment = {{"RANK", rank},
                                       {"LOCAL_RANK", rank},
                                       {"WORLD_SIZE", "2"},
                                       {"LOCAL_WORLD_SIZE", "2"},
                                       {"MASTER_ADDR", "127.0.0.1"},
                                       {"MASTER_PORT", std::to_string(port.number())}},
                       .folder = folder.path()}));
  }
  CHECK(eventually([&] { return mlflow.count() > 0; }, 60));
  CHECK(ranks[1]->family().size() == 1);
  size_t senders = 0;
  for (const pid_t pid : ranks[0]->family()) {
    const std::string words = words_of_process(std::to_string(pid));
    senders += words.find(std::string("\0track\0", 7)) == std::string::npos ? 0 : 1;
  }
  CHECK(senders == 1);
  for (const auto& rank : ranks) rank->signal(SIGTERM);
  for (const auto& rank : ranks) {
    const Outcome outcome = rank->wait();
    INFO(outcome.err);
    CHECK(outcome.code == 75);
    CHECK(outcome.left.empty());
  }
  CHECK(mlflow.status == "KILLED");
  check_all_there(mlflow, folder / "run");
}

TEST_CASE("SecretsOfTheEnvironmentAreSentAndStandNowhereElse") {
  const std::string secret = "s3cr3t-", both = "czNjcjN0LW1lOnMzY3IzdC13b3Jk";  // base64
  const std::map<std::string, std::string> environment = {
      {"MLFLOW_TRACKING_USERNAME", "s3cr3t-me"},
      {"MLFLOW_TRACKING_PASSWORD", "s3cr3t-word"},
      {"MLFLOW_TRACKING_TOKEN", "s3cr3t-token"},
      {"TRACKIO_WRITE_TOKEN", "s3cr3t-trackio"},
      {"HF_TOKEN", "s3cr3t-account"}};
  const auto holds_secret = [&](const std::string& text) {
    return holds(text, secret) || holds(text, both);
  };
  const TemporaryFolder folder;
  FakeMlflow mlflow;
  FakeServer server([&](const Asked& asked) { return mlflow.answer(asked); });
  std::atomic<int> shown{0}, looks{0};
  // The server repeats what it was sent, and asks what `ps` would show meanwhile.
  mlflow.trouble = [&](const Asked& asked) {
    std::string all = asked.head;
    std::ranges::replace(all, '\r', ' ');
    std::ranges::replace(all, '\n', ' ');
    for (const fs::directory_entry& process : fs::directory_iterator("/proc"))
      shown += holds_secret(words_of_process(process.path().filename())) ? 1 : 0;
    ++looks;
    return answer_of(401, Json{{"message", all.substr(all.find("Authorization"))}}.dump());
  };
  mlflow.trouble_at = "runs/log-batch";
  FakeServer trackio([&](const Asked& asked) {
    return answer_of(
        302, "", "Location: http://x/" + asked.head.substr(asked.head.find("s3cr3t")) + "\r\n");
  });
  const std::string also = " --track trackio=" + trackio.url();
  const Outcome outcome = gantrain(tiny("--kimg 0.032 " + kTracked + server.url() + also),
                                   {.environment = environment, .folder = folder.path()});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(says(outcome, "refuses what is sent (401: Authorization: Basic ***"));
  CHECK(says(outcome, "sends on to http://x/***"));
  CHECK(looks > 0);
  CHECK(shown == 0);
  CHECK_FALSE(holds_secret(outcome.out + outcome.err));
  size_t files = 0;
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(folder.path())) {
    if (!file.is_regular_file()) continue;
    ++files;
    INFO(file.path());
    CHECK_FALSE(holds_secret(read_file(file.path())));
  }
  CHECK(files > 10);  // config.json, log.txt, report.html, track.json, ...
  mlflow.trouble = nullptr;
  CHECK(send(folder / "run", server.url(), environment).code == 0);
  CHECK(holds(mlflow.heads, "Authorization: Basic " + both));
  check_all_there(mlflow, folder / "run");
}

}  // namespace
}  // namespace gantrain
