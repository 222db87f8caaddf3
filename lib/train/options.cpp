// SPDX-License-Identifier: Apache-2.0
#include "train/options.h"

#include <algorithm>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

std::vector<std::string> metric_names(const MetricsOptions& options) {
  if (options.names == "none" || options.names.empty()) return {};
  const std::vector<std::string> known = {"swd", "msssim"};
  std::vector<std::string> wanted;
  for (const std::string& part : split(options.names, ',')) {
    const std::string name = trim(part);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(Exit::kUsage,
           "metrics.names = {}: {} is not a metric (there are {}, none){}",
           options.names,
           name,
           join(known, ", "),
           did_you_mean(name, known));
    }
    wanted.push_back(name);
  }
  return wanted;
}

}  // namespace gantrain
