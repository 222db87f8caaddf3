// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "support/process.h"
#include "support/temporary_folder.h"

namespace gantrain {

using Words = std::vector<std::string>;

// `words` split at blanks.
Words words_of(const std::string& text);

// The smallest training there is, 32 iterations of a second together, with more words behind.
Words tiny(const std::string& more = "");

// The program with `arguments` in `folder`.
Outcome run_in(const TemporaryFolder& folder, const std::string& arguments);
// The same; requires exit code 0.
Outcome succeed(const TemporaryFolder& folder, const std::string& arguments);

// tiny() in `folder`/NAME; requires exit code 0. Returns that run folder.
std::filesystem::path train(const TemporaryFolder& folder,
                            const std::string& name,
                            const std::string& more);

// The same run, trained once for all tests of this build and copied from build/test_runs/. Its
// files are those of that training, which was named "run": its times, its process ids, what
// command.txt, config.json and the log call it. Such a run may be looked at, resumed and spoiled;
// its flags may name no files. What tests training itself calls train().
std::filesystem::path trained(const TemporaryFolder& folder,
                              const std::string& name,
                              const std::string& more);

// The run's last model.
std::filesystem::path last_model(const std::filesystem::path& run);
// SHA-256 of it.
std::string model_sha(const std::filesystem::path& run);

// Checks that two ranks train the weights of one rank with two accumulated parts, in every
// --ddp-mode and with `more` flags. Returns the SHA-256 of the last model.
std::string check_same_on_two_ranks(const std::string& flags, const std::string& more = "");

// The mean of a statistic in a line of stats.jsonl.
double mean_of(const nlohmann::ordered_json& line, const std::string& name);

// Files of a run folder by name, oldest first.
std::vector<std::filesystem::path> files_like(const std::filesystem::path& run,
                                              const std::string& prefix);

// Whether the model before training is there, which rank 0 writes beside the first iterations, and
// takes with it when it is killed while it writes.
bool has_model(const std::filesystem::path& run);

// Which process is which rank, of a run at work: {"0": 1234, ...}.
nlohmann::ordered_json pids_of(const std::filesystem::path& run);

// Whether `part` stands in `text`.
bool holds(const std::string& text, const std::string& part);

// What a file holds; "" while it is not there.
std::string text_in(const std::filesystem::path& path);

// One line, starting with "error".
bool is_one_error_line(const std::string& text);

// The command of the last line "next    gantrain ...".
std::string next_of(const Outcome& outcome);

// Checks that commands in the folder are refused: arguments, exit code, and what the only line of
// the error names.
void check_refusals(const TemporaryFolder& folder,
                    const std::vector<std::tuple<std::string, int, std::string>>& table);

}  // namespace gantrain
