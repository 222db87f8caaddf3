// SPDX-License-Identifier: Apache-2.0
#include "launch/first_cause.h"

#include <catch2/catch.hpp>

namespace gantrain {

namespace {

using Kind = NodeReport::Kind;

NodeReport report_of(int64_t node, Kind kind, const std::string& text) {
  NodeReport report{.node = node, .kind = kind};
  report.end.code = 6;
  report.end.error = text;
  return report;
}

NodeReport hang_of(int64_t node, int64_t collectives) {
  NodeReport report = report_of(node, Kind::kHang, "hang of " + std::to_string(node));
  report.progress.collectives = collectives;
  report.before = "no progress: ";
  report.behind = "node " + std::to_string(node);
  return report;
}

}  // namespace

TEST_CASE("WithoutTroubleThereIsNoCause") {
  FirstCause cause;
  cause.add(report_of(1, Kind::kProgress, ""), 10);
  CHECK(!cause.deadline());
  CHECK(!cause.decide(1000));
}

TEST_CASE("AFailureOfItsOwnDecidesAtOnce") {
  FirstCause cause;
  cause.add(report_of(1, Kind::kCause, "first"), 10);
  cause.add(report_of(0, Kind::kCause, "second"), 10);
  REQUIRE(cause.decide(10));
  CHECK(cause.decide(10)->error == "first");
}

TEST_CASE("AVictimYieldsForTwoSeconds") {
  FirstCause cause;
  cause.add(report_of(0, Kind::kVictim, "lost a peer"), 10);
  CHECK(!cause.decide(11.9));
  FirstCause late = cause;
  cause.add(report_of(1, Kind::kCause, "killed"), 11.9);
  CHECK(cause.decide(11.9)->error == "killed");
  late.add(report_of(1, Kind::kVictim, "lost one too"), 11);
  CHECK(late.decide(12)->error == "lost a peer");
}

TEST_CASE("InAHangTheNodeThatIsBehindIsNamed") {
  FirstCause cause;
  cause.add(hang_of(0, 40), 10);
  cause.add(hang_of(1, 39), 10);
  cause.add(hang_of(2, 40), 10);
  CHECK(!cause.decide(11));
  CHECK(cause.decide(12)->error == "no progress: node 1");
  CHECK(cause.decide(12)->restartable);
}

TEST_CASE("WhoWaitedInVainNamesTheRankOfAnotherNode") {
  FirstCause cause;
  NodeReport victim = report_of(0, Kind::kVictim, "rank 0 timed out");
  victim.behind = "node 0";
  victim.progress.collectives = victim.waiting.collectives = 40;
  victim.after = "; rank 0 waited for it in vain";
  cause.add(victim, 10);
  FirstCause alone = cause;
  NodeReport asked = report_of(1, Kind::kProgress, "");
  asked.behind = "node 1";
  asked.progress.collectives = 40;
  asked.progress.stopped = true;
  cause.add(asked, 10.1);
  CHECK(cause.decide(12)->error == "node 1; rank 0 waited for it in vain");
  // Nobody is behind: it may be the network.
  asked.progress.stopped = false;
  alone.add(asked, 10.1);
  CHECK(alone.decide(12)->error == "rank 0 timed out");
}

}  // namespace gantrain
