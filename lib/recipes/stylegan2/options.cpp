// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/options.h"

#include <algorithm>
#include <cmath>

#include "gan/schedule.h"
#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain::stylegan2 {

namespace {

void check_resolution(const Size& resolution) {
  check_doubled_size("StyleGAN2's networks", resolution, {.fewest = 1, .most = 8});
}

// The side of a square of as many pixels, from which batch, widths and rates follow.
int64_t square_side(const Size& size) {
  return std::llround(std::sqrt(static_cast<double>(size.pixels())));
}

constexpr int64_t kMostBatch = 64;  // that the `auto` configuration takes
constexpr int64_t kGroup = 4;       // pictures that the minibatch-std layer compares

int64_t integer(const Config& config, const char* key) { return config.get(key).get<int64_t>(); }

// The `auto` configuration: batch and its parts by resolution and number of ranks. The batch of a
// rank is a multiple of the minibatch-std group, which for powers of two changes nothing. It does
// not grow with more ranks than it feeds: that would be another training. Throws UserError(kUsage)
// where a rank would have one picture, whose group tells the discriminator nothing.
void choose_sizes(Config& config,
                  const Size& size,
                  const Site& site,
                  std::vector<std::string>& lines) {
  const int64_t ranks = site.ranks;
  Chooser auto_values(config,
                      fmt::format("auto ({} pixels, {})", to_text(size), counted(ranks, "rank")));
  const int64_t resolution = square_side(size);
  const auto group_of = [ranks](int64_t batch) {
    return std::clamp(batch / ranks, int64_t{1}, kGroup);
  };
  const auto whole = [&](int64_t batch) {
    return std::max(batch / ranks / group_of(batch) * group_of(batch), int64_t{1}) * ranks;
  };
  const int64_t most = std::min(ranks * std::min(4096 / resolution, int64_t{32}), kMostBatch);
  const int64_t wanted = config.given("train.batch") ? integer(config, "train.batch") : most;
  const int64_t group = group_of(wanted);
  if (group == 1 && ranks > 1 && !config.given("stylegan2.mbstd_group")) {
    fail(Exit::kUsage,
         "for {} pixels and {}: a minibatch-std group of one picture tells nothing: {}; or give "
         "--batch {}, which is another training, or stylegan2.mbstd_group",
         to_text(size),
         counted(ranks, "rank"),
         feeds_text(wanted, kGroup, site.of_node),
         ranks * kGroup);
  }
  auto_values.choose("train.batch", whole(wanted));
  const int64_t batch = integer(config, "train.batch");
  auto_values.choose("stylegan2.mbstd_group", group);
  auto_values.choose("stylegan2.channel_base", resolution >= 512 ? 32768 : 16384);
  const std::string rule = text_of(config.get("train.lr_scale"));
  const double ratio = static_cast<double>(batch) / static_cast<double>(whole(most));
  const double lr = (resolution >= 1024 ? 0.002 : 0.0025) *
                    (config.said_by_user("train.batch") ? rate_factor(rule, ratio) : 1);
  auto_values.choose("G.adam.lr", lr);
  auto_values.choose("D.adam.lr", lr);
  if (config.said_by_user("train.batch") && ratio != 1) scale_rates(config, ratio);  // the others
  auto_values.choose("ema.half_life", static_cast<double>(batch) * 10 / 32);
  if (!auto_values.said().empty())
    lines.push_back(fmt::format("auto    for {} pixels and {}: {}",
                                to_text(size),
                                counted(ranks, "rank"),
                                auto_values.said()));
  if (config.said_by_user("train.batch") && ratio != 1 && rule == "none")
    lines.push_back(fmt::format("batch   {} instead of {}: {}", batch, whole(most), kRatesStay));
}

// Every layer has a feature map: at R pixels there are channel_base / R.
void check_widths(const Config& config, const Size& resolution) {
  const auto size = find_doubled_size(resolution);  // another one is refused elsewhere
  const int64_t base = integer(config, "stylegan2.channel_base");
  if (!size || base >= size->nominal()) return;
  fail(Exit::kUsage,
       "stylegan2.channel_base = {}: at least {} are needed for {} pixels, one feature map",
       base,
       size->nominal(),
       to_text(resolution));
}

std::vector<std::string> complete(Config& config, const Site& site) {
  std::vector<std::string> lines;
  const Size resolution = resolution_of(config);
  if (config.get("stylegan2.automatic").get<bool>()) choose_sizes(config, resolution, site, lines);
  check_widths(config, resolution);
  const int64_t batch = integer(config, "train.batch");
  if (config.get("stylegan2.gamma") == "auto") {
    const double gamma =
        0.0002 * static_cast<double>(resolution.pixels()) / static_cast<double>(batch);
    const std::string pixels = resolution.is_square()
                                   ? fmt::format("{}^2", resolution.width)
                                   : fmt::format("{} x {}", resolution.width, resolution.height);
    const std::string rule = fmt::format("0.0002 x {} / {}", pixels, batch);
    config.set("stylegan2.gamma", gamma, "auto (" + rule + ")");
    lines.push_back(fmt::format(
        "auto    stylegan2.gamma {} = {}: try twice and half of it too", shortest(gamma), rule));
  }
  choose_for_transfer(config, site, lines);
  choose_augmentation(config);
  choose_transforms(config);
  choose_micro_batch(config, site, "stylegan2");
  choose_for_gpu(config, site, "stylegan2", lines);
  return lines;
}

// The official code, whose blocks, penalties and their intervals are these.
BenchScript peer() {
  BenchScript script =
      official_script("stylegan2", "channel_base channel_max map_depth z_dim w_dim mbstd_group");
  script.fits = [](const Config& config) {
    return config.get("data.resolution").is_number() &&
           config.get("stylegan2.g_architecture") == "skip" &&
           config.get("stylegan2.d_architecture") == "resnet" &&
           config.get("stylegan2.pl_weight") != 0 && config.get("stylegan2.g_interval") == 4 &&
           config.get("stylegan2.d_interval") == 16;
  };
  return script;
}

}  // namespace

