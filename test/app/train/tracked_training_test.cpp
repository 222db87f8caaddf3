// SPDX-License-Identifier: Apache-2.0
// Trainings that are tracked, under this launcher and under others, by a tracker that this test
// plays.
#include <cmath>
#include <fstream>
#include <memory>

#include "app/train/fake_mlflow.h"
#include "support/reserved_port.h"
#include "support/temporary_folder.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

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
      train("--kimg 0.192 --track mlflow=http://127.0.0.1:9 --set run.track_wait=0s");
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
    "--run-dir run --tick 0.016 --metrics none --set run.track_wait=0s --track mlflow=";

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
        tiny("--kimg 5000 " + kTracked + server.url() + " --set run.track_wait=1s"),
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
