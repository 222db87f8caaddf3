// SPDX-License-Identifier: Apache-2.0
#include "gan/picture_size.h"

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

Size resolution_of(const Config& config) {
  const Json& value = config.get("data.resolution");
  const auto size = parse_size(text_of(value));
  if (!size) fail(Exit::kUsage, "data.resolution = {}: no size", value.dump());
  return *size;
}

void check_doubled_size(const std::string& networks,
                        const Size& resolution,
                        const Doublings& doublings) {
  const auto found = find_doubled_size(resolution);
  if (found && found->doublings >= doublings.fewest && found->doublings <= doublings.most) return;
  std::vector<std::string> nearest;
  for (const Size& size : nearest_doubled_sizes(resolution, doublings))
    nearest.push_back(to_text(size));
  fail(Exit::kUsage,
       "data.resolution = {}: {} double a start, whose shorter side has 4 to 7 pixels, {} to {} "
       "times (4x4: {} to {}; 8x4: {}x{} to {}x{}); the nearest sizes are {}",
       to_text(resolution),
       networks,
       doublings.fewest,
       doublings.most,
       4 << doublings.fewest,
       4 << doublings.most,
       8 << doublings.fewest,
       4 << doublings.fewest,
       8 << doublings.most,
       4 << doublings.most,
       join(nearest, ", "));
}

}  // namespace gantrain
