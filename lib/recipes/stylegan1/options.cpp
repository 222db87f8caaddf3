// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/options.h"

#include "gan/schedule.h"

namespace gantrain::stylegan1 {

namespace {

// The batches of Karras et al. 2019's code for 1, 2, 4 and 8 devices, which are those of PGGAN's
// code, with the same learning rates of 1e-3 times these factors for any number of devices (app.
// C).
const std::vector<ScheduleRow>& schedules() {
  constexpr const char* kRates = "128:1.5,256:2,512:3,1024:3,1";
  static const std::vector<ScheduleRow> table = {
      {1, "4:128,8:128,16:128,32:64,64:32,128:16,256:8,512:4,4", kRates},
      {2, "4:256,8:256,16:128,32:64,64:32,128:16,8", kRates},
      {4, "4:512,8:256,16:128,32:64,64:32,16", kRates},
      {8, "4:512,8:256,16:128,32:64,32", kRates},
  };
  return table;
}

std::vector<std::string> complete(Config& config, const Site& site) {
  return choose_schedule(config, site.ranks, schedules());
}

bool wants_labels(const Config& config) { return config.get("stylegan1.conditional").get<bool>(); }

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
      .wants_labels = wants_labels,
      .complete = complete,
      .schedule = schedule_of,
      .has_official_names = true,
      .equilibrium = equilibrium,
      .python = {.parts = {"base", "growing", "stylegan1", "command"}, .w_average = "dlatent_avg"},
      .bench = {.place = 5,
                .about = "StyleGAN v1, 32 pixels, batch 16",
                .preset = "stylegan1",
                .set = {"data.resolution=32",
                        "stylegan1.fmap_base=2048",
                        "stylegan1.fmap_max=256",
                        "schedule.batch=16"}},
  };
  return record;
}

}  // namespace gantrain::stylegan1
