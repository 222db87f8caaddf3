// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "report/console.h"
#include "support/pseudo_terminal.h"
#include "support/scoped_variable.h"
#include "util/log.h"
#include "util/time.h"

namespace gantrain {
namespace {

constexpr const char* kClear = "\r\033[K";

std::string after_clear(const std::string& text) {
  REQUIRE(text.rfind(kClear, 0) == 0);
  return text.substr(4);
}

TEST_CASE("ATerminalSeesWhatARunDoesBeforeItsFirstIteration") {
  const ScopedVariable kind("TERM", "xterm");
  const PseudoTerminal terminal;
  {
    StartLine line(monotonic_seconds() - 200, /*wanted=*/true);
    line.show("opening data");
    CHECK(after_clear(terminal.take()) == " starting 3m20s  opening data");
    terminal.resize(20);
    line.show("set-up");
    CHECK(after_clear(terminal.take()).substr(0, 14) == " starting 3m20");
  }
  CHECK(terminal.take() == kClear);
}

TEST_CASE("AfterTheFirstIterationTheLineIsTheBars") {
  const ScopedVariable kind("TERM", "xterm"), plain("NO_COLOR", "1");
  const PseudoTerminal terminal;
  Console console;
  {
    StartLine line(monotonic_seconds(), /*wanted=*/true);
    line.show("set-up");
    line.end();
    terminal.take();
    line.show("loading data");
  }
  CHECK(terminal.take().empty());
  console.update({.kimg = 1, .total_kimg = 4});
  CHECK(after_clear(terminal.take()).substr(0, 16) == " kimg 1.00/4  25");
}

TEST_CASE("AQuietRunShowsNoStart") {
  const ScopedVariable kind("TERM", "xterm");
  const PseudoTerminal terminal;
  StartLine line(monotonic_seconds(), /*wanted=*/false);
  line.show("opening data");
  CHECK(terminal.take().empty());
}

TEST_CASE("TheBarFollowsTheSizeOfItsWindow") {
  const ScopedVariable kind("TERM", "xterm"), plain("NO_COLOR", "1");
  const PseudoTerminal terminal;
  Console console;
  Progress p = {.kimg = 12.4, .total_kimg = 50, .seconds = 20, .kimg_per_second = 0.61};
  console.update(p);
  CHECK(after_clear(terminal.take()).size() > 60);
  terminal.resize(40);
  p.seconds += 1;
  console.update(p);
  CHECK(after_clear(terminal.take()) == " kimg 12.4/50  25%  eta 1m02s");
}

TEST_CASE("TheDonePartOfTheBarIsGreenOnATerminal") {
  const ScopedVariable kind("TERM", "xterm"), plain("NO_COLOR", nullptr),
      asked(kColorVariable, nullptr);
  const PseudoTerminal terminal;
  Console console;
  console.update({.kimg = 25, .total_kimg = 50, .kimg_per_second = 0.61});
  CHECK(terminal.take().find("|\033[32m##") != std::string::npos);
  console.finish();
}

}  // namespace
}  // namespace gantrain
