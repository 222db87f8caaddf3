// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/options.h"

namespace gantrain::pggan {

void add_keys(Schema& schema) { add_keys<Options>(schema, ""); }

std::vector<std::string> complete(Config& config, int64_t ranks) {
  return choose_schedule(config, ranks, pggan_schedules());
}

}  // namespace gantrain::pggan
