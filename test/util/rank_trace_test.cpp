// SPDX-License-Identifier: Apache-2.0
#include "util/rank_trace.h"

#include <memory>

#include "support/catch.h"

namespace gantrain {

TEST_CASE("TheLastThousandCollectivesAreKept") {
  const auto trace = std::make_unique<RankTrace>();
  CHECK(trace->collectives().empty());
  CHECK(standing_text(*trace, 0).empty());
  trace->skip_to(7);
  trace->set_phase("D backward");
  for (int64_t i = 0; i < RankTrace::kKept + 5; ++i)
    trace->ended(trace->enter("all-reduce", "gradients", 3, 100 + i, true));
  const std::vector<Collective> all = trace->collectives();
  REQUIRE(static_cast<int64_t>(all.size()) == RankTrace::kKept);
  CHECK(all.front().number == 7 + 6);
  CHECK(all.back().number == trace->entered());
  CHECK(all.back().bytes == 100 + RankTrace::kKept + 4);
  CHECK(all.back().phase == "D backward");
  CHECK(all.back().ended_ns >= all.back().begun_ns);
  // The end of one whose place is another's by now is nobody's.
  trace->enter("broadcast", "", 1, 4, true);
  trace->ended(trace->entered() - RankTrace::kKept);
  CHECK(trace->collectives().back().ended_ns == 0);
}

TEST_CASE("WordsThatAreTooLongAreCutOff") {
  const auto trace = std::make_unique<RankTrace>();
  trace->set_phase(std::string(100, 'p'));
  trace->enter(std::string(100, 'w'), std::string(100, 'q'), 1, 1, false);
  const Collective only = trace->collectives().at(0);
  CHECK(only.what == std::string(15, 'w'));
  CHECK(only.purpose == std::string(31, 'q'));
  CHECK(only.phase == std::string(31, 'p'));
  CHECK(only.ended_ns == Collective::kUnknown);
}

TEST_CASE("ARankStandsInOrAfterItsLastCollective") {
  const auto trace = std::make_unique<RankTrace>();
  trace->set_phase("G backward");
  const int64_t number = trace->enter("all-reduce", "gradients", 2, 4200, true);
  const int64_t begun = trace->collectives()[0].begun_ns;
  const std::string what = "all-reduce 1 (gradients, 2 tensors, 4.2 kB, phase \"G backward\")";
  CHECK(standing_text(*trace, begun + 12'340'000'000) == "12.3 s in " + what);
  trace->ended(number);
  const int64_t ended = trace->collectives()[0].ended_ns;
  CHECK(standing_text(*trace, ended + 2'000'000'000) == "2.0 s after " + what);
}

TEST_CASE("CollectivesThatDifferBetweenRanksAreNamed") {
  const auto one = std::make_unique<RankTrace>(), two = std::make_unique<RankTrace>(),
             late = std::make_unique<RankTrace>();
  for (RankTrace* trace : {one.get(), two.get(), late.get()})
    trace->enter("all-reduce", "gradients", 1, 64, true);
  one->set_phase("D backward");
  one->enter("all-reduce", "gradients", 1, 128, true);
  CHECK(mismatch_text({one.get(), two.get(), late.get()}, 0).empty());
  two->set_phase("tick");
  two->enter("broadcast", "", 1, 8, true);
  CHECK(mismatch_text({one.get(), two.get(), late.get()}, 4) ==
        "the ranks have not called the same: rank 4 all-reduce 2 (gradients, 1 tensor, 0.1 kB, "
        "phase \"D backward\"), rank 5 broadcast 2 (1 tensor, 0.0 kB, phase \"tick\")");
}

}  // namespace gantrain
