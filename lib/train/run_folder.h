// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// Makes OUT/00007-NAME with the first free number, also while other jobs do the same, and points
// OUT/latest at it. Throws UserError(kDisk) where that fails.
std::filesystem::path make_numbered_folder(const std::filesystem::path& out,
                                           const std::string& name);

// Writes the line of the file STATUS: "running", "done 200 kimg", "stopped 12.3 kimg (signal 15),
// resumable", "failed with exit code 6; ...".
void write_status(const std::filesystem::path& folder, const std::string& line);
std::string read_status(const std::filesystem::path& folder);  // "" if there is none

// Find the state or the model files of a run, newest first, by the images seen that their names
// tell.
struct NumberedFile {
  std::filesystem::path path;
  int64_t images = 0;
};
std::vector<NumberedFile> find_states(const std::filesystem::path& folder);
std::vector<NumberedFile> find_models(const std::filesystem::path& folder);

// Returns a model file: `file_or_run` itself, or the newest model of that run folder. Throws
// UserError(kInput) if there is none.
std::filesystem::path find_model(const std::filesystem::path& file_or_run);

// Removes state files that neither keep_last (files) nor keep_every (images; 0: none) protects.
void prune_states(const std::filesystem::path& folder, int64_t keep_last, int64_t keep_every);
// Likewise removes models; model-best.safetensors stays.
void prune_models(const std::filesystem::path& folder, int64_t keep_last, int64_t keep_every);

// Renames states and models with more than `images` images seen, which belong to a history that the
// run leaves behind, so that neither resume nor generate takes them: superseded-state-000200.pt.
// Returns how many.
int64_t set_aside(const std::filesystem::path& folder, int64_t images);

// Whether the user has made the file `name` ("SAVE", "STOP") in the folder. The file is removed, so
// that each request counts once.
bool take_request(const std::filesystem::path& folder, const std::string& name);

// Returns the command that resumes the run in `folder`, made from the command that started it.
std::string resume_command(const std::string& command, const std::string& folder);
// Returns the command that draws a first grid with a model file or with the newest model of a run;
// `more` holds further flags.
std::string generate_command(const std::string& model, const std::string& more = "");

// Describes gantrain's version, the host, its processors, device, ranks and batch system, for
// env.json.
Json describe_environment(const std::string& device, int64_t world);

}  // namespace gantrain
