// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/options.h"

#include <algorithm>
#include <cmath>

#include "gan/picture_size.h"
#include "gan/precision_options.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::stylegan2 {

namespace {

void check_resolution(const Size& resolution) {
  check_doubled_size("StyleGAN2's networks", resolution, {.fewest = 1, .most = 8});
}

// The side of a square of as many pixels, from which batch, widths and rates follow.
int64_t square_side(const Size& size) {
  return std::llround(std::sqrt(static_cast<double>(size.pixels())));
}

// Sets keys; a key's value afterwards is the one that counts.
class Chooser {
 public:
  Chooser(Config& config, std::string why) : config_(config), why_(std::move(why)) {}

  // Unless the user has set it.
  void choose(const std::string& key, const Json& value) {
    if (!config_.given(key)) set(key, value);
  }
  // Unless a preset or the user has set it.
  void choose_default(const std::string& key, const Json& value) {
    if (config_.origin(key) == "default") set(key, value);
  }
  const std::string& said() const { return said_; }

 private:
  void set(const std::string& key, const Json& value) {
    config_.set(key, value, why_);
    said_ += fmt::format("{}{} {}", said_.empty() ? "" : ", ", key, text_of(config_.get(key)));
  }

  Config& config_;
  std::string why_;
  std::string said_;
};

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

int64_t integer(const Config& config, const char* key) { return config.get(key).get<int64_t>(); }

// The `auto` configuration: batch and its parts by resolution and number of ranks. The batch of a
// rank is a multiple of the minibatch-std group, which for powers of two changes nothing.
std::string choose_sizes(Config& config, const Size& size, int64_t ranks) {
  Chooser auto_values(config, fmt::format("auto ({} pixels, {} ranks)", to_text(size), ranks));
  const int64_t resolution = square_side(size);
  const int64_t wanted =
      std::max(std::min(ranks * std::min(4096 / resolution, int64_t{32}), int64_t{64}), ranks);
  const int64_t group = std::min(wanted / ranks, int64_t{4});
  auto_values.choose("train.batch", wanted / ranks / group * group * ranks);
  const int64_t batch = integer(config, "train.batch");
  auto_values.choose("stylegan2.mbstd_group", std::clamp(batch / ranks, int64_t{1}, int64_t{4}));
  auto_values.choose("stylegan2.channel_base", resolution >= 512 ? 32768 : 16384);
  const double lr = resolution >= 1024 ? 0.002 : 0.0025;
  auto_values.choose("G.adam.lr", lr);
  auto_values.choose("D.adam.lr", lr);
  auto_values.choose("ema.half_life", static_cast<double>(batch) * 10 / 32);
  return auto_values.said();
}

// Switches transforms on or off as the pipe says, unless a preset or the user has set them.
void choose_transforms(Config& config, const std::string& pipe) {
  AugmentOptions of_pipe = augment_pipe(pipe);
  fields(of_pipe, [&](std::string_view name, auto& value, const Check&, std::string_view) {
    const std::string key = "augment." + std::string(name);
    using Member = std::remove_reference_t<decltype(value)>;
    const Json wanted = Value<Member>::to_json(value);
    if (config.origin(key) != "default" || config.get(key) == wanted) return;
    config.set(key, wanted, "auto (ada.pipe " + pipe + ")");
  });
}

// What the reference code does on GPUs and only there: fp16 in the highest resolutions. --amp alone
// means that too, since the recipe has such blocks; --amp=fp16 and bf16 ask for autocast.
void choose_half_blocks(Config& config, Chooser& on_gpu) {
  if (config.get("stylegan2.num_fp16_res") == 0 || config.get("train.dtype") == "float64") return;
  const auto precision = config.read<PrecisionOptions>("precision.");
  const bool amp_is_free = config.origin("precision.amp") == "default";
  const bool mode_is_free = config.origin("precision.mode") == "default";
  if (mode_is_free && (amp_is_free || precision.amp == Amp::kAuto))
    on_gpu.choose_default("precision.mode", "blocks");
  if (amp_is_free && (mode_is_free || precision.mode == PrecisionMode::kBlocks))
    on_gpu.choose_default("precision.amp", "fp16");
}

// The values of the reference code that depend on the device.
std::string choose_for_gpu(Config& config) {
  Chooser on_gpu(config, "auto (GPU)");
  choose_half_blocks(config, on_gpu);
  on_gpu.choose_default("data.workers", 3);
  return on_gpu.said();
}

// Cuts a rank's batch into parts of at most stylegan2.max_micro_batch. A GPU takes all of it at
// once where that fits, unless the user has set this limit.
void choose_micro_batch(Config& config, const Site& site, int64_t batch) {
  const auto options = config.read<Options>("");
  const bool asked = config.given("train.micro_batch") || config.given("train.accumulate");
  const int64_t of_rank = batch / site.ranks;
  const bool small = !options.max_micro_batch || of_rank <= *options.max_micro_batch;
  if (asked || small || batch % site.ranks != 0) return;
  if (site.on_gpu && !config.given("stylegan2.max_micro_batch")) {
    config.set("train.micro_batch",
               "auto",
               fmt::format("auto (GPU: all {} images of a rank, where they fit)", of_rank));
    return;
  }
  const int64_t part = largest_part(of_rank, *options.max_micro_batch, options.mbstd_group);
  config.set("train.micro_batch", part, fmt::format("auto ({} images of a rank)", of_rank));
}

std::vector<std::string> complete(Config& config, const Site& site) {
  std::vector<std::string> lines;
  const Size resolution = resolution_of(config);
  if (config.get("stylegan2.automatic").get<bool>()) {
    const std::string said = choose_sizes(config, resolution, site.ranks);
    if (!said.empty())
      lines.push_back(fmt::format(
          "auto    for {} pixels and {} ranks: {}", to_text(resolution), site.ranks, said));
  }
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
        "auto    stylegan2.gamma {} = {}: try twice and half of it too", number(gamma), rule));
  }
  choose_transforms(config, text_of(config.get("ada.pipe")));
  choose_micro_batch(config, site, batch);
  const std::string said = site.on_gpu ? choose_for_gpu(config) : "";
  if (!said.empty()) lines.push_back("auto    on a GPU: " + said);
  return lines;
}

bool wants_labels(const Config& config) { return config.get("stylegan2.conditional").get<bool>(); }

}  // namespace

const RecipeFacts& facts() {
  static const RecipeFacts record = {
      .name = "stylegan2",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema, ""); },
      .check_resolution = check_resolution,
      .wants_labels = wants_labels,
      .complete = complete,
      .has_blocks = true,
  };
  return record;
}

}  // namespace gantrain::stylegan2
