// SPDX-License-Identifier: Apache-2.0
#include "train/model_options.h"

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

std::optional<int64_t> models_kept(const ModelOptions& models, const SaveOptions& save) {
  if (models.keep == "all") return std::nullopt;
  if (models.keep == "best") {
    if (!save.keep_best.empty()) return 1;
    fail(Exit::kUsage,
         "save.keep_models = best: by which metric? Give --keep-best METRIC, too, for example "
         "--keep-best swd");
  }
  const std::optional<int64_t> count = parse_int(models.keep);
  if (!count || *count < 1) {
    fail(Exit::kUsage,
         "save.keep_models = {}: allowed: all, best, or a number of at least 1",
         models.keep);
  }
  return count;
}

}  // namespace gantrain