const RecipeFacts& facts() {
  static const RecipeFacts record = {
      .name = "stylegan2",
      .title = "StyleGAN2",
      .citation =
          "T. Karras, S. Laine, M. Aittala, J. Hellsten, J. Lehtinen, T. Aila: Analyzing and "
          "Improving the Image Quality of StyleGAN. CVPR 2020, arXiv:1912.04958",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema); },
      .check_resolution = check_resolution,
      .wants_labels = [](const Config& c) { return c.get("stylegan2.conditional").get<bool>(); },
      .takes_vectors = true,
      .complete = complete,
      .together = [](const Config& c) { return c.get("stylegan2.mbstd_group").get<int64_t>(); },
      .has_blocks = true,
      .equilibrium = [](const SettingOf&) { return nonsaturating_equilibrium(); },
      .python = {.parts = {"base", "style", "stylegan2", "command"}},
      .bench = {.place = 0,
                .about = "StyleGAN2, 64 pixels, batch 8",
                .preset = "stylegan2",
                .set = words("data.resolution=64 train.batch=8 train.micro_batch=8 "
                             "stylegan2.channel_base=16384 stylegan2.map_depth=2"),
                .scripts = {peer()}},
      // Regularisation phases would only add arithmetic to the bytes of the main ones.
      .bench_ddp = {.about = "StyleGAN2, 16 pixels, main phases",
                    .preset = "stylegan2",
                    .set = words(
                        "data.resolution=16 stylegan2.automatic=off stylegan2.channel_max=432 "
                        "stylegan2.map_depth=2 stylegan2.pl_weight=0 stylegan2.gamma=0"),
                    .batch = 8},
  };
  return record;
}

}  // namespace gantrain::stylegan2
