// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gantrain {

// One verb of the program: `gantrain NAME ...`, one file each.
struct Verb {
  const char* name;
  const char* about;  // one line for `gantrain --help`
  // Gets the arguments after the verb; returns the exit status.
  int (*run)(const std::vector<std::string>& arguments);
};

int train_verb(const std::vector<std::string>& arguments);
int generate_verb(const std::vector<std::string>& arguments);
int import_verb(const std::vector<std::string>& arguments);
int interpolate_verb(const std::vector<std::string>& arguments);
int presets_verb(const std::vector<std::string>& arguments);
int doctor_verb(const std::vector<std::string>& arguments);
int bench_verb(const std::vector<std::string>& arguments);
int help_verb(const std::vector<std::string>& arguments);

const std::vector<Verb>& verbs();

// Parses with CLI11. Returns false if --help was asked for (and printed). Throws UserError(kUsage)
// in one line; an unknown flag names the nearest ones.
bool parse(CLI::App& app, std::vector<std::string> arguments);

// Throws UserError(kUsage) where an argument or a GANTRAIN_* variable is not UTF-8: it could not
// travel in JSON, as configurations do.
void check_text(const std::vector<std::string>& arguments);

// The whole command line, quoted for a shell: for command.txt and the line that says how to resume.
std::string command_line();

}  // namespace gantrain
