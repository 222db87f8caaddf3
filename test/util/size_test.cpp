// SPDX-License-Identifier: Apache-2.0
#include "util/size.h"

#include "support/catch.h"

using namespace gantrain;

TEST_CASE("ASizeIsOneNumberOrWidthByHeight") {
  CHECK(parse_size("64") == square_of(64));
  CHECK(parse_size("256x128") == Size{256, 128});
  CHECK(parse_size("256X128") == Size{256, 128});
  for (const Size& size : {square_of(4), Size{256, 128}, Size{5, 7}})
    CHECK(parse_size(to_text(size)) == size);
  CHECK(to_text({128, 128}) == "128");
}

TEST_CASE("WhatIsNoSizeIsNotRead") {
  for (const char* text : {"",
                           "x",
                           "16x",
                           "x16",
                           "0x16",
                           "16x0",
                           "0",
                           "-16x16",
                           "+16",
                           "16 x 16",
                           "16x16x16",
                           "16.5x16",
                           "1e2",
                           "64*32",
                           "99999999999999999999x16"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_size(text));
  }
}

TEST_CASE("ASizeIsAStartOfFourToSevenPixelsDoubled") {
  struct Row {
    Size size, start;
    int64_t doublings;
  };
  for (const Row& row : {Row{{64, 64}, {4, 4}, 4},
                         Row{{256, 128}, {8, 4}, 5},
                         Row{{384, 256}, {6, 4}, 6},
                         Row{{320, 448}, {5, 7}, 6},
                         Row{{48, 48}, {6, 6}, 3},
                         Row{{4, 100}, {4, 100}, 0},
                         Row{{1024, 1024}, {4, 4}, 8}}) {
    const auto found = find_doubled_size(row.size);
    CAPTURE(to_text(row.size));
    REQUIRE(found);
    CHECK(found->start == row.start);
    CHECK(found->doublings == row.doublings);
    CHECK(found->at(found->nominal()) == row.size);
    CHECK(found->at(4) == row.start);
  }
  for (const Size& size : {Size{33, 16}, Size{36, 36}, Size{3, 64}, Size{64, 18}, Size{1000, 1000}})
    CHECK_FALSE(find_doubled_size(size));
}

TEST_CASE("NearestSizesAreOnesThatCanBeHad") {
  const std::vector<Size> nearest = nearest_doubled_sizes({33, 16}, {1, 8});
  REQUIRE(nearest.size() == 3);
  CHECK(nearest.front() == Size{32, 16});
  for (const Size& wanted : {Size{33, 16}, Size{1, 1}, Size{4096, 4095}, Size{1000, 600}}) {
    CHECK(nearest_doubled_sizes(wanted, {1, 8}).size() == 3);
    for (const Size& size : nearest_doubled_sizes(wanted, {1, 8})) {
      CAPTURE(to_text(wanted), to_text(size));
      const auto found = find_doubled_size(size);
      REQUIRE(found);
      CHECK(found->doublings >= 1);
      CHECK(found->doublings <= 8);
    }
  }
  CHECK(nearest_doubled_sizes({1024, 512}, {1, 5}).front() == Size{14 * 32, 7 * 32});
  CHECK(nearest_doubled_sizes({2, 4}, {1, 5}).front() == Size{8, 16});
}
