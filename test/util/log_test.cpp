// SPDX-License-Identifier: Apache-2.0
#include "util/log.h"

#include <catch2/catch.hpp>

#include "temporary_folder.h"
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
