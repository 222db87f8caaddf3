// SPDX-License-Identifier: Apache-2.0
#include "recipes/projected/options.h"

#include <set>

#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain::projected {

namespace {

void check_resolution(const Size& resolution) {
  const int64_t side = resolution.width;
  const bool power = side > 0 && (side & (side - 1)) == 0;
  if (resolution.is_square() && power && side >= 16 && side <= 1024) return;
  fail(
      Exit::kUsage,
      "data.resolution = {}: projected GAN's networks make squares of 16 to 1024 pixels, powers of "
      "two; nearest: {}",
      to_text(resolution),
      powers_of_two_near(resolution.shorter(), 16, 1024));
}

// The official half-life of G's average: 10 / 32 kimg for each picture of a batch.
void choose_average(Config& config) {
  if (!config.has("ema.half_life")) return;
  const auto batch = config.get("train.batch").get<double>();
  Chooser(config, "auto (projected)").choose_default("ema.half_life", batch * 10 / 32);
}

std::vector<std::string> complete(Config& config, const Site& site) {
  const auto o = config.read<Options>();
  if (o.input % 32 != 0) {
    fail(Exit::kUsage,
         "projected.input = {}: a multiple of 32 is needed, so that each of the four maps is twice "
         "as large as the next",
         o.input);
  }
  const std::string file = features_file(config);
  if (!feature_widths(o).empty() && !file.empty())
    fail(Exit::kUsage, "projected.feature_widths: the features of --features {} have theirs", file);
  if (!feature_taps(o).empty() && file.empty()) {
    fail(Exit::kUsage,
         "projected.taps = {}: of which network? --features FILE names a TorchScript file",
         o.taps);
  }
  choose_average(config);
  choose_augmentation(config);
  choose_transforms(config);
  std::vector<std::string> lines;
  choose_for_transfer(config, site, lines);
  lines.push_back(
      file.empty()
          ? "features random: D judges by a network of drawn weights, which is worse than one that "
            "knows pictures; --features FILE takes trained ones (" +
                program() + " features says where to get them)"
          : "features " + file + ": what D judges pictures by");
  return lines;
}

// Batch norm's means are those of a rank's share, unless dist.sync_bn shares them.
int64_t together(const Config& config) {
  return config.get("dist.sync_bn") == true ? 1 : config.get("train.batch").get<int64_t>();
}

}  // namespace

std::string features_file(const Config& config) {
  constexpr const char* kKey = "metrics.features";
  return config.has(kKey) ? config.get(kKey).get<std::string>() : std::string();
}

std::vector<std::string> feature_taps(const Options& options) {
  constexpr size_t kMaps = 4;
  if (options.taps == "auto") return {};
  std::vector<std::string> names;
  for (const std::string& text : split(options.taps, ',')) names.emplace_back(trim(text));
  const bool distinct = std::set<std::string>(names.begin(), names.end()).size() == kMaps;
  if (names.size() != kMaps || !distinct || contains(names, "")) {
    fail(Exit::kUsage,
         "projected.taps = {}: auto or four different names with commas between are needed",
         options.taps);
  }
  return names;
}

std::vector<int64_t> feature_widths(const Options& options) {
  constexpr size_t kNumbers = 8;
  if (options.feature_widths == "auto") return {};
  std::vector<int64_t> all;
  for (const std::string& text : split(options.feature_widths, ',')) {
    const auto number = parse_int(trim(text));
    if (number && *number >= 1 && *number <= 4096) all.push_back(*number);
  }
  if (all.size() != kNumbers) {
    fail(Exit::kUsage,
         "projected.feature_widths = {}: auto or eight numbers from 1 to 4096 with commas between "
         "are needed",
         options.feature_widths);
  }
  return all;
}

const RecipeFacts& facts() {
  static const RecipeFacts record = {
      .name = "projected",
      .title = "Projected GAN",
      .citation =
          "A. Sauer, K. Chitta, J. Mueller, A. Geiger: Projected GANs Converge Faster. NeurIPS "
          "2021, arXiv:2111.01007; generator: B. Liu, Y. Zhu, K. Song, A. Elgammal: Towards Faster "
          "and Stabilized GAN Training for High-fidelity Few-shot Image Synthesis. ICLR 2021, "
          "arXiv:2101.04775",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema); },
      .check_resolution = check_resolution,
      .wants_labels = [](const Config& c) { return c.get("projected.conditional").get<bool>(); },
      .complete = complete,
      .together = together,
      .batch_statistics = true,
      .python = {.parts = {"base", "projected", "command"}, .normalises_z = true},
      .bench =
          {.place = 6,
           .about =
               "Projected GAN, FastGAN lite at 64 pixels and a quarter of its widths, pictures "
               "enlarged to 128, batch 8",
           .preset = "projected-lite",
           .set = words("data.resolution=64 train.batch=8 train.micro_batch=8 projected.ngf=32 "
                        "projected.input=128")},
      .tiny_run = {"--preset=projected-tiny"},
  };
  return record;
}

}  // namespace gantrain::projected
