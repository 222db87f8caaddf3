// SPDX-License-Identifier: Apache-2.0
#include "gan/drawing.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "util/error.h"

using namespace gantrain;

TEST_CASE("TheFullSizeIsDrawnUnlessALevelIsNamed") {
  const std::vector<int64_t> levels = levels_up_to(32);
  CHECK(levels == std::vector<int64_t>{4, 8, 16, 32});
  Drawing drawing;
  CHECK(level_of(drawing, levels) == 32);
  drawing.level = 8;
  CHECK(level_of(drawing, levels) == 8);
  drawing.level = 64;
  CHECK_THROWS_WITH(level_of(drawing, levels), Catch::Contains("4, 8, 16, 32"));
  drawing = {};
  drawing.alpha = std::nan("");
  CHECK_THROWS_AS(level_of(drawing, levels), UserError);
}
