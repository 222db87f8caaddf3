// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/options.h"

namespace gantrain::pggan {

namespace {

// The learning rates of Karras et al. 2018a's code are 1e-3 times these factors.
std::vector<std::string> complete(Config& config, const Site& site) {
  choose_augmentation(config);
  return choose_schedule(config,
                         site.ranks,
                         karras_schedules({"1024:1.5,1",
                                           "512:1.5,1024:2,1",
                                           "256:1.5,512:2,1024:3,1",
                                           "128:1.5,256:2,512:3,1024:3,1"}));
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
      .together = [](const Config&) { return kGrowingGroup; },
      .has_official_names = true,
      .python = {.parts = {"base", "growing", "pggan", "command"}},
      .bench =
          {.place = 4,
           .about = "PGGAN, 32 pixels, batch 16",
           .preset = "pggan",
           .set = words(
               "data.resolution=32 pggan.fmap_base=2048 pggan.fmap_max=256 schedule.batch=16")},
  };
  return record;
}

}  // namespace gantrain::pggan
