// SPDX-License-Identifier: Apache-2.0
#include "util/log.h"

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

TEST_CASE("TheFileGetsItsLevelsWithATime") {
  const TemporaryFolder folder;
  set_log({Level::kError, Level::kWarning, folder / "log.txt", ""});
  info("not there");
  warn("number {}", 7);
  set_log({});
  const std::string text = read_file(folder / "log.txt");
  CHECK(text.find("not there") == std::string::npos);
  CHECK(text.find("warning number 7\n") == 20);  // after "2026-01-12 09:14:31 "
}

TEST_CASE("TheConsoleLevelCanBeAsked") {
  set_log({Level::kWarning, Level::kInfo, {}, ""});
  CHECK(log_console_level() == Level::kWarning);
}

TEST_CASE("KeptLinesAreThoseOfALogFile") {
  set_log({Level::kError, Level::kInfo, {}, ""});
  keep_log_lines();
  info("started {}", 1);
  debug("not kept");
  error("failed");
  const std::vector<std::string> lines = take_kept_lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].substr(20) == "started 1");  // after "2026-01-12 09:14:31 "
  CHECK(lines[1].substr(20) == "error   failed");
  CHECK(take_kept_lines().empty());
  set_log({Level::kError, Level::kInfo, {}, ""});
  info("after");
  CHECK(take_kept_lines().empty());
}

TEST_CASE("AnErrorIsToldAlsoWhereItsFileCannotBeWritten") {
  const TemporaryFolder folder;
  set_log({Level::kError, Level::kInfo, folder / "gone/log.txt", ""});
  CHECK_THROWS_AS(info("lost"), UserError);
  CHECK_NOTHROW(error("told"));
  set_log({});
}

TEST_CASE("NoTextFromOutsideForgesALineOrReachesTheTerminal") {
  set_log({Level::kError, Level::kInfo, {}, ""});
  keep_log_lines();
  const std::string forged = "cat\n2026-01-12 09:14:31 error   forged\x1b]0;owned\x07\r";
  info("class {}", forged);
  log_line(Level::kInfo, "two\n\tlines\x1b[2J");
  const std::vector<std::string> lines = take_kept_lines();
  set_log({Level::kError, Level::kInfo, {}, ""});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].substr(20) ==
        "class cat\\x0a2026-01-12 09:14:31 error   forged\\x1b]0;owned\\x07\\x0d");
  CHECK(lines[1].substr(20) == "two\n\tlines\\x1b[2J");
}
