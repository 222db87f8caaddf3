// SPDX-License-Identifier: Apache-2.0
#include "util/text.h"

#include <stdexcept>

#include "support/catch.h"

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
  CHECK(shortest(1e308) == "1e+308");
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
  CHECK(likely_meant("stylegan2-ada-paper256",
                     {"stylegan2", "stylegan2-ada", "stylegan2-paper256", "stylegan2-paper512"}) ==
        std::vector<std::string>{"stylegan2-paper256"});
  CHECK(likely_meant("--sheeet", {"--sheet", "--seed"}) == std::vector<std::string>{"--sheet"});
}

TEST_CASE("WordsThatAreFarAreNotSuggested") {
  CHECK(likely_meant("--source", {"--force", "--filter", "--output"}).empty());
  CHECK(likely_meant("--dest", {"--seed", "--fit"}).empty());
  CHECK(likely_meant("yes", {"all", "data", "dist.sync_bn", "save.keep_best"}).empty());
  CHECK(likely_meant("-x", {"--z", "--w"}).empty());
}

TEST_CASE("ATemplateIsFilledOnce") {
  CHECK(fill_template("a @b@ @c@@b@", {{"b", "@c@"}, {"c", ""}}) == "a @c@ @c@");
  CHECK(fill_template("nothing\n", {}) == "nothing\n");
  CHECK_THROWS_AS(fill_template("@b@", {{"c", ""}}), std::out_of_range);
}

TEST_CASE("ATableHasTrimmedCellsAndTheLastMayHaveBars") {
  const std::vector<std::vector<std::string>> rows =
      table_rows("# comment | x\n\nname | | a|b | c\nshort\n", 3);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0] == std::vector<std::string>{"name", "", "a|b | c"});
  CHECK(rows[1] == std::vector<std::string>{"short", "", ""});
}

TEST_CASE("TextFromOutsideBecomesPrintable") {
  CHECK(printable("os.system") == "os.system");
  CHECK(printable("a\n\x1b\xff\x7f") == "a\\x0a\\x1b\\xff\\x7f");
  CHECK(printable("a\n\tb\r", std::string::npos, "\n\t") == "a\n\tb\\x0d");
  CHECK(printable(std::string(200, 'x')) == std::string(80, 'x') + "...");
  CHECK(printable("\xc3\xa4 \xe7\x8c\xab \xf0\x9f\x90\x88") ==
        "\xc3\xa4 \xe7\x8c\xab \xf0\x9f\x90\x88");
  CHECK(printable("\xc2\x9b\x33\x31m") == "\\xc2\\x9b31m");  // CSI in one character
  CHECK(printable("\xe2\x80\xae|\xc2\x85") == "\\xe2\\x80\\xae|\\xc2\\x85");  // turns; a new line
  CHECK(printable("\xe2\x80") == "\\xe2\\x80");
}

TEST_CASE("ArgumentsOfMessagesAreOneLine") {
  const std::string forged = "a\nerror   b\x1b[0m";
  CHECK(message_text("{}: {}\n{:>3}|{:<3}|", forged, "x\ny", 7, std::string_view("z")) ==
        "a\\x0aerror   b\\x1b[0m: x\ny\n  7|z  |");
}
