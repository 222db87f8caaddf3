// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/options.h"

namespace gantrain::stylegan1 {

namespace {

// The batches of PGGAN's code, with learning rates of 1e-3 times the same factors for any number of
// devices (app. C).
std::vector<std::string> complete(Config& config, const Site& site) {
  const std::string rates = "128:1.5,256:2,512:3,1024:3,1";
  choose_augmentation(config);
  return choose_schedule(config, site.ranks, karras_schedules({rates, rates, rates, rates}));
}

std::vector<LossAtEquilibrium> equilibrium(const SettingOf& setting) {
  if (setting("stylegan1.loss") != "logistic") return {};
  return nonsaturating_equilibrium();
}

}  // namespace

const RecipeFacts& facts() {
  static const RecipeFacts record = {
      .name = "stylegan1",
      .title = "StyleGAN",
      .citation =
          "T. Karras, S. Laine, T. Aila: A Style-Based Generator Architecture for Generative "
          "Adversarial Networks. CVPR 2019, arXiv:1812.04948",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema); },
      .check_resolution = check_growing_resolution,
      .wants_labels = [](const Config& c) { return c.get("stylegan1.conditional").get<bool>(); },
      .complete = complete,
      .schedule = schedule_of,
      .together = [](const Config&) { return kGrowingGroup; },
      .has_official_names = true,
      .equilibrium = equilibrium,
      .python = {.parts = {"base", "growing", "stylegan1", "command"}, .w_average = "dlatent_avg"},
      .bench = {.place = 5,
                .about = "StyleGAN v1, 32 pixels, batch 16",
                .preset = "stylegan1",
                .set = words("data.resolution=32 stylegan1.fmap_base=2048 stylegan1.fmap_max=256 "
                             "schedule.batch=16")},
  };
  return record;
}

}  // namespace gantrain::stylegan1
