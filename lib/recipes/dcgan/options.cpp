// SPDX-License-Identifier: Apache-2.0
#include "recipes/dcgan/options.h"

#include "util/error.h"

namespace gantrain::dcgan {

namespace {

void check_resolution(int64_t resolution) {
  const bool power_of_two = (resolution & (resolution - 1)) == 0;
  if (power_of_two && resolution >= 8 && resolution <= 128) return;
  fail(Exit::kUsage,
       "data.resolution = {}: DCGAN's networks are built for 8, 16, 32, 64 and 128 pixels",
       resolution);
}

}  // namespace

const RecipeFacts& facts() {
  static const RecipeFacts record = {
      .name = "dcgan",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema, ""); },
      .check_resolution = check_resolution,
  };
  return record;
}

}  // namespace gantrain::dcgan
