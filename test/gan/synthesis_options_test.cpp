// SPDX-License-Identifier: Apache-2.0
#include "gan/synthesis_options.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "util/error.h"

using namespace gantrain;

TEST_CASE("TheFullSizeIsDrawnUnlessALevelIsNamed") {
  const std::vector<int64_t> levels = levels_up_to(32);
  CHECK(levels == std::vector<int64_t>{4, 8, 16, 32});
  SynthesisOptions options;
  CHECK(level_of(options, levels) == 32);
  options.level = 8;
  CHECK(level_of(options, levels) == 8);
  options.level = 64;
  CHECK_THROWS_WITH(level_of(options, levels), Catch::Contains("4, 8, 16, 32"));
  options = {};
  options.alpha = std::nan("");
  CHECK_THROWS_AS(level_of(options, levels), UserError);
}
