// SPDX-License-Identifier: Apache-2.0
#include "launch/node_message.h"

#include <catch2/catch.hpp>

namespace gantrain {

TEST_CASE("AMessageIsOneLineAndComesBackWhole") {
  NodeMessage message{.word = NodeMessage::Word::kReport, .number = 3, .port = 4000};
  message.text = "two\nlines \"and\" \xff a byte that is no text";
  message.place = {.node = 1, .nodes = 2, .ranks = 4, .host = "h1"};
  NodeReport& report = message.report;
  report.node = 1;
  report.kind = NodeReport::Kind::kHang;
  report.end = {.code = 6, .error = "why", .restartable = true, .cause = "x", .iteration = 40};
  report.progress = {.stopped = true, .collectives = 7, .iteration = 8, .heartbeat_ns = 9};
  report.behind = "rank 5";
  const std::string line = encode(message);
  CHECK(line.find('\n') == line.size() - 1);
  const auto back = decode(line);
  REQUIRE(back);
  CHECK(encode(*back) == line);
  CHECK(back->text.substr(0, 16) == message.text.substr(0, 16));
  CHECK(back->place.text() == "node 1 (h1)");
  CHECK(back->report.end.iteration == 40);
  CHECK(back->report.progress.stopped);
}

TEST_CASE("WhatIsNoMessageIsRefused") {
  for (const char* line : {"",
                           "GET / HTTP/1.1",
                           "{}",
                           "[1]",
                           R"({"gantrain":1})",
                           R"({"gantrain":2,"word":0})",
                           R"({"gantrain":1,"word":99})",
                           R"({"gantrain":1e30,"word":0})",
                           R"({"gantrain":1.5,"word":0})",
                           R"({"gantrain":99999999999999999999,"word":0})",
                           R"({"gantrain":1,"word":4294967296})",
                           R"({"gantrain":1,"word":-9223372036854775808})",
                           R"({"gantrain":1,"word":-1})",
                           R"({"gantrain":1,"word":1})",
                           R"({"gantrain":1,"word":5,"number":"x"})"}) {
    CAPTURE(line);
    CHECK(!decode(line));
  }
  CHECK(decode(R"({"gantrain":1,"word":0})"));
}

}  // namespace gantrain
