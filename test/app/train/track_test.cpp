// SPDX-License-Identifier: Apache-2.0
// `gantrain track`: curves sent to a tracker that this test plays and that answers badly. The real
// servers are asked by scripts/trackers_test.sh.
#include "app/train/fake_mlflow.h"
#include "support/temporary_folder.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

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

TEST_CASE("ValuesThatWereMeasuredAnotherWayAreLeftOutAndThatIsSaidOnce") {
  const TemporaryFolder folder;
  FakeMlflow mlflow;
  FakeServer server([&](const Asked& asked) { return mlflow.answer(asked); });
  const fs::path run = make_run(folder, rows(1, 3));
  std::string text;
  for (int kimg = 1; kimg <= 4; ++kimg) {
    const Json line = {{"kimg", kimg},
                       {"timestamp", 1795727699 + kimg},
                       {"recipe", {{"fakes", kimg < 3 ? 1000 : 50}}},
                       {"results", {{"swd", 10.0 + kimg}}}};
    text += line.dump() + "\n";
  }
  write_file(run / "metric-swd.jsonl", text);
  const Outcome outcome = send(run, server.url());
  CHECK(outcome.code == 0);
  const std::string words = "rows of metric-swd.jsonl that were measured another way";
  CHECK(says(outcome, words));
  CHECK(outcome.err.find(words) == outcome.err.rfind(words));
  for (const auto& [step, values] : std::map<int64_t, size_t>{{1000, 1}, {2000, 1}, {3000, 0}})
    CHECK(mlflow.points[{"Metrics/swd", step}].size() == values);
}

TEST_CASE("EarlierModelsThatAreMeasuredLaterAreSentToo") {
  const TemporaryFolder folder;
  FakeMlflow mlflow;
  FakeServer server([&](const Asked& asked) { return mlflow.answer(asked); });
  const fs::path run = make_run(folder, rows(1, 3));
  std::string text;
  for (const int kimg : {4, 1, 3, 4, 2}) {
    const Json line = {{"kimg", kimg}, {"timestamp", 1795727699}, {"results", {{"swd", 10.0}}}};
    text += line.dump() + "\n";
    write_file(run / "metric-swd.jsonl", text);
    REQUIRE(send(run, server.url()).code == 0);
  }
  for (int64_t kimg = 1; kimg <= 4; ++kimg)
    CHECK(mlflow.points[{"Metrics/swd", 1000 * kimg}].size() == 1);
}

TEST_CASE("AFolderThatIsNoRunIsNotTracked") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "photos");
  const Outcome outcome = send(folder / "photos", "http://127.0.0.1:9");
  CHECK(outcome.code == 3);
  CHECK(says(outcome, "no run folder"));
  CHECK(fs::is_empty(folder / "photos"));
}

TEST_CASE("ABrokenMemoryIsNotGuessed") {
  const TemporaryFolder folder;
  const fs::path run = make_run(folder, rows(1, 3));
  write_file(run / "track.json", "{");
  CHECK(says(gantrain({"track", run.string()}), "track.json: is broken"));
  for (const char* text : {"{", "{}", R"({"servers":{"mlflow=http://127.0.0.1:9":{"id":7}}})"}) {
    write_file(run / "track.json", text);
    const Outcome outcome = send(run, "http://127.0.0.1:9");
    CHECK(outcome.code == 3);
    CHECK(says(outcome, "track.json: is broken"));
  }
}

}  // namespace
}  // namespace gantrain
