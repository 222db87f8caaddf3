// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "train/plan/plan.h"

using namespace gantrain;

TEST_CASE("TheLargestDivisorThatFitsIsTakenInWholeGroupsWherePossible") {
  struct Case {
    RankShare share;
    MemoryLine line;
    double budget;
    int64_t expected;
  };
  for (const auto& [share, line, budget, expected] : {
           Case{{64, 4}, {100, 10}, 740, 64},  // exactly
           Case{{64, 4}, {100, 10}, 739, 32},
           Case{{64, 4}, {100, 10}, 140, 4},
           Case{{64, 4}, {100, 10}, 139, 2},  // no whole group fits
           Case{{64, 4}, {100, 10}, 110, 1},
           Case{{64, 4}, {100, 10}, 109, 0},  // nothing fits
           Case{{12, 8}, {0, 1}, 100, 12},    // no divisor is a multiple of 8
           Case{{24, 8}, {0, 1}, 23, 8},      // and not 12
           Case{{7, 1}, {0, 1}, 6, 1},        // a prime share
           Case{{48, 1}, {5, 0}, 5, 48},      // images that cost nothing
           Case{{48, 1}, {5, 0}, 4, 0},
           Case{{86, 1, true}, {0, 1}, 86, 86},  // and 85 on other ranks
           Case{{86, 1, true}, {0, 1}, 85, 43},
           Case{{86, 1, true}, {0, 1}, 16, 15},  // six parts
           Case{{86, 1, true}, {0, 1}, 2, 2},
           Case{{86, 1, true}, {0, 1}, 1, 0},  // 86 parts are more than others have images
       }) {
    CAPTURE(share.images, share.group, line.fixed, line.each, budget);
    CHECK(largest_micro_batch(share, line, budget) == expected);
  }
}

TEST_CASE("TheLineGoesThroughBothMeasurements") {
  const MemoryLine line = line_through({4, 1400}, {8, 1800});
  CHECK(line.fixed == 1000);
  CHECK(line.each == 100);
  CHECK(line.at(64) == 7400);
  const MemoryLine flat = line_through({4, 1400}, {8, 1300});  // what noise can do
  CHECK(flat.each == 0);
  CHECK(flat.at(1000) == 1400);
}

TEST_CASE("ASmallerMicroBatchIsTheNextDivisorBelow") {
  CHECK(smaller_micro_batch(16) == 8);
  CHECK(smaller_micro_batch(9) == 3);
  CHECK(smaller_micro_batch(7) == 1);
  CHECK(smaller_micro_batch(1) == 0);
  CHECK(smaller_micro_batch(0) == 0);
}
