// SPDX-License-Identifier: Apache-2.0
#include "util/text.h"

#include <catch2/catch.hpp>

using namespace gantrain;

TEST_CASE("SplitKeepsEmptyPartsAndJoinUndoesIt") {
  CHECK(split("a,,b", ',') == std::vector<std::string>{"a", "", "b"});
  CHECK(split("", ',') == std::vector<std::string>{""});
  CHECK(join(split("a,,b", ','), ",") == "a,,b");
}

TEST_CASE("AWordIsQuotedOnlyWhereAShellNeedsIt") {
  CHECK(shell_quote("--out=runs/a_b") == "--out=runs/a_b");
  CHECK(shell_quote("my photos") == "'my photos'");
  CHECK(shell_quote("it's") == "'it'\\''s'");
  CHECK(shell_quote("") == "''");
}

TEST_CASE("NumbersAreTheWholeText") {
  CHECK(parse_int("-12") == -12);
  CHECK(parse_int("+3") == 3);
  CHECK_FALSE(parse_int("12x"));
  CHECK_FALSE(parse_int(""));
  CHECK(parse_double("2e-4") == 2e-4);
  CHECK_FALSE(parse_double("1.2.3"));
}

TEST_CASE("ANumbersTextReadsBackAsTheSameNumber") {
  for (const double value : {0.1, 2e-4, 1.0 / 3, 25000.0, 1e300, -0.5, 123456789.0}) {
    CHECK(parse_double(shortest(value)) == value);
  }
  CHECK(shortest(25000) == "25000");
  CHECK(shortest(0.5) == "0.5");
}

TEST_CASE("SlipsOfTheFingersFindTheirWord") {
  const std::vector<std::string> presets = {"dcgan", "lsgan", "wgan-gp", "dcgan-tiny", "stylegan2"};
  CHECK(likely_meant("dcgam", presets).front() == "dcgan");
  CHECK(likely_meant("sytlegan2", presets).front() == "stylegan2");
  CHECK(likely_meant("xyzzyqqq", presets).empty());
  CHECK(likely_meant("stylegan3",
                     {"stylegan1", "stylegan3-t-ffhq", "stylegan3-t", "stylegan3-tiny"}) ==
        std::vector<std::string>{"stylegan3-t", "stylegan3-tiny", "stylegan3-t-ffhq"});
  CHECK(did_you_mean("batchsize", {"train.batch", "train.seed"}) == "; did you mean train.batch?");
}
