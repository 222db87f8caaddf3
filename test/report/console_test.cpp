// SPDX-License-Identifier: Apache-2.0
#include "report/console.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/pseudo_terminal.h"
#include "support/scoped_variable.h"
#include "support/temporary_folder.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {
namespace {

Progress quarter() {
  return {.kimg = 12.4,
          .total_kimg = 50,
          .seconds = 20,
          .kimg_per_second = 0.61,
          .tick = 3,
          .losses = {{"G", 1.31}, {"D", 0.88}},
          .cpu_mem_gb = 0.42};
}

// Standard error goes to a file for as long as this lives.
class CaughtErrors {
 public:
  CaughtErrors() : path_(folder_.path() / "stderr"), before_(::dup(STDERR_FILENO)) {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, STDERR_FILENO);
    ::close(file);
  }
  ~CaughtErrors() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  std::string text() const { return read_file(path_); }
  std::vector<std::string> lines() const { return split(trim(text()), '\n'); }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
  int before_;
};

TEST_CASE("BarFitsItsTerminal") {
  CHECK(render_bar(quarter(), 40) == " kimg 12.4/50  25%  eta 1m02s");
  CHECK(render_bar(quarter(), 80) ==
        " kimg 12.4/50  25% |####---------------| 610 images/s  eta 1m02s  G 1.31 D 0.88");
  CHECK(render_bar(quarter(), 100) ==
        " kimg 12.4/50  25% |######---------------------| 610 images/s  eta 1m02s  G 1.31 D 0.88  "
        "mem 0.4 GB");
  CHECK(render_bar(quarter(), 200) ==
        " kimg 12.4/50  25% |#######-----------------------| 610 images/s  eta 1m02s  G 1.31 D 0.88"
        "  mem 0.4 GB");
}

TEST_CASE("BarIsNeverAsWideAsTheTerminal") {
  Progress p = quarter();
  p.gpu_mem_gb = 12;
  for (int64_t width = 0; width < 220; ++width) {
    CHECK(static_cast<int64_t>(render_bar(p, width).size()) <= std::max<int64_t>(0, width - 1));
  }
}

TEST_CASE("BarOfOddNumbersStaysReadable") {
  Progress p = quarter();
  p.kimg_per_second = 0;
  CHECK(render_bar(p, 60) == " kimg 12.4/50  25% |##----------| G 1.31 D 0.88  mem 0.4 GB");
  p.losses = {{"G", std::numeric_limits<double>::quiet_NaN()}, {"D", 1234567}};
  CHECK(render_bar(p, 60) == " kimg 12.4/50  25% |##--------| G nan D 1.2e+06  mem 0.4 GB");
  p.total_kimg = 0;
  CHECK(render_bar(p, 60) == " kimg 12.4  G nan D 1.2e+06  mem 0.4 GB");
  p = {.kimg = 0.128, .total_kimg = 0.512, .kimg_per_second = 0.05};
  CHECK(render_bar(p, 60) == " kimg 0.128/0.512  25% |###-----------| 50 images/s  eta 8s");
  p = {.kimg = 49.99, .total_kimg = 50};
  CHECK(render_bar(p, 30) == " kimg 50.0/50  99%");
  p = {.kimg = 60, .total_kimg = 50};
  CHECK(render_bar(p, 30) == " kimg 60.0/50 100%");
}

TEST_CASE("TickIsOneSelfContainedLine") {
  Progress p = {.kimg = 200,
                .total_kimg = 25000,
                .seconds = 201,
                .kimg_per_second = 1.0,
                .tick = 50,
                .losses = {{"G", 1.31}, {"D", 0.88}},
                .cpu_mem_gb = 1.2};
  CHECK(render_tick(p) ==
        "tick 50  kimg 200.0/25000  time 3m21s  eta 6h53m  sec/kimg 1.00  G 1.31  D 0.88  mem 1.2 "
        "GB");
  p.gpu_mem_gb = 12.1;
  p.losses.clear();
  CHECK(render_tick(p) ==
        "tick 50  kimg 200.0/25000  time 3m21s  eta 6h53m  sec/kimg 1.00  "
        "mem 1.2 GB  gpu 12.1 GB");
  p.kimg_per_second = 0;  // the first tick of a run: no guess is said
  CHECK(render_tick(p) == "tick 50  kimg 200.0/25000  time 3m21s  mem 1.2 GB  gpu 12.1 GB");
}

TEST_CASE("WhatElseIsWatchedFollowsTheLosses") {
  Progress p = quarter();
  p.watched = {{"ada p", 0.31}, {"swd", 12.83}};
  CHECK(render_bar(p, 110) ==
        " kimg 12.4/50  25% |###-----------| 610 images/s  eta 1m02s  G 1.31 D 0.88  ada p 0.31  "
        "swd 12.83  mem 0.4 GB");
  CHECK(render_bar(p, 80) == render_bar(quarter(), 80));
  CHECK_THAT(render_tick(p), Catch::Contains("D 0.88  ada p 0.31  swd 12.83  mem 0.4 GB"));
  p.watched.back().kimg = 8;  // measured earlier than the line
  CHECK_THAT(render_tick(p), Catch::Contains("ada p 0.31  swd 12.83 (kimg 8)  mem 0.4 GB"));
  CHECK_THAT(render_bar(p, 120), Catch::Contains("swd 12.83 (kimg 8)"));
  p.watched.back().kimg = p.kimg;
  CHECK_THAT(render_tick(p), Catch::Contains("swd 12.83  mem 0.4 GB"));
}

