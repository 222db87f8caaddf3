// SPDX-License-Identifier: Apache-2.0
#include "gan/recipe_facts.h"

#include <algorithm>
#include <cmath>

#include "gan/options.h"
#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

std::vector<std::string> words(const std::string& text) { return split(text, ' '); }

std::string feeds_text(int64_t batch, int64_t group, int64_t of_node) {
  std::string text = fmt::format("batch {} feeds at most {}", batch, counted(batch, "rank"));
  int64_t whole = batch;
  if (group > 1 && batch >= group) {
    whole = batch / group;
    text += fmt::format(", {} with whole groups of {}", whole, group);
  }
  const bool of_nodes = of_node > 0 && whole >= of_node;
  return text + (of_nodes ? fmt::format(": --nnodes {}", whole / of_node)
                          : fmt::format(": --nproc {}", whole));
}

BenchScript official_script(const std::string& recipe, const std::string& keys) {
  std::vector<std::pair<std::string, std::string>> arguments = {{"--resolution", "data.resolution"},
                                                                {"--batch", "train.batch"}};
  for (const std::string& key : words(keys)) {
    std::string flag = "--" + key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    arguments.emplace_back(flag, recipe + "." + key);
  }
  return {.title = "official code",
          .file = recipe + ".py",
          .arguments = std::move(arguments),
          .official = true,
          .fits = [](const Config& config) { return config.get("data.resolution").is_number(); }};
}

std::vector<LossAtEquilibrium> nonsaturating_equilibrium() {
  const double ln2 = std::log(2);
  return {{ln2,
           "Dashed at 0.69: G's loss ln 2 at the equilibrium, where D says 1/2 to every picture "
           "(Goodfellow et al. 2014)."},
          {2 * ln2, "Dashed at 1.39: D's loss 2 ln 2 there."}};
}

Size resolution_of(const Config& config) {
  const Json& value = config.get("data.resolution");
  const auto size = parse_size(text_of(value));
  if (!size) fail(Exit::kUsage, "data.resolution = {}: no size", value.dump());
  return *size;
}

void check_doubled_size(const std::string& networks,
                        const Size& resolution,
                        const Doublings& doublings) {
  const auto found = find_doubled_size(resolution);
  if (found && found->doublings >= doublings.fewest && found->doublings <= doublings.most) return;
  std::vector<std::string> nearest;
  for (const Size& size : nearest_doubled_sizes(resolution, doublings))
    nearest.push_back(to_text(size));
  fail(Exit::kUsage,
       "data.resolution = {}: {} begin with 4 to 7 pixels on the shorter side and double both "
       "sides {} "
       "to {} times (4x4 becomes {} to {}, 8x4 becomes {}x{} to {}x{}); the nearest sizes are {}",
       to_text(resolution),
       networks,
       doublings.fewest,
       doublings.most,
       4 << doublings.fewest,
       4 << doublings.most,
       8 << doublings.fewest,
       4 << doublings.fewest,
       8 << doublings.most,
       4 << doublings.most,
       join(nearest, ", "));
}

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
  const auto precision = config.read<PrecisionOptions>();
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

bool transfers(const Config& config, const Site& site) {
  return !site.goes_on && config.has("run.init_from") &&
         !text_of(config.get("run.init_from")).empty();
}

void choose_for_transfer(Config& config,
                         const Site& site,
                         std::vector<std::string>& lines,
                         const std::string& also) {
  if (!transfers(config, site)) return;
  Chooser chooser(config, "auto (run.init_from)");
  if (config.has("ema.rampup")) chooser.choose("ema.rampup", 0);
  if (config.has("ada.kimg")) chooser.choose("ada.kimg", 100);
  if (!chooser.said().empty())
    lines.push_back("auto    from other weights: " + also + chooser.said());
}

void choose_for_gpu(Config& config,
                    const Site& site,
                    const std::string& recipe,
                    std::vector<std::string>& lines,
                    const char* type) {
  if (!site.on_gpu) return;
  Chooser on_gpu(config, "auto (GPU)");
  choose_half_blocks(config, on_gpu, recipe, type);
  on_gpu.choose_default("data.workers", 3);
  if (!on_gpu.said().empty()) lines.push_back("auto    on a GPU: " + on_gpu.said());
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
