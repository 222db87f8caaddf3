// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// Makes OUT/00007-NAME with the first free number (safe against other jobs doing the same) and
// points OUT/latest at it. Throws UserError(kDisk).
std::filesystem::path make_numbered_folder(const std::filesystem::path& out,
                                           const std::string& name);

// What stands in STATUS: one line, "running", "done 200 kimg", "stopped 12.3 kimg (signal 15),
// resumable", "failed with exit code 6; ...".
void write_status(const std::filesystem::path& folder, const std::string& line);
std::string read_status(const std::filesystem::path& folder);  // "" if there is none

// State and model files of a run by the images seen that their names tell, newest first.
struct NumberedFile {
  std::filesystem::path path;
  int64_t images = 0;
};
std::vector<NumberedFile> find_states(const std::filesystem::path& folder);
std::vector<NumberedFile> find_models(const std::filesystem::path& folder);

// A model file: `file_or_run` itself, or the newest model of that run folder. Throws
// UserError(kInput) if there is none.
std::filesystem::path find_model(const std::filesystem::path& file_or_run);

// Removes states that neither keep_last nor keep_every (images; 0: none) protects.
void prune_states(const std::filesystem::path& folder, int64_t keep_last, int64_t keep_every);

// States and models of a history that is left behind (more images seen than `images`) get names
// that neither resume nor generate takes: superseded-state-000200.pt. Returns how many.
int64_t set_aside(const std::filesystem::path& folder, int64_t images);

// True once if the user made the file `name` ("SAVE", "STOP") in the folder; it is removed.
bool take_request(const std::filesystem::path& folder, const std::string& name);

// The command that goes on with the run in `folder`, made of the one that started it.
std::string resume_command(const std::string& command, const std::string& folder);
// The command that draws a first grid of a model file, or of a run's newest one; `more` flags.
std::string generate_command(const std::string& model, const std::string& more = "");

// TrainCallbacks, versions, processors, batch system: env.json.
Json describe_environment(const std::string& device, int64_t world);

}  // namespace gantrain
