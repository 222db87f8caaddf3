// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gan/recipe.h"

namespace gantrain {

// Which tensors of a fresh run came from a model file, each as "G_ema.NAME", "G.NAME", "D.NAME".
struct InitTable {
  struct Row {
    std::string name;
    std::string reason;  // "[64, 3] in the file, [32, 3] here"
  };
  std::filesystem::path file;
  std::vector<std::string> loaded;  // " from NAME" behind it where the file calls it otherwise
  std::vector<Row> reinitialised;   // missing in the file or of another shape: left as they are
  std::vector<Row> skipped;         // in the file alone, under the file's names
};

// Transfer learning: copies every tensor of a model file, or of a run folder's newest model, that
// has a namesake of its shape here, by Recipe::names_in. The file's generator goes to `ema`; the
// first player, the generator, gets the raw G.* where the file has it, else the same as `ema`;
// another player gets its own, D.*. Throws UserError(kInput) naming the file: unreadable, or no
// parameter that fits.
InitTable init_from(const std::filesystem::path& file_or_run,
                    Recipe& recipe,
                    const torch::nn::Module& ema);

// The counts and the first rows of what was not loaded as messages; all of it in the log's file.
void log_table(const InitTable& table);

}  // namespace gantrain
