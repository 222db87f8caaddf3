// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gan/recipe.h"

namespace gantrain {

// Which tensors of a fresh run came from a model file. Names are "G_ema.NAME", "G.NAME", "D.NAME".
struct InitTable {
  struct Row {
    std::string name;
    std::string reason;  // "[64, 3] in the file, [32, 3] here"
  };
  std::filesystem::path file;
  std::vector<std::string> loaded;  // with " from NAME" where the file has another name
  std::vector<Row> reinitialised;   // missing in the file or of another shape, so unchanged
  std::vector<Row> skipped;         // only in the file, by the file's names
  std::vector<std::string>
      afresh;  // networks that the file has not: "D"; no rows for their tensors
  std::vector<std::string> values_that_fit;  // Recipe::values_that_fit
};

// Starts a run from other weights (transfer learning): copies every tensor of a model file, of a
// state (.pt), or of a run folder's newest model for which there is a tensor of the same shape here
// with the same name, or the name that Recipe::names_in gives; what follows from a network's size
// stays and is not counted. Where a run's model holds the
// average alone, its newest state that can be read serves instead, which has all networks. The
// file's average goes into `ema`. The first player, the generator, gets the file's raw "G.*", or
// else the same tensors as `ema`; another player gets its own, "D.*". Throws UserError(kInput) that
// names the file where it cannot be read or no parameter fits.
InitTable init_from(const std::filesystem::path& file_or_run,
                    Recipe& recipe,
                    const torch::nn::Module& ema);

// Logs the counts, the first rows of what was not loaded, and the values that fit; the log file
// gets all rows.
void log_table(const InitTable& table);

}  // namespace gantrain
