// SPDX-License-Identifier: Apache-2.0
#include "recipes/r3gan/options.h"

#include <algorithm>
#include <cmath>

#include "gan/automatic.h"
#include "gan/picture_size.h"
#include "gan/precision_options.h"
#include "gan/schedule.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::r3gan {

namespace {

void check_resolution(const Size& resolution) {
  check_doubled_size("R3GAN's networks", resolution, {.fewest = 1, .most = 8});
}

// The value of a table for a resolution, a whole number.
int64_t size_at(const SizeTable& table, int64_t pixels, const char* key) {
  const auto own = table.find(pixels);
  const auto at = own == table.end() ? table.find(0) : own;
  if (at == table.end())
    fail(Exit::kUsage, "{}: no value for {} pixels, and none for all others", key, pixels);
  const auto size = static_cast<int64_t>(at->second);
  if (static_cast<double>(size) != at->second || size < 1 || size > (1 << 16)) {
    fail(Exit::kUsage,
         "{}: {} for {} pixels: a whole number from 1 to 65536 is needed",
         key,
         number(at->second),
         pixels);
  }
  return size;
}

// The penalties' weight at the start of training, between and beyond the paper's two for FFHQ: 2 at
// 64 pixels and 150 at 256. The paper has no rule for other sizes and data.
double gamma_for(const Size& resolution) {
  const double doublings = std::log2(static_cast<double>(resolution.pixels()) / (64. * 64.)) / 2;
  const double gamma = 2 * std::pow(75, doublings / 2);
  const double unit = std::pow(10, std::floor(std::log10(gamma)) - 1);
  return std::round(gamma / unit) * unit;
}

// The blocks in half precision are bfloat16, whichever half precision is asked for.
void choose_block_type(Config& config, std::vector<std::string>& lines) {
  const auto precision = config.read<PrecisionOptions>("precision.");
  const bool half = precision.amp == Amp::kFp16 || precision.amp == Amp::kAuto;
  if (precision.mode != PrecisionMode::kBlocks || !half) return;
  config.set("precision.amp", "bf16", "auto (R3GAN's blocks are bfloat16)");
  lines.emplace_back("auto    precision.amp bf16: R3GAN's blocks are bfloat16");
}

std::vector<std::string> complete(Config& config, const Site& site) {
  std::vector<std::string> lines;
  const Size resolution = resolution_of(config);
  const auto o = config.read<Options>("");
  if (const auto size = find_doubled_size(resolution)) {
    const StageSizes sizes = stage_sizes(o, size->nominal());
    if (o.width == "auto" || o.cardinality == "auto") {
      lines.push_back(fmt::format("auto    from 4 to {} pixels: feature maps {}; groups {}",
                                  size->nominal(),
                                  fmt::join(sizes.widths, ", "),
                                  fmt::join(sizes.cardinalities, ", ")));
    }
  }
  if (!o.gamma) {
    const double gamma = gamma_for(resolution);
    const std::string rule = fmt::format("between the paper's 2 at 64 and 150 at 256 pixels");
    config.set("r3gan.gamma",
               Value<Scheduled>::to_json(burn_in(gamma, gamma / 10)),
               "auto (" + rule + ")");
    lines.push_back(
        fmt::format("auto    r3gan.gamma {}, {}: other data may want 10 times more or less",
                    number(gamma),
                    rule));
  }
  if (config.has("ema.half_life")) {
    Chooser average(config, "auto (r3gan)");
    average.choose_default("ema.half_life",
                           Value<ScheduledKimg>::to_json(ScheduledKimg(burn_in(0, 500'000))));
  }
  if (config.origin("ada.pipe") != "default") choose_transforms(config);
  const std::string said = site.on_gpu ? choose_for_gpu(config, "r3gan", "bf16") : "";
  if (!said.empty()) lines.push_back("auto    on a GPU: " + said);
  choose_block_type(config, lines);
  return lines;
}

bool wants_labels(const Config& config) { return config.get("r3gan.conditional").get<bool>(); }

}  // namespace

StageSizes stage_sizes(const Options& options, int64_t nominal) {
  constexpr const char *kWidth = "r3gan.width", *kCardinality = "r3gan.cardinality";
  constexpr const char* kBlocks = "r3gan.blocks";
  const SizeTable blocks = parse_size_table(options.blocks, kBlocks);
  SizeTable widths, groups;
  if (options.width != "auto") widths = parse_size_table(options.width, kWidth);
  if (options.cardinality != "auto") groups = parse_size_table(options.cardinality, kCardinality);
  StageSizes sizes;
  for (int64_t pixels = 4; pixels <= nominal; pixels *= 2) {
    const int64_t width =
        widths.empty() ? 768 * 32 / std::max(pixels, int64_t{32}) : size_at(widths, pixels, kWidth);
    const int64_t cardinality =
        groups.empty() ? std::max(width / 8, int64_t{1}) : size_at(groups, pixels, kCardinality);
    if (width * options.expansion % cardinality != 0) {
      fail(Exit::kUsage,
           "{}: {} groups for {} pixels: {} x {} feature maps cannot be shared out among them",
           kCardinality,
           cardinality,
           pixels,
           options.expansion,
           width);
    }
    sizes.widths.push_back(width);
    sizes.cardinalities.push_back(cardinality);
    sizes.blocks.push_back(size_at(blocks, pixels, kBlocks));
  }
  return sizes;
}

const RecipeFacts& facts() {
  static const RecipeFacts record = {
      .name = "r3gan",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema, ""); },
      .check_resolution = check_resolution,
      .wants_labels = wants_labels,
      .complete = complete,
      .has_blocks = true,
      .bfloat16_blocks = true,
  };
  return record;
}

}  // namespace gantrain::r3gan
