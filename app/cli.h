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
  // The verbs that it consists of, as pack of data; null: none.
  const std::vector<Verb>& (*parts)() = nullptr;
};

int train_verb(const std::vector<std::string>& arguments);
int generate_verb(const std::vector<std::string>& arguments);
int export_verb(const std::vector<std::string>& arguments);
int import_verb(const std::vector<std::string>& arguments);
int metrics_verb(const std::vector<std::string>& arguments);
int inspect_file_verb(const std::vector<std::string>& arguments);
int interpolate_verb(const std::vector<std::string>& arguments);
int nn_verb(const std::vector<std::string>& arguments);
int project_verb(const std::vector<std::string>& arguments);
int report_verb(const std::vector<std::string>& arguments);
int serve_verb(const std::vector<std::string>& arguments);
int presets_verb(const std::vector<std::string>& arguments);
int slurm_verb(const std::vector<std::string>& arguments);
int data_verb(const std::vector<std::string>& arguments);
int doctor_verb(const std::vector<std::string>& arguments);
int bench_verb(const std::vector<std::string>& arguments);
int help_verb(const std::vector<std::string>& arguments);

const std::vector<Verb>& verbs();
const std::vector<Verb>& data_verbs();
const std::vector<Verb>& benchmarks();

// Parses the arguments with CLI11. Returns false if --help was asked for and printed. Throws
// UserError(kUsage) in one line; for an unknown flag it names the nearest ones.
bool parse(CLI::App& app, std::vector<std::string> arguments);

// As parse(), for a verb that passes on what it does not know: these words come back in `unknown`,
// in their order.
bool parse_known(CLI::App& app,
                 std::vector<std::string> arguments,
                 std::vector<std::string>& unknown);

// Returns the long names of the flags: "--seeds".
std::vector<std::string> flag_names(const CLI::App& app);

// Throws UserError(kUsage) where an argument or a GANTRAIN_* variable is not UTF-8: it could not be
// written as JSON, in which configurations travel.
void check_text(const std::vector<std::string>& arguments);

// Returns the whole command line, quoted for a shell, for command.txt and the line that says how to
// resume.
std::string command_line();

}  // namespace gantrain
