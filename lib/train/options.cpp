// SPDX-License-Identifier: Apache-2.0
#include "train/options.h"

#include <algorithm>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

void check_graphs(const TrainOptions& options, bool on_gpu) {
  if (on_gpu) return;
  if (options.sync_debug) {
    fail(Exit::kUsage,
         "train.sync_debug = on: a CPU waits for no device, so nothing can be seen; give --device "
         "cuda, or leave it off");
  }
  if (options.graphs != Graphs::kOn) return;
  fail(Exit::kUsage,
       "train.graphs = on: CUDA graphs need GPUs and this run is on a CPU; give --graphs auto, or "
       "--device cuda");
}

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
