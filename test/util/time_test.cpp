// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "util/system.h"

using namespace gantrain;

TEST_CASE("DurationsAreReadInAnyUnit") {
  CHECK(parse_duration("90") == 90);
  CHECK(parse_duration("60s") == 60);
  CHECK(parse_duration("23h30m") == 84600);
  CHECK(parse_duration("1d") == 86400);
  CHECK(parse_duration("1.5m") == 90);
  for (const char* bad : {"", "h", "5x", "-3", "1h2"}) CHECK_FALSE(parse_duration(bad));
}

TEST_CASE("DurationsAreWrittenShort") {
  CHECK(short_duration(45) == "45s");
  CHECK(short_duration(201) == "3m21s");
  CHECK(short_duration(24840) == "6h54m");
  CHECK(short_duration(93600) == "1d02h");
}

TEST_CASE("MonotonicTimeDoesNotGoBack") {
  const double a = monotonic_seconds();
  CHECK(monotonic_seconds() >= a);
}
