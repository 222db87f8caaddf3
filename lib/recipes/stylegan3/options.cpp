// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan3/options.h"

#include "util/error.h"
#include "util/text.h"

namespace gantrain::stylegan3 {

namespace {

constexpr int64_t kFewestPixels = 8, kMostPixels = 1024;

void check_resolution(const Size& size) {
  const int64_t side = size.width;
  const bool power = side > 0 && (side & (side - 1)) == 0;
  if (size.is_square() && power && side >= kFewestPixels && side <= kMostPixels) return;
  fail(Exit::kUsage,
       "data.resolution = {}: StyleGAN3's networks make squares of {} to {} pixels, powers of two; "
       "nearest: {}",
       to_text(size),
       kFewestPixels,
       kMostPixels,
       powers_of_two_near(size.shorter(), kFewestPixels, kMostPixels));
}

// Gamma is four times as large at twice the resolution, 32 at 1024 pixels and a batch of 32 for
// both configurations (the authors' table); a smaller batch wants more of it.
void choose_gamma(Config& config, std::vector<std::string>& lines) {
  if (config.get("stylegan3.gamma") != "auto") return;
  const Size resolution = resolution_of(config);
  const auto batch = config.get("train.batch").get<int64_t>();
  const double gamma =
      static_cast<double>(resolution.pixels()) / (1024 * static_cast<double>(batch));
  const std::string rule = fmt::format("{}^2 / (1024 x {})", resolution.width, batch);
  config.set("stylegan3.gamma", gamma, "auto (" + rule + ")");
  lines.push_back(fmt::format(
      "auto    stylegan3.gamma {} = {}: try 2 and 4 times and a half and a quarter of it",
      shortest(gamma),
      rule));
}

// Discriminators of rotation-equivariant networks first see blurred pictures, so that they do not
// settle on high frequencies before the generator has learned the low ones (app. G).
void choose_blur(Config& config, const Site& site) {
  const bool sharp = transfers(config, site);
  const bool rotates = config.get("stylegan3.config") == "r";
  const auto batch = config.get("train.batch").get<double>();
  if (config.get("stylegan3.blur_sigma") == "auto") {
    const char* why = sharp ? "auto (run.init_from)" : rotates ? "auto (r)" : "auto (t)";
    config.set("stylegan3.blur_sigma", rotates && !sharp ? 10 : 0, why);
  }
  if (config.get("stylegan3.blur_fade") == "auto")
    config.set("stylegan3.blur_fade", 200 * batch / 32, "auto (200 x batch / 32)");
}

// The critically sampled layers are some of all, and every layer has a feature map: at the last
// cutoff, half of the pixels, there are channel_base / pixels.
void check_sizes(const Config& config) {
  const auto layers = config.get("stylegan3.num_layers").get<int64_t>();
  const auto critical = config.get("stylegan3.num_critical").get<int64_t>();
  if (critical >= layers) {
    fail(Exit::kUsage,
         "stylegan3.num_critical = {}: stylegan3.num_layers = {} must be more",
         critical,
         layers);
  }
  const Size size = resolution_of(config);
  check_resolution(size);
  for (const char* key : {"stylegan3.channel_base", "stylegan3.d_channel_base"}) {
    const Json& base = config.get(key);
    if (!base.is_number() || base.get<int64_t>() >= size.width) continue;
    fail(Exit::kUsage,
         "{} = {}: at least {} are needed for {} pixels, one feature map",
         key,
         base.get<int64_t>(),
         size.width,
         size.width);
  }
}

std::vector<std::string> complete(Config& config, const Site& site) {
  std::vector<std::string> lines;
  check_sizes(config);
  const auto batch = config.get("train.batch").get<double>();
  Chooser by_batch(config, "auto (10 x batch / 32)");
  if (config.has("ema.half_life")) by_batch.choose_default("ema.half_life", batch * 10 / 32);
  choose_gamma(config, lines);
  choose_blur(config, site);
  choose_for_transfer(config, site, lines, "no blur, ");
  choose_augmentation(config);
  choose_transforms(config);
  choose_micro_batch(config, site, "stylegan3");
  choose_for_gpu(config, site, "stylegan3", lines);
  return lines;
}

}  // namespace

const RecipeFacts& facts() {
  static const RecipeFacts record = {
      .name = "stylegan3",
      .title = "StyleGAN3",
      .citation =
          "T. Karras, M. Aittala, S. Laine, E. Härkönen, J. Hellsten, J. Lehtinen, T. Aila: "
          "Alias-Free Generative Adversarial Networks. NeurIPS 2021, arXiv:2106.12423",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema); },
      .check_resolution = check_resolution,
      .wants_labels = [](const Config& c) { return c.get("stylegan3.conditional").get<bool>(); },
      .takes_vectors = true,
      .complete = complete,
      .together = [](const Config& c) { return c.get("stylegan3.mbstd_group").get<int64_t>(); },
      .has_blocks = true,
      .equilibrium = [](const SettingOf&) { return nonsaturating_equilibrium(); },
      .python = {.parts = {"base", "style", "stylegan3", "command"}},
      .bench = {.place = 1,
                .about = "StyleGAN3-T, 64 pixels, batch 4, without augmentation",
                .preset = "stylegan3-t",
                .set = words("data.resolution=64 train.batch=4 train.micro_batch=4 "
                             "stylegan3.channel_base=8192 ada.mode=none"),
                .scripts = {official_script("stylegan3",
                                            "config channel_base channel_max d_channel_base "
                                            "d_channel_max map_depth z_dim w_dim mbstd_group "
                                            "num_layers margin")}},
  };
  return record;
}

}  // namespace gantrain::stylegan3
