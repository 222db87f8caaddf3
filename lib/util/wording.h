// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Words that many messages have.

namespace gantrain {

// Returns a number with what it counts: "1 rank", "2 ranks", "3 classes", "0 copies".
std::string counted(int64_t number, std::string_view noun);

// Returns "7 MB are needed, the disk has 6 MB free". Rounded away from each other, the numbers
// always differ where the bytes do.
std::string lack_text(int64_t needed_bytes, int64_t free_bytes);

// Variables of the environment by which a process tells those that it starts, and the libraries
// that it loads, how the user started the program, and whether -q was given ("1").
constexpr const char* kProgramVariable = "GANTRAIN_PROGRAM";
constexpr const char* kQuietVariable = "GANTRAIN_QUIET";

// Notes how the program was started: `name` is main()'s first argument.
void note_program(std::string_view name);

// Returns the words that start this program again from where it was started, quoted for a shell:
// "gantrain", "build/gantrain", "./scripts/run.sh". In a process in which nobody has noted that it
// is "gantrain".
std::string program();

}  // namespace gantrain
