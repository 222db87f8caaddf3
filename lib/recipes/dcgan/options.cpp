// SPDX-License-Identifier: Apache-2.0
#include "recipes/dcgan/options.h"

#include "gan/picture_size.h"

namespace gantrain::dcgan {

namespace {

void check_resolution(const Size& resolution) {
  check_doubled_size("DCGAN's networks", resolution, {.fewest = 1, .most = 5});
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
