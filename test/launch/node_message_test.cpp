// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/node_link.h"
#include "support/catch.h"

namespace gantrain {

TEST_CASE("AMessageIsOneLineAndComesBackWhole") {
  NodeMessage message{.word = NodeMessage::Word::kReport, .number = 3, .port = 4000};
  message.text = "two\nlines \"and\" \xff a byte that is no text";
  message.place = {.node = 1, .nodes = 2, .ranks = 4, .host = "h1"};
  message.deaths.push_back({.kind = Death::Kind::kHang, .node = 1, .host = "h1", .rank = 5});
  message.deaths.back().message = "why\n\xfe";
  message.deaths.back().progress = {
      .stopped = true, .collectives = 7, .iteration = 8, .heartbeat_ns = 9};
  const std::string line = encode(message);
  CHECK(line.find('\n') == line.size() - 1);
  const auto back = decode(line);
  REQUIRE(back);
  CHECK(encode(*back) == line);
  CHECK(back->text.substr(0, 16) == message.text.substr(0, 16));
  CHECK(back->place.text() == "node 1 (h1)");
  REQUIRE(back->deaths.size() == 1);
  CHECK(back->deaths[0].kind == Death::Kind::kHang);
  CHECK(back->deaths[0].rank == 5);
  CHECK(back->deaths[0].progress.stopped);
  CHECK(back->deaths[0].progress.heartbeat_ns == 9);
}

TEST_CASE("AVerdictComesBackWhole") {
  NodeMessage message{.word = NodeMessage::Word::kVerdict};
  message.end = {.code = 6, .error = "why", .restartable = true, .cause = "x", .iteration = 40};
  const auto back = decode(encode(message));
  REQUIRE(back);
  CHECK(back->end.code == 6);
  CHECK(back->end.error == "why");
  CHECK(back->end.restartable);
  CHECK_FALSE(back->end.resumable);
  CHECK(back->end.cause == "x");
  CHECK(back->end.iteration == 40);
}

TEST_CASE("WhatNodesOfAnElasticRunSayComesBackWhole") {
  NodeMessage message{.word = NodeMessage::Word::kRoster};
  message.roster = {.lost = 1, .wanted = 2, .generation = 3, .port = 4, .host = "h"};
  message.roster.seats = {{.announced = 5, .border = 6, .place = 7}, {}};
  const auto back = decode(encode(message));
  REQUIRE(back);
  CHECK(back->roster == message.roster);
  const auto left = decode(encode(
      {.word = NodeMessage::Word::kLeft, .number = 1, .deaths = {{.rank = 3}}, .slots = {1, 2}}));
  REQUIRE(left);
  CHECK(left->slots == std::vector<int64_t>{1, 2});
  CHECK(left->deaths.size() == 1);
}

TEST_CASE("WhatIsNoMessageIsRefused") {
  for (const char* line :
       {"",
        "GET / HTTP/1.1",
        "{}",
        "[1]",
        R"({"gantrain":4})",
        R"({"gantrain":2,"word":0})",
        R"({"gantrain":4,"word":99})",
        R"({"gantrain":1e30,"word":0})",
        R"({"gantrain":1.5,"word":0})",
        R"({"gantrain":99999999999999999999,"word":0})",
        R"({"gantrain":4,"word":4294967296})",
        R"({"gantrain":4,"word":-9223372036854775808})",
        R"({"gantrain":4,"word":-1})",
        R"({"gantrain":4,"word":1})",
        R"({"gantrain":4,"word":5,"number":"x"})",
        R"({"gantrain":4,"word":1,"number":0,"port":0,"text":"",)"
        R"("place":{"node":1,"nodes":4294967296,"ranks":4294967296,"host":""}})"}) {
    CAPTURE(line);
    CHECK(!decode(line));
  }
  CHECK(decode(R"({"gantrain":4,"word":0})"));
}

}  // namespace gantrain