TEST_CASE("TheDonePartOfABarIsPaintedAndNothingElse") {
  CHECK(paint_bar(" 25% |##--| 3") == " 25% |\033[32m##\033[0m--| 3");
  CHECK(paint_bar(" 100% |####| 3") == " 100% |\033[32m####\033[0m| 3");
  CHECK(paint_bar(" 0% |----| 3") == " 0% |----| 3");
  CHECK(paint_bar("no bar").find('\033') == std::string::npos);
}

TEST_CASE("EveryTickButTheFirstHasAnEta") {
  const CaughtErrors errors;
  for (const bool live : {true, false}) {
    Console console(Terminal{.live = live, .width = 80});
    const auto line = [&](int tick) {
      return console.tick(
          {.kimg = tick * 1.0, .total_kimg = 4, .seconds = tick * 10.0, .tick = tick});
    };
    CHECK(line(1) == "tick 1  kimg 1.00/4  time 10s  mem 0.0 GB");
    CHECK(line(2) == "tick 2  kimg 2.00/4  time 20s  eta 20s  sec/kimg 10.00  mem 0.0 GB");
    CHECK(line(3) == "tick 3  kimg 3.00/4  time 30s  eta 10s  sec/kimg 10.00  mem 0.0 GB");
    console.finish();
  }
}

TEST_CASE("SpeedIsThatOfTheLastTicks") {
  Speed speed;
  Progress p;
  CHECK(speed.kimg_per_second(p) == 0);
  for (int tick = 0; tick < 10; ++tick) {  // a slow start
    speed.add(p);
    p.kimg += 1;
    p.seconds += 100;
  }
  for (int tick = 0; tick < 10; ++tick) {
    speed.add(p);
    p.kimg += 1;
    p.seconds += 2;
  }
  CHECK(speed.kimg_per_second(p) == Approx(0.5));
}

TEST_CASE("ElsewhereThereIsAtMostOneLineAMinuteAndTheFirstAndTheLast") {
  const CaughtErrors errors;
  {
    Console console(Terminal{.live = false});
    for (int tick = 1; tick <= 15; ++tick) {  // every 10 s
      Progress p = {.kimg = tick * 1.0, .total_kimg = 15, .seconds = tick * 10.0, .tick = tick};
      console.update(p);
      console.tick(p);
    }
    console.finish();
    console.finish();
  }
  std::vector<std::string> firsts;
  for (const std::string& line : errors.lines()) firsts.push_back(line.substr(0, 8));
  CHECK(firsts == std::vector<std::string>{"tick 1  ", "tick 7  ", "tick 13 ", "tick 15 "});
  CHECK(errors.text().find('\r') == std::string::npos);
  CHECK(errors.text().find('\033') == std::string::npos);
  CHECK(errors.lines()[1] ==
        "tick 7  kimg 7.0/15  time 1m10s  eta 1m20s  sec/kimg 10.00  mem 0.0 GB");
}

TEST_CASE("ALastTickThatWasShownIsNotShownAgain") {
  const CaughtErrors errors;
  Console console(Terminal{.live = false});
  console.tick({.kimg = 1, .total_kimg = 1, .seconds = 1, .tick = 1});
  console.finish();
  CHECK(errors.lines().size() == 1);
}

TEST_CASE("OnATerminalTheBarIsRedrawnTenTimesASecondAndClearedAtTheEnd") {
  const CaughtErrors errors;
  {
    Console console(Terminal{.live = true, .width = 80});
    for (int i = 0; i <= 100; ++i) {  // one second
      Progress p = quarter();
      p.seconds = i / 100.0;
      p.kimg = 12 + i / 10.0;
      console.update(p);
    }
    console.finish();
  }
  const std::string text = errors.text();
  const auto drawn = std::count(text.begin(), text.end(), '\r');
  CHECK(drawn >= 9);
  CHECK(drawn <= 12);  // the last one clears
  CHECK(text.find('\n') == std::string::npos);
  CHECK(ends_with(text, "\r\033[K"));
}

TEST_CASE("AFileIsNoTerminal") {
  const CaughtErrors errors;
  CHECK(!detect_terminal().live);
}

TEST_CASE("WidthComesFromColumnsWhereThereIsNoTerminal") {
  const CaughtErrors errors;
  ::setenv("COLUMNS", "123", 1);
  CHECK(terminal_width() == 123);
  ::setenv("COLUMNS", "wide", 1);
  CHECK(terminal_width() == 80);
  ::unsetenv("COLUMNS");
  CHECK(terminal_width() == 80);
}

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
