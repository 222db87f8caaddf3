// SPDX-License-Identifier: Apache-2.0
// bench ddp --simulate, from outside.
#include "config/value.h"
#include "support/catch.h"
#include "support/stand_in_python.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// An iteration of 100 ms with a gradient of 100 MB that is there in the middle of a backward pass
// of 60 ms.
Json plan_of_one_gradient() {
  const Json phase = {{"name", "D"},
                      {"interval", 1},
                      {"forward", 0.03},
                      {"backward", 0.06},
                      {"update", 0.01},
                      {"gradients", {{{"bytes", 100e6}, {"ready", 0.5}}}}};
  const Json work = {{"name", "one"},
                     {"about", "One gradient"},
                     {"batch", 4},
                     {"bucket_mb", 25.0},
                     {"first_bucket_mb", 1.0},
                     {"wire", 1.0},
                     {"rest", 0.0},
                     {"shared_bytes", 0.0},
                     {"phases", {phase}}};
  return {{"bench", "ddp"}, {"nets", {{{"workload", work}}}}};
}

// Two ranks, each a node: 100 MB at 1 GB/s take 0.1 s, of which 0.03 s hide behind the backward
// pass.
TEST_CASE("APlanFromAFileNeedsNoMeasurement") {
  const TemporaryFolder folder;
  const fs::path file = folder / "one.json";
  write_file(file, plan_of_one_gradient().dump() + "\n");
  const Words call = words_of(
      "bench ddp --simulate 2 --ranks-per-node 1 --bandwidth 8Gb/s --latency 0"
      " --json --from " +
      file.string());
  const Outcome outcome = gantrain(call);
  INFO(outcome.err);
  const Json net = last_line(outcome).at("nets").at(0);
  REQUIRE(net.at("rows").size() == 2);
  const Json& row = net.at("rows").at(1);
  CHECK(row.at("ranks") == 2);
  CHECK(row.at("seconds").get<double>() == Approx(0.17));
  CHECK(row.at("exposed").get<double>() == Approx(0.07));
  CHECK(row.at("graphs_seconds").get<double>() == Approx(0.2));
  CHECK(row.at("graphs_must_save").get<double>() == Approx(0.03));
  CHECK(row.at("choice") == "overlap");
  CHECK(net.at("shows_at") == 2);
  CHECK_THAT(outcome.out, Catch::Contains("communication shows from 2 ranks on"));
  CHECK_THAT(outcome.out, Catch::Contains("1 GB/s, 0 us between nodes of 1 rank"));
  CHECK_THAT(outcome.out, Catch::Contains("not counted: start-up, ticks, "));
  for (const std::string& line : split(outcome.out, '\n')) {
    CAPTURE(line);
    CHECK((line.size() <= 100 || starts_with(line, "{")));
  }
  Words faster = call;
  for (const std::string& word : words_of("--compute-ms 50 --graphs-save-ms 20"))
    faster.push_back(word);
  const Json again = last_line(gantrain(faster)).at("nets").at(0).at("rows").at(1);
  CHECK(again.at("compute").get<double>() == Approx(0.05));
  CHECK(again.at("seconds").get<double>() == Approx(0.05 + 0.1 - 0.015));
  CHECK(again.at("choice") == "graphs");
}

