// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/options.h"

#include "gan/schedule.h"

namespace gantrain::pggan {

namespace {

// The batches of Karras et al. 2018a's code for 1, 2, 4 and 8 devices, with learning rates of 1e-3
// times these factors.
const std::vector<ScheduleRow>& schedules() {
  static const std::vector<ScheduleRow> table = {
      {1, "4:128,8:128,16:128,32:64,64:32,128:16,256:8,512:4,4", "1024:1.5,1"},
      {2, "4:256,8:256,16:128,32:64,64:32,128:16,8", "512:1.5,1024:2,1"},
      {4, "4:512,8:256,16:128,32:64,64:32,16", "256:1.5,512:2,1024:3,1"},
      {8, "4:512,8:256,16:128,32:64,32", "128:1.5,256:2,512:3,1024:3,1"},
  };
  return table;
}

std::vector<std::string> complete(Config& config, const Site& site) {
  return choose_schedule(config, site.ranks, schedules());
}

}  // namespace

const RecipeFacts& facts() {
  static const RecipeFacts record = {
      .name = "pggan",
      .title = "PGGAN",
      .citation =
          "T. Karras, T. Aila, S. Laine, J. Lehtinen: Progressive Growing of GANs for Improved "
          "Quality, Stability, and Variation. ICLR 2018, arXiv:1710.10196",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema); },
      .check_resolution = check_growing_resolution,
      .complete = complete,
      .schedule = schedule_of,
      .has_official_names = true,
      .python = {.parts = {"base", "growing", "pggan", "command"}},
      .bench = {.place = 4,
                .about = "PGGAN, 32 pixels, batch 16",
                .preset = "pggan",
                .set = {"data.resolution=32",
                        "pggan.fmap_base=2048",
                        "pggan.fmap_max=256",
                        "schedule.batch=16"}},
  };
  return record;
}

}  // namespace gantrain::pggan
