// SPDX-License-Identifier: Apache-2.0
#include "config/value.h"
#include "support/catch.h"
#include "support/stand_in_python.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

const Words kShort =
    words_of("bench ddp --json --nets dcgan --ranks 2 --batch 1 --rounds 1 --steps 1");

Words with(const std::string& more) {
  Words all = kShort;
  for (const std::string& word : words_of(more)) all.push_back(word);
  return all;
}

fs::path python(const TemporaryFolder& folder, const std::string& version) {
  return stand_in_python(
      folder, {version, R"({"median": 2000, "cpu_median": 1000, "torch": ")" + version + "\"}"});
}

TEST_CASE("BenchTimesEveryWayOfSynchronising") {
  const Json result = last_line(gantrain(with("--pairs 0")));
  CHECK(result.at("peer_skipped") == "--pairs 0");
  const Json& world = result.at("nets").at(0).at("worlds").at(0);
  CHECK(world.at("ranks") == 2);
  CHECK(world.at("batch") == 2);
  std::map<std::string, Json> ways;
  for (const Json& way : world.at("ways")) ways[way.at("way")] = way;
  REQUIRE(ways.size() == 4);
  for (const auto& [name, way] : ways) {
    CAPTURE(name, way.dump());
    const auto exposed = way.at("exposed").get<double>();
    CHECK(way.at("seconds").get<double>() > 0);
    CHECK(exposed > 0);
    CHECK(exposed + way.at("skew").get<double>() < 1);
  }
  const auto bytes = [&](const char* way) { return ways.at(way).at("bytes").get<double>(); };
  const double weights = 4 * 6.34e6;  // of G (3.58 M) and D (2.77 M), float32
  CHECK(bytes("dynamic, net") == Approx(weights).epsilon(0.01));
  CHECK(bytes("wrapper") == bytes("dynamic, net"));
  CHECK(bytes("flat") == bytes("dynamic, net"));
  CHECK(bytes("dynamic, whole") == Approx(2 * weights).epsilon(0.01));
  CHECK(ways.at("flat").at("collectives") == 2);
}

TEST_CASE("OursIsDividedByThePeersTime") {
  const TemporaryFolder folder;
  const fs::path peer = python(folder, "2.11.0+cpu");
  const Json result = last_line(gantrain(with("--pairs 2 --python " + peer.string())));
  const Json& compared = result.at("nets").at(0).at("peer").at(0);
  REQUIRE(compared.at("pairs").size() == 2);
  double product = 1;
  for (const Json& pair : compared.at("pairs")) {
    CHECK(pair.at(0).get<double>() > 0);
    CHECK(pair.at(1) == 2000);
    CHECK(pair.at(3) == 1000);
    product *= pair.at(0).get<double>() / 2000;
  }
  const auto ratio = compared.at("ratio").get<double>();
  CHECK(ratio * ratio == Approx(product));
  CHECK(compared.at("interval").at(0).get<double>() <= ratio);
  CHECK(compared.at("interval").at(1).get<double>() >= ratio);
  const double cpu = compared.at("pairs").at(0).at(2).get<double>() / 1000;
  CHECK(compared.at("cpu").at("ratio").get<double>() == Approx(cpu).epsilon(0.9));
}

TEST_CASE("WithoutThePeersTorchBenchSaysSoAndGoesOn") {
  const TemporaryFolder folder;
  const Json old =
      last_line(gantrain(with("--pairs 1 --python " + python(folder, "2.10.1").string())));
  CHECK(ends_with(old.at("peer_skipped").get<std::string>(), "has torch 2.10.1, not 2.11"));
  CHECK(old.at("nets").at(0).at("peer").empty());
  CHECK(old.at("nets").at(0).at("worlds").size() == 1);
  const Json none = last_line(gantrain(with("--pairs 1 --python no-such-python")));
  CHECK_THAT(none.at("peer_skipped").get<std::string>(),
             Catch::StartsWith("no-such-python has no torch: "));
}

TEST_CASE("WhatCannotBeBenchedIsRefused") {
  for (const auto& [arguments, part] : std::vector<std::pair<std::string, std::string>>{
           {"bench dpd", "did you mean ddp?"},
           {"bench everything", "there is step, ops, launch, data, save, ddp"},
           {"bench ddp --ranks 2,1", "--ranks 2,1"},
           {"bench ddp --nets pggan", "stylegan2"},
           {"bench ddp --steps 0", "steps"}}) {
    CAPTURE(arguments);
    const Outcome outcome = gantrain(words_of(arguments));
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(part) != std::string::npos);
  }
  const Outcome list = gantrain({"bench"});
  CHECK(list.code == 0);
  for (const char* what : {"step", "ops", "launch", "data", "save", "ddp"})
    CHECK_THAT(list.out, Catch::Contains(std::string("\n  ") + what + " "));
}

}  // namespace
}  // namespace gantrain
