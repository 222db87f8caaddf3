// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include "support/catch.h"
#include "support/pseudo_terminal.h"
#include "support/scoped_variable.h"
#include "support/temporary_folder.h"
#include "util/file.h"
#include "util/log.h"

namespace gantrain {
namespace {

TEST_CASE("WordsThatMatterHaveColors") {
  CHECK(paint_first_word("error   it failed") == "\033[31merror\033[0m   it failed");
  CHECK(paint_first_word("warning a disk") == "\033[33mwarning\033[0m a disk");
  CHECK(paint_first_word("next    gantrain") == "\033[36mnext\033[0m    gantrain");
  CHECK(paint_first_word("done    3 kimg") == "\033[32mdone\033[0m    3 kimg");
  CHECK(paint_first_word("done") == "\033[32mdone\033[0m");
  CHECK(paint_first_word("tick 1  an error") == "tick 1  an error");
  CHECK(paint_first_word("nextly done").find('\033') == std::string::npos);
  CHECK(paint_first_word("").empty());
}

TEST_CASE("ColorsAreForTerminalsUnlessSomebodySaysOtherwise") {
  const ScopedVariable kind("TERM", "xterm"), plain("NO_COLOR", nullptr),
      asked(kColorVariable, nullptr);
  const PseudoTerminal terminal;
  CHECK(shows_colors());
  {
    const ScopedVariable empty("NO_COLOR", "");  // counts as not set, by no-color.org
    CHECK(shows_colors());
  }
  {
    const ScopedVariable no("NO_COLOR", "1");
    CHECK(!shows_colors());
    const ScopedVariable always(kColorVariable, "always");
    CHECK(shows_colors());
  }
  {
    const ScopedVariable never(kColorVariable, "never");
    CHECK(!shows_colors());
  }
  for (const char* other : {"dumb", ""}) {
    const ScopedVariable dumb("TERM", other);
    CHECK(!shows_colors());
  }
  const ScopedVariable unset("TERM", nullptr);
  CHECK(!shows_colors());
}

// What a warning looks like in a file that is standard error. The log file has no colours.
std::string warning_in_a_file() {
  const TemporaryFolder folder;
  const int file = ::open((folder / "stderr").c_str(), O_WRONLY | O_CREAT, 0600);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::close(file);
  set_log({Level::kInfo, Level::kInfo, folder / "log.txt", ""});
  keep_log_lines();
  warn("careful");
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  const std::vector<std::string> kept = take_kept_lines();
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].find('\033') == std::string::npos);
  set_log({});
  CHECK(read_file(folder / "log.txt").find('\033') == std::string::npos);
  return read_file(folder / "stderr");
}

TEST_CASE("AFileHasColorsOnlyWhenAlwaysIsSaidAndALogFileNever") {
  const ScopedVariable kind("TERM", "xterm"), plain("NO_COLOR", nullptr),
      asked(kColorVariable, nullptr);
  CHECK(warning_in_a_file() == "warning careful\n");
  const ScopedVariable always(kColorVariable, "always");
  CHECK(warning_in_a_file() == "\033[33mwarning\033[0m careful\n");
}

}  // namespace
}  // namespace gantrain
