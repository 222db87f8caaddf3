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
  // Runs the verb with the arguments after its name; returns the exit status.
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

// Parses the arguments with CLI11. Returns false if --help was asked for and printed. Throws
// UserError(kUsage) in one line; for an unknown flag it names the nearest ones.
bool parse(CLI::App& app, std::vector<std::string> arguments);

// Throws UserError(kUsage) where an argument or a GANTRAIN_* variable is not UTF-8: it could not be
// written as JSON, in which configurations travel.
void check_text(const std::vector<std::string>& arguments);

// Returns the whole command line, quoted for a shell, for command.txt and the line that says how to
// resume.
std::string command_line();

}  // namespace gantrain
