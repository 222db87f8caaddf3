// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "draw/requests.h"
#include "support/catch.h"
#include "support/pictures.h"

namespace gantrain {
namespace {

using Numbers = std::vector<int64_t>;

}  // namespace

TEST_CASE("SeedsAreNumbersAndRangesInTheirOrder") {
  CHECK(parse_seeds("--seeds", "7").numbers() == Numbers{7});
  CHECK(parse_seeds("--seeds", "5-8,12345,0").numbers() == Numbers{5, 6, 7, 8, 12345, 0});
  CHECK(parse_seeds("--seeds", "4294967295").numbers() == Numbers{4294967295});
  CHECK(parse_seeds("--seeds", "3-3, 4").numbers() == Numbers{3, 4});
}

TEST_CASE("AMillionSeedsAreOneRange") {
  const SeedList seeds = parse_seeds("--seeds", "5,0-1000000,7-7");
  CHECK(seeds.size() == 1'000'003);
  CHECK(seeds[0] == 5);
  CHECK(seeds[1] == 0);
  CHECK(seeds[1'000'001] == 1'000'000);
  CHECK(seeds[1'000'002] == 7);
  CHECK(seeds.text() == "5,0-1000000,7");
  CHECK(Value<SeedList>::from_text(seeds.text()).value().size() == seeds.size());
}

TEST_CASE("SeedsThatAreNoneAreNamedWithTheirFlag") {
  for (const std::string text : {"", "x", "3-1", "-1", "4294967296", "1,,2", "1-"}) {
    CAPTURE(text);
    const std::string error = user_error(Exit::kUsage, [&] { parse_seeds("--seeds", text); });
    CHECK(error.find("--seeds " + text) != std::string::npos);
    CHECK(error.find("0-63,85") != std::string::npos);
  }
  const std::string long_one =
      user_error(Exit::kUsage, [] { parse_seeds("--seeds", "0-2000000"); });
  CHECK(long_one.find("0-2000000 is a range of 2000001 numbers") != std::string::npos);
  CHECK(long_one.find("at most 1000001") != std::string::npos);
}

TEST_CASE("AMixIsRowsColumnsAndLayers") {
  const Mix mix = parse_mix("85,100:55-57:0-2,6");
  CHECK(mix.rows == Numbers{85, 100});
  CHECK(mix.columns == Numbers{55, 56, 57});
  CHECK(mix.layers == Numbers{0, 1, 2, 6});
}

TEST_CASE("AMixThatIsNoneIsNamedWithWhatIsExpected") {
  for (const std::string text :
       {"85", "85:55", "85:55:0-6:1", "85:55:", ":55:0", "85:x:0", "85:55:6-0"}) {
    CAPTURE(text);
    const std::string error = user_error(Exit::kUsage, [&] { parse_mix(text); });
    CHECK(error.find("--mix " + text) != std::string::npos);
    CHECK(error.find("85,100:55-60:0-6") != std::string::npos);
  }
}

TEST_CASE("AGridIsColumnsByRows") {
  const GridShape grid = parse_grid("4x2");
  CHECK(grid.columns == 4);
  CHECK(grid.rows == 2);
  for (const std::string text : {"", "4", "4x", "x2", "0x1", "4x2x1", "4x65", "axb"}) {
    CAPTURE(text);
    CHECK(user_error(Exit::kUsage, [&] { parse_grid(text); }).find("--grid " + text) !=
          std::string::npos);
  }
}

TEST_CASE("LayersAreNumbersInRisingOrder") {
  CHECK(parse_layers("--layers", "4-7").numbers == Numbers{4, 5, 6, 7});
  CHECK(parse_layers("--layers", "9,2-3,3,0").numbers == Numbers{0, 2, 3, 9});
  CHECK(parse_layers("--layers", "all").numbers.empty());
  CHECK(text_of(parse_layers("--layers", "9,2-3,3,0")) == "0,2-3,9");
  for (const std::string text : {"", "7-4", "-1", "x", "1000"}) {
    CAPTURE(text);
    const std::string error = user_error(Exit::kUsage, [&] { parse_layers("--layers", text); });
    CHECK(error.find("--layers " + text) != std::string::npos);
  }
}

TEST_CASE("ADirectionIsANumberItsStrengthsAndLayers") {
  const DirectionUse use = parse_direction("3:2.5@4-7", false);
  CHECK(use.number == 3);
  CHECK(use.strengths == std::vector<double>{2.5});
  CHECK(use.layers.numbers == Numbers{4, 5, 6, 7});
  CHECK(parse_direction("0:-1e-1", false).strengths == std::vector<double>{-0.1});
  CHECK(parse_direction("0:-1", false).layers.numbers.empty());
  CHECK(parse_direction("12:-3:0:3@0", true).strengths == std::vector<double>{-3, 0, 3});
}

TEST_CASE("ADirectionThatIsNoneIsNamedWithWhatIsExpected") {
  for (const std::string text : {"",
                                 "3",
                                 "3:",
                                 ":2",
                                 "3:x",
                                 "x:2",
                                 "-1:2",
                                 "3:nan",
                                 "3:inf",
                                 "3:-inf",
                                 "3:1e7",
                                 "3:1:2",
                                 "3:2@",
                                 "3:2@x",
                                 "3:2@7-4",
                                 "3:2@1@2",
                                 "1.5:2",
                                 "3:2:",
                                 "99999999999999999999:1"}) {
    CAPTURE(text);
    const std::string error = user_error(Exit::kUsage, [&] { parse_direction(text, false); });
    CHECK(error.find("--direction " + text) != std::string::npos);
    CHECK(error.find("4-7") != std::string::npos);
  }
  CHECK(user_error(Exit::kUsage, [] { parse_direction("3:1:nan", true); }).find("3:-2:2") !=
        std::string::npos);
}

}  // namespace gantrain
