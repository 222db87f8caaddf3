// SPDX-License-Identifier: Apache-2.0
#include "train/disk_need.h"

#include <algorithm>

#include "util/error.h"
#include "util/file.h"
#include "util/log.h"

namespace gantrain {

namespace {

int64_t megabytes(int64_t bytes) { return (bytes + 999'999) / 1'000'000; }

}  // namespace

DiskNeed disk_need(const SaveBytes& each,
                   const SaveOptions& save,
                   int64_t images,
                   int64_t images_seen) {
  const auto times = [&](int64_t interval) {
    return interval > 0 ? images / interval - images_seen / interval : 0;
  };
  const int64_t saves = std::max<int64_t>(times(save.every.images), 0) + 1;  // and one at the end
  const int64_t kept = std::max<int64_t>(times(save.keep_every.images), 0);
  return {.each = each,
          .states = std::min(saves, save.keep_last + kept) + 1,
          .models = saves + (images_seen == 0 ? 1 : 0)};
}

std::string to_text(const DiskNeed& need) {
  return fmt::format("{} MB on disk at most: {} states of {} MB at a time, {} models of {} MB",
                     megabytes(need.bytes()),
                     need.states,
                     megabytes(need.each.state),
                     need.models,
                     megabytes(need.each.model));
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
    warn("{}: the disk has {} MB free, the run may write {}; see --keep-last, --save-every",
         folder.string(),
         room / 1'000'000,
         to_text(need));
  }
}

}  // namespace gantrain
