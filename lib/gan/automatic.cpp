// SPDX-License-Identifier: Apache-2.0
#include "gan/automatic.h"

#include <algorithm>

#include "gan/precision_options.h"
#include "util/error.h"

namespace gantrain {

namespace {

// Largest number that divides `of_rank`, is at most `limit`, and is a multiple of `group` if any
// is.
int64_t largest_part(int64_t of_rank, int64_t limit, int64_t group) {
  int64_t best = 0, any = 1;
  for (int64_t part = 1; part <= std::min(limit, of_rank); ++part) {
    if (of_rank % part != 0) continue;
    any = part;
    if (part % group == 0) best = part;
  }
  return best > 0 ? best : any;
}

void choose_half_blocks(Config& config,
                        Chooser& on_gpu,
                        const std::string& recipe,
                        const char* type) {
  if (config.get(recipe + ".num_fp16_res") == 0 || config.get("train.dtype") == "float64") return;
  const auto precision = config.read<PrecisionOptions>("precision.");
  const bool amp_is_free = config.origin("precision.amp") == "default";
  const bool mode_is_free = config.origin("precision.mode") == "default";
  if (mode_is_free && (amp_is_free || precision.amp == Amp::kAuto))
    on_gpu.choose_default("precision.mode", "blocks");
  if (amp_is_free && (mode_is_free || precision.mode == PrecisionMode::kBlocks))
    on_gpu.choose_default("precision.amp", type);
}

}  // namespace

void Chooser::set(const std::string& key, const Json& value) {
  config_.set(key, value, why_);
  said_ += fmt::format("{}{} {}", said_.empty() ? "" : ", ", key, text_of(config_.get(key)));
}

std::string choose_for_gpu(Config& config, const std::string& recipe, const char* type) {
  Chooser on_gpu(config, "auto (GPU)");
  choose_half_blocks(config, on_gpu, recipe, type);
  on_gpu.choose_default("data.workers", 3);
  return on_gpu.said();
}

void choose_micro_batch(Config& config, const Site& site, const std::string& recipe) {
  const std::string limit_key = recipe + ".max_micro_batch";
  const Json& limit = config.get(limit_key);
  const auto batch = config.get("train.batch").get<int64_t>();
  const bool asked = config.given("train.micro_batch") || config.given("train.accumulate");
  const int64_t of_rank = batch / site.ranks;
  const bool small = !limit.is_number() || of_rank <= limit.get<int64_t>();
  if (asked || small || batch % site.ranks != 0) return;
  if (site.on_gpu && !config.given(limit_key)) {
    config.set("train.micro_batch",
               "auto",
               fmt::format("auto (GPU: all {} images of a rank, where they fit)", of_rank));
    return;
  }
  const auto group = config.get(recipe + ".mbstd_group").get<int64_t>();
  const int64_t part = largest_part(of_rank, limit.get<int64_t>(), group);
  config.set("train.micro_batch", part, fmt::format("auto ({} images of a rank)", of_rank));
}

}  // namespace gantrain
