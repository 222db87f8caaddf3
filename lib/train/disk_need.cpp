// SPDX-License-Identifier: Apache-2.0
#include "train/disk_need.h"

#include <algorithm>

#include "util/error.h"
#include "util/file.h"
#include "util/grouped.h"
#include "util/log.h"

namespace gantrain {

namespace {

// Rounded up.
int64_t megabytes(int64_t bytes) { return (bytes + 999'999) / 1'000'000; }

std::string grouped(int64_t count) { return gantrain::grouped(static_cast<double>(count)); }

}  // namespace

DiskNeed disk_need(const SaveBytes& each,
                   const SaveOptions& save,
                   int64_t images,
                   int64_t images_seen,
                   std::optional<int64_t> models_kept) {
  const auto times = [&](int64_t interval) {
    return interval > 0 ? images / interval - images_seen / interval : 0;
  };
  const int64_t saves = std::max<int64_t>(times(save.every.images), 0) + 1;  // and one at the end
  const int64_t kept = std::max<int64_t>(times(save.keep_every.images), 0);
  const int64_t states = std::min(saves, save.keep_last + kept);
  const int64_t written = saves + (images_seen == 0 ? 1 : 0);
  const int64_t models = models_kept ? std::min(written, *models_kept + kept) : written;
  const int64_t best = save.keep_best.empty() ? 0 : 1;
  return {.each = each,
          .states = states + 1,
          .models = std::min(models + 1, written) + best,
          .states_left = states,
          .models_left = models + best};
}

std::string to_text(const DiskNeed& need) {
  const auto files = [](int64_t count, const char* kind, int64_t bytes) {
    return fmt::format(
        "{} {}{} of {} MB", grouped(count), kind, count == 1 ? "" : "s", grouped(megabytes(bytes)));
  };
  return fmt::format("{} MB on disk at the end ({}, {}), at most {} MB until then",
                     grouped(megabytes(need.bytes_left())),
                     files(need.states_left, "state", need.each.state),
                     files(need.models_left, "model", need.each.model),
                     grouped(megabytes(need.bytes())));
}

void check_disk(const std::filesystem::path& folder, const DiskNeed& need) {
  const int64_t room = free_bytes(folder);
  if (room < 0) return;
  const int64_t one = need.each.state + need.each.model;
  if (room < one) {
    fail(Exit::kDisk,
         "{}: a state and a model need {} MB, the disk has {} MB free; free some, or give a folder "
         "on another disk",
         folder.string(),
         megabytes(one),
         room / 1'000'000);
  }
  if (room < need.bytes()) {
    warn(
        "{}: the disk has {} MB free, the run needs {}; see --keep-last, --keep-models, "
        "--save-every",
        folder.string(),
        room / 1'000'000,
        to_text(need));
  }
}

}  // namespace gantrain
