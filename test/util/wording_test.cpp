// SPDX-License-Identifier: Apache-2.0
#include "util/wording.h"

#include <cstdlib>

#include "support/catch.h"
#include "support/scoped_variable.h"

namespace gantrain {

TEST_CASE("OneIsNoPlural") {
  CHECK(counted(1, "rank") == "1 rank");
  CHECK(counted(2, "rank") == "2 ranks");
  CHECK(counted(0, "visible GPU") == "0 visible GPUs");
  CHECK(counted(3, "class") == "3 classes");
  CHECK(counted(4, "copy") == "4 copies");
  CHECK(counted(5, "way") == "5 ways");
}

TEST_CASE("WhatIsNeededAndWhatIsThereAreDifferentNumbers") {
  CHECK(lack_text(7'000'000, 6'999'999) == "7 MB are needed, the disk has 6 MB free");
  CHECK(lack_text(7'000'001, 7'000'000) == "8 MB are needed, the disk has 7 MB free");
}

TEST_CASE("AMessageSaysTheProgramAsItWasStarted") {
  const ScopedVariable nobody_noted_it(kProgramVariable, "");
  CHECK(program() == "gantrain");
  note_program("./scripts/run.sh");
  CHECK(program() == "./scripts/run.sh");
  note_program("my build/gantrain");
  CHECK(program() == "'my build/gantrain'");
  note_program("");  // a caller that gives a program no name at all
  CHECK(program() == "'my build/gantrain'");
}

}  // namespace gantrain
