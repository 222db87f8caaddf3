// SPDX-License-Identifier: Apache-2.0
// A command that is said can be run as it is printed, however the program was started.
#include <cstdlib>

#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

const std::string kTyped = "./my gantrain";

Outcome run(const std::string& arguments, const TemporaryFolder& folder) {
  return gantrain(tiny(arguments), {.folder = folder.path(), .typed = kTyped});
}

std::string next_command(const Outcome& outcome) {
  const std::string last = trim(outcome.err.substr(outcome.err.rfind("\nnext    ") + 1));
  INFO(outcome.err);
  REQUIRE(starts_with(last, "next    "));
  return last.substr(std::string("next    ").size());
}

TEST_CASE("WhatIsToBeRunNextCanBeRunAsPrinted") {
  const TemporaryFolder folder;
  fs::create_symlink(gantrain_program(), folder / "my gantrain");
  const Outcome done = run("--kimg 0 --nproc 2 --run-dir run", folder);  // a rank says it
  REQUIRE(done.code == 0);
  const std::string command = next_command(done);
  CHECK(command == "'./my gantrain' generate --model run --seeds 0-63 -o grid.png");
  const std::string line = fmt::format(
      "cd {} && {} --device cpu >said 2>&1", shell_quote(folder.path().string()), command);
  CHECK(std::system(line.c_str()) == 0);
  INFO(read_file(folder / "said"));
  CHECK(fs::exists(folder / "grid.png"));
  CHECK(holds(read_file(folder / "said"), "next    './my gantrain' interpolate --model run "));
}

TEST_CASE("TheLauncherSaysTheCommandThatResumesAsItWasTyped") {
  const TemporaryFolder folder;
  const Outcome stopped = run("--stop-after 0.5s --kimg 500 --run-dir run", folder);
  REQUIRE(stopped.code == 75);
  CHECK(starts_with(next_command(stopped), "'./my gantrain' "));
  CHECK(starts_with(read_file(folder / "run/command.txt"), "'./my gantrain' "));
}

TEST_CASE("MessagesAndHelpSayTheProgramAsItWasTyped") {
  const TemporaryFolder folder;
  const CommandOptions typed{.folder = folder.path(), .typed = "build/gantrain"};
  CHECK(holds(gantrain(words_of("--help"), typed).out, "\n  build/gantrain --preset dcgan-tiny "));
  CHECK(holds(gantrain(words_of("help start"), typed).out, "\n  build/gantrain --preset "));
  CHECK(holds(gantrain(words_of("report"), typed).err, "build/gantrain report RUN"));
  CHECK(holds(gantrain(words_of("data inspect"), typed).err, "build/gantrain data inspect PATH"));
}

}  // namespace
}  // namespace gantrain
