// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/options.h"

#include "gan/schedule_choice.h"

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

}  // namespace

const RecipeFacts& facts() {
  static const RecipeFacts record = {
      .name = "stylegan1",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema, ""); },
      .check_resolution = check_growing_resolution,
      .wants_labels = wants_labels,
      .complete = complete,
      .schedule = schedule_of,
      .has_official_names = true,
  };
  return record;
}

}  // namespace gantrain::stylegan1
