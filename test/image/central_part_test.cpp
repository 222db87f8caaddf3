// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "image/convert.h"

using namespace gantrain;

TEST_CASE("TheCentralPartHasTheProportionsAndLiesInTheMiddle") {
  CHECK(central_part({100, 60}, {1, 1}) == Part{20, 0, {60, 60}});
  CHECK(central_part({60, 101}, {1, 1}) == Part{0, 20, {60, 60}});
  CHECK(central_part({1000, 800}, {256, 128}) == Part{0, 150, {1000, 500}});
  CHECK(central_part({1000, 800}, {128, 256}) == Part{300, 0, {400, 800}});
  CHECK(central_part({101, 75}, {2, 1}) == Part{0, 12, {101, 51}});  // 50.5 rows, rounded
}

TEST_CASE("TheCentralPartOfAPictureOfItsProportionsIsAllOfIt") {
  for (const Size& size : {Size{256, 128}, Size{5, 7}, Size{640, 896}, Size{1, 1}})
    CHECK(central_part(size, size) == Part{0, 0, size});
  CHECK(central_part({512, 256}, {256, 128}) == Part{0, 0, {512, 256}});
}

TEST_CASE("TheCentralPartIsNeverEmpty") {
  CHECK(central_part({1000, 1}, {4, 4000}) == Part{499, 0, {1, 1}});
  CHECK(central_part({1, 1000}, {4000, 4}) == Part{0, 499, {1, 1}});
}
