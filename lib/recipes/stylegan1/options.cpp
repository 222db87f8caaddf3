// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/options.h"

namespace gantrain::stylegan1 {

void add_keys(Schema& schema) { add_keys<Options>(schema, ""); }

// PGGAN's batches, with the same rates for any number of devices (app. C).
std::vector<std::string> complete(Config& config, int64_t ranks) {
  std::vector<ScheduleRow> rows = pggan_schedules();
  for (ScheduleRow& row : rows) row.lr_factor = "128:1.5,256:2,512:3,1024:3,1";
  return choose_schedule(config, ranks, rows);
}

}  // namespace gantrain::stylegan1