TEST_CASE("APlanMeasuresOneRankAndIsComparedWithLocalOnes") {
  const Outcome outcome =
      gantrain(words_of("bench ddp --simulate 16 --check --json --nets dcgan --batch 2 --steps 1 "
                        "--set dcgan.channels=16 --set dcgan.d_channels=8"));
  INFO(outcome.err);
  const Json net = last_line(outcome).at("nets").at(0);
  const Json& work = net.at("workload");
  CHECK(work.at("batch") == 2);
  CHECK(work.at("shared_bytes").get<double>() > 64);  // running statistics of batch norm
  std::map<std::string, Json> phases;
  for (const Json& phase : work.at("phases")) phases[phase.at("name")] = phase;
  REQUIRE(phases.size() == 2);
  for (const auto& [name, phase] : phases) {
    CAPTURE(name, phase.dump());
    CHECK(phase.at("forward").get<double>() > 0);
    CHECK(phase.at("backward").get<double>() > 0);
    CHECK(phase.at("interval") == 1);
    // Gradients of the last layer are there first.
    const Json& gradients = phase.at("gradients");
    CHECK(gradients.front().at("ready").get<double>() < gradients.back().at("ready").get<double>());
    for (const Json& gradient : gradients) {
      CHECK(gradient.at("ready").get<double>() > 0);
      CHECK(gradient.at("ready").get<double>() <= 1);
    }
  }
  REQUIRE(net.at("rows").size() == 3);
  CHECK(net.at("rows").at(0).at("seconds").get<double>() ==
        Approx(net.at("rows").at(0).at("compute").get<double>()));
  std::vector<int> ranks;
  for (const Json& row : net.at("check")) {
    ranks.push_back(row.at("ranks"));
    CAPTURE(row.dump());
    const auto predicted = row.at("predicted").get<double>();
    CHECK(predicted >= row.at("compute").get<double>());
    CHECK(row.at("ratio").get<double>() == Approx(predicted / row.at("measured").get<double>()));
    if (row.at("ranks") > 1) CHECK(row.at("link").at("bandwidth").get<double>() > 0);
  }
  CHECK(ranks == std::vector<int>{1, 2, 4});
}

TEST_CASE("APlanThatCannotBeIsRefused") {
  const TemporaryFolder folder;
  const fs::path file = folder / "one.json", empty = folder / "empty.json";
  write_file(file, plan_of_one_gradient().dump() + "\n");
  write_file(empty, "nothing\n");
  const std::string from = " --from " + file.string();
  for (const auto& [arguments, part, code] : std::vector<std::tuple<std::string, std::string, int>>{
           {"--simulate 0", "simulate", 2},
           {"--simulate 100000", "65536", 2},
           {"--simulate many", "simulate", 2},
           {"--simulate 8 --bandwidth 0" + from, "--bandwidth 0: gigabytes", 2},
           {"--simulate 8 --bandwidth=-5" + from, "--bandwidth -5: gigabytes", 2},
           {"--simulate 8 --bandwidth 400Gbps" + from, "400Gb/s", 2},
           {"--simulate 8 --local-bandwidth x" + from, "--local-bandwidth x", 2},
           {"--simulate 8 --latency=-1" + from, "--latency -1: microseconds", 2},
           {"--simulate 8 --latency 5ms" + from, "--latency 5ms: microseconds", 2},
           {"--simulate 8 --ranks-per-node 0" + from, "ranks-per-node", 2},
           {"--simulate 8 --nets pggan", "stylegan2", 2},
           {"--simulate 8 --compute-ms 100", "--nets or --preset", 2},
           {"--simulate 8 --compute-ms Q=3" + from, "one has D, rest", 2},
           {"--simulate 8 --global-batch 4" + from, "--simulate 4", 2},
           {"--simulate 8 --preset dcgan", "--batch", 2},
           {"--simulate 8 --preset dcgna --batch 4", "dcgan", 2},
           {"--simulate 8 --ranks 2", "--ranks does not go with --simulate", 2},
           {"--simulate 8 --nets dcgan" + from, "--nets does not go with --from", 2},
           {"--simulate 8 --nets dcgan --set dist.sync_bn=on", "dist.sync_bn", 2},
           {"--bandwidth 50", "--bandwidth needs --simulate", 2},
           {"--simulate 8 --from no-such-file", "no-such-file", 3},
           {"--simulate 8 --from " + empty.string(), "empty.json", 3}}) {
    CAPTURE(arguments);
    const Outcome outcome = gantrain(words_of("bench ddp " + arguments));
    INFO(outcome.err);
    CHECK(outcome.code == code);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace gantrain
