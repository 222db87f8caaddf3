// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_folder.h"

namespace gantrain {

using Words = std::vector<std::string>;

// `words` split at blanks.
Words words(const std::string& text);

// The smallest training there is, 32 iterations of a second together, with more words behind.
Words tiny(const std::string& more = "");

// tiny() in `folder`/NAME; requires exit code 0. Returns that run folder.
std::filesystem::path train(const TemporaryFolder& folder,
                            const std::string& name,
                            const std::string& more);

// SHA-256 of the run's last model.
std::string model_sha(const std::filesystem::path& run);

// Files of a run folder by name, oldest first.
std::vector<std::filesystem::path> files_like(const std::filesystem::path& run,
                                              const std::string& prefix);

// Which process is which rank, of a run at work: {"0": 1234, ...}.
nlohmann::json pids_of(const std::filesystem::path& run);

// Whether `part` stands in `text`.
bool holds(const std::string& text, const std::string& part);

// What a file holds; "" while it is not there.
std::string text_in(const std::filesystem::path& path);

// One line, starting with "error".
bool is_one_error_line(const std::string& text);

}  // namespace gantrain
