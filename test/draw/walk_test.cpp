// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "draw/frames.h"

namespace gantrain {

TEST_CASE("AnOpenWalkGoesFromTheFirstKeyToTheLast") {
  const Walk walk{.keys = 3, .frames = 4, .loop = false};
  REQUIRE(frame_count(walk) == 9);
  for (int64_t i = 0; i < 8; ++i) {
    const Step step = step_of(walk, i);
    CHECK(step.from == i / 4);
    CHECK(step.to == i / 4 + 1);
    CHECK(step.t == static_cast<double>(i % 4) / 4);
  }
  const Step last = step_of(walk, 8);
  CHECK(last.to == 2);
  CHECK(last.t == 1);
}

TEST_CASE("AClosedWalkComesBackWithoutShowingAKeyTwice") {
  const Walk walk{.keys = 3, .frames = 4, .loop = true};
  REQUIRE(frame_count(walk) == 12);
  for (int64_t i = 0; i < 12; ++i) {
    const Step step = step_of(walk, i);
    CHECK(step.from == i / 4);
    CHECK(step.to == (i / 4 + 1) % 3);
    CHECK(step.t == static_cast<double>(i % 4) / 4);
  }
}

TEST_CASE("AWalkOfOneFrameAKeyShowsTheKeys") {
  CHECK(frame_count({.keys = 5, .frames = 1, .loop = false}) == 5);
  CHECK(frame_count({.keys = 5, .frames = 1, .loop = true}) == 5);
  const Step last = step_of({.keys = 5, .frames = 1, .loop = false}, 4);
  CHECK(last.to == 4);
  CHECK(last.t == 1);
}

TEST_CASE("FramesSortByName") {
  CHECK(frame_name(7, 100) == "frame0007");
  CHECK(frame_name(9999, 10000) == "frame9999");
  CHECK(frame_name(7, 10001) == "frame00007");
  CHECK(frame_name(10000, 10001) == "frame10000");
}

}  // namespace gantrain
