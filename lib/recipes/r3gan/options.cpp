// SPDX-License-Identifier: Apache-2.0
#include "recipes/r3gan/options.h"

#include <algorithm>
#include <cmath>

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
         shortest(at->second),
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
  const auto precision = config.read<PrecisionOptions>();
  const bool half = precision.amp == Amp::kFp16 || precision.amp == Amp::kAuto;
  if (precision.mode != PrecisionMode::kBlocks || !half) return;
  config.set("precision.amp", "bf16", "auto (R3GAN's blocks are bfloat16)");
  lines.emplace_back("auto    precision.amp bf16: R3GAN's blocks are bfloat16");
}

// Adaptive augmentation follows the signs of D's scores, of which R3GAN's losses see differences
// alone.
void refuse_adaptive(const Config& config) {
  if (config.get("ada.mode") != "ada") return;
  fail(Exit::kUsage,
       "ada.mode = ada ({}): R3GAN's D compares pictures and says of none that it is real, so that "
       "its overfitting is not seen; ada.mode=fixed, with ada.p, augments",
       config.origin("ada.mode"));
}

// A run that begins at other weights is past the burn-in: each ramp is at its end.
void end_ramps(Config& config, const Site& site, std::vector<std::string>& lines) {
  if (!transfers(config, site)) return;
  std::vector<std::string> said;
  for (const char* key : {"r3gan.gamma",
                          "G.adam.lr",
                          "G.adam.beta2",
                          "D.adam.lr",
                          "D.adam.beta2",
                          "ada.p",
                          "ema.half_life"}) {
    if (!config.has(key)) continue;
    const bool scaled = starts_with(config.origin(key), "--lr-scale");
    if (config.said_by_user(key) && !scaled) continue;
    const Json ramp = config.get(key);
    if (!ramp.is_object() || !ramp.contains("to")) continue;
    config.set(key, ramp["to"], "auto (run.init_from)");
    said.push_back(fmt::format("{} {}", key, text_of(config.get(key))));
  }
  if (!said.empty())
    lines.push_back("auto    from other weights, past the burn-in: " + join(said, ", "));
}

std::vector<std::string> complete(Config& config, const Site& site) {
  std::vector<std::string> lines;
  const Size resolution = resolution_of(config);
  const auto o = config.read<Options>();
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
    const std::string rule = "between the paper's 2 at 64 and 150 at 256 pixels";
    config.set("r3gan.gamma",
               Value<Scheduled>::to_json(burn_in(gamma, gamma / 10)),
               "auto (" + rule + ")");
    lines.push_back(
        fmt::format("auto    r3gan.gamma {}, {}: other data may want 10 times more or less",
                    shortest(gamma),
                    rule));
  }
  if (config.has("ema.half_life")) {
    const ScheduledKimg growing(burn_in(0, 500'000));
    Chooser(config, "auto (r3gan)")
        .choose_default("ema.half_life", Value<ScheduledKimg>::to_json(growing));
  }
  // The half-life grows by itself.
  if (config.has("ema.rampup") && !site.goes_on)
    Chooser(config, "auto (r3gan)").choose_default("ema.rampup", 0);
  choose_augmentation(config);
  refuse_adaptive(config);
  end_ramps(config, site, lines);
  if (config.origin("ada.pipe") != "default") choose_transforms(config);
  choose_for_gpu(config, site, "r3gan", lines, "bf16");
  choose_block_type(config, lines);
  return lines;
}

std::vector<LossAtEquilibrium> pairing_equilibrium(const SettingOf&) {
  return {{std::log(2),
           "Dashed at 0.69: both losses are ln 2 at the equilibrium, D's without its penalties: "
           "a real and a generated picture are scored alike (Huang et al. 2024, sec. 2)."}};
}

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
      .title = "R3GAN",
      .citation =
          "N. Huang, A. Gokaslan, V. Kuleshov, J. Tompkin: The GAN is dead; long live the GAN! A "
          "Modern GAN Baseline. NeurIPS 2024, arXiv:2501.05441",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema); },
      .check_resolution = check_resolution,
      .wants_labels = [](const Config& c) { return c.get("r3gan.conditional").get<bool>(); },
      .takes_vectors = true,
      .complete = complete,
      .has_blocks = true,
      .bfloat16_blocks = true,
      .adaptive = false,
      .equilibrium = pairing_equilibrium,
      .python = {.parts = {"base", "r3gan", "command"}, .normalises_z = false},
      .bench = {.place = 2,
                .about =
                    "R3GAN, FFHQ-64 at an eighth of the widths, batch 16, without augmentation",
                .preset = "r3gan-ffhq64",
                .set =
                    words("train.batch=16 train.micro_batch=16 r3gan.width=64:48,96 ada.mode=none"),
                .scripts = {official_script("r3gan", "width cardinality blocks z_dim gamma")}},
  };
  return record;
}

}  // namespace gantrain::r3gan
