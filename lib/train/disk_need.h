// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "train/options.h"

namespace gantrain {

// The bytes of the files of one save.
struct SaveBytes {
  int64_t state = 0;
  int64_t model = 0;
};

// What a run will write until its end, in bytes; sample grids and logs are small beside it.
struct DiskNeed {
  SaveBytes each;
  int64_t states = 0;  // that are there at a time, the one that is being written included
  int64_t models = 0;
  // That are left at the end.
  int64_t states_left = 0;
  int64_t models_left = 0;
  int64_t bytes() const { return states * each.state + models * each.model; }
  int64_t bytes_left() const { return states_left * each.state + models_left * each.model; }
};

// Foretells what a run of that length writes from `images_seen` on. `models_kept` is as in
// train/model_options.h.
DiskNeed disk_need(const SaveBytes& each,
                   const SaveOptions& save,
                   int64_t images,
                   int64_t images_seen,
                   std::optional<int64_t> models_kept = {});

// Says in one line what the need is made of, and what is left at the end.
std::string to_text(const DiskNeed& need);

// Compares the need with what the disk of the folder has free. Throws UserError(kDisk) where not
// even one save fits, and warns where the whole run does not.
void check_disk(const std::filesystem::path& folder, const DiskNeed& need);

}  // namespace gantrain
