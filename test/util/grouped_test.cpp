// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "support/catch.h"
#include "util/text.h"

using namespace gantrain;

TEST_CASE("NumbersForPeopleHaveThreeDigitsAndCommas") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(0.03124) == "0.0312");
  CHECK(grouped(6.829) == "6.83");
  CHECK(grouped(41.23) == "41.2");
  CHECK(grouped(99.94) == "99.9");
  CHECK(grouped(99.96) == "100");
  CHECK(grouped(178.7) == "179");
  CHECK(grouped(999.6) == "1,000");
  CHECK(grouped(1790) == "1,790");
  CHECK(grouped(25'000'000) == "25,000,000");
  CHECK(grouped(-999) == "-999");
  CHECK(grouped(-1234567) == "-1,234,567");
  CHECK(grouped(std::numeric_limits<double>::infinity()) == "inf");
}
