// SPDX-License-Identifier: Apache-2.0
#include "tune/finetune_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tune/course.h"
#include "util/size.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr const char* kFreezeD = "Mo et al. 2020, arXiv:2002.10964";
constexpr const char* kAda = "Karras et al. 2020, arXiv:2006.06676";
constexpr const char* kAdvice = "StyleGAN3's advice on configurations";
constexpr const char* kOwn = "gantrain's own rule";

constexpr int64_t kMeasurements = 25;  // of a run: each may be the best
// Of a run's length, the longest half-life of the average: one of 5 kimg would after 20 kimg still
// hold 6 % of the model that was begun at. Ours.
constexpr double kLongestAverage = 0.1;

// So many states that the best one is among them when a fall is seen.
int64_t states_kept(double every) {
  const auto needed = static_cast<int64_t>(std::ceil(kCourseLimits.kimg / every)) + 1;
  return std::clamp(needed, kCourseLimits.times_without_best, kMeasurements);
}

// "5", or "" where the run's own half-life of the average is no longer than its length asks for.
std::string shorter_half_life(const Config& config, double length) {
  if (!config.has("ema.half_life")) return "";
  const Json own = config.get("ema.half_life");
  const double longest = kLongestAverage * length;
  return own.is_number() && own.get<double>() > longest ? shortest(longest) : "";
}

}  // namespace

// Where the columns come from:
//   kimg     NVIDIA's MetFaces, 1336 pictures from a model of faces, had 5000 at most (Karras et
//            al. 2021, app. G); fewer pictures overfit sooner (Karras et al. 2020, fig. 1). The
//            numbers below and above are ours; the end is found by the metric.
//   frozen   D's first layers stay as they are: Mo et al. 2020. StyleGAN3's advice calls 10 and 13
//            layers good values, which are half of D's resolutions at 256 and at 1024 pixels. With
//            many pictures D may learn all of it anew.
//   start    official fine-tuning begins at 0 and moves five times as fast as training from nothing
//            (100 kimg from 0 to 1). With few pictures D knows them by heart before that helps, so
//            it begins above 0: ours.
//   mirror   Karras et al. 2020 double small sets by mirroring.
const std::vector<FinetuneRule>& finetune_rules() {
  static const std::vector<FinetuneRule> table = {
      {200, 500, 0.5, 0.3, true},
      {1'000, 1'500, 0.5, 0.2, true},
      {2'000, 5'000, 0.5, 0.1, true},
      {10'000, 5'000, 0.25, 0, true},
      {std::numeric_limits<int64_t>::max(), 10'000, 0, 0, false},
  };
  return table;
}

const FinetuneRule& rule_for(int64_t pictures) {
  const auto& table = finetune_rules();
  return *std::ranges::find_if(
      table, [&](const FinetuneRule& rule) { return pictures <= rule.most_pictures; });
}

// Of a discriminator of residual blocks: four layers in the first, with the one that reads the
// picture, three in each other (Karras et al. 2020a, fig. 7); the one at 4x4 pixels always learns.
int64_t layers_in(double share, int64_t nominal_resolution) {
  const auto resolutions =
      static_cast<int64_t>(std::llround(std::log2(static_cast<double>(nominal_resolution)))) - 2;
  const auto frozen = static_cast<int64_t>(share * static_cast<double>(resolutions));
  return frozen > 0 ? 3 * frozen + 1 : 0;
}

std::vector<FinetuneChoice> finetune_choices(const Config& config,
                                             const StartingModel& model,
                                             int64_t pictures,
                                             const std::string& metric) {
  const FinetuneRule& rule = rule_for(pictures);
  const std::string recipe = text_of(config.get("recipe"));
  const std::string for_so_many = "for " + counted(pictures, "picture");
  std::vector<FinetuneChoice> choices;
  const auto choose =
      [&](const std::string& key, const std::string& value, const std::string& why) {
        if (config.has(key)) choices.push_back({key + "=" + value, why});
      };
  double kimg = rule.kimg;
  std::string why =
      fmt::format("{}, at most; it ends when nothing improves ({})", for_so_many, kAdvice);
  if (model.kimg > 0 && model.kimg < kimg) {
    kimg = model.kimg;
    why = fmt::format("as long as the model itself was trained, at most ({})", kOwn);
  }
  choose("train.kimg", shortest(kimg), why);
  const auto size = find_doubled_size(model.resolution);
  const int64_t frozen = size ? layers_in(rule.frozen, size->nominal()) : 0;
  if (!model.has_discriminator) {
    choose(recipe + ".freeze_d", "0", "the file has no discriminator, which is drawn anew");
  } else {
    choose(recipe + ".freeze_d",
           std::to_string(frozen),
           fmt::format("{}: {:.0f} % of D's resolutions stay as they are ({}; {})",
                       for_so_many,
                       100 * rule.frozen,
                       kFreezeD,
                       kAdvice));
  }
  choose("ada.mode", "ada", fmt::format("what D sees is augmented as it overfits ({})", kAda));
  choose("ada.p", shortest(rule.ada_start), fmt::format("{} ({})", for_so_many, kOwn));
  choose("ada.kimg", "100", fmt::format("five times as fast as from nothing ({}, its code)", kAda));
  if (rule.mirror)
    choose("data.mirror",
           "on",
           fmt::format("{}; off where left and right differ ({})", for_so_many, kAda));
  choose("ema.rampup", "0", fmt::format("the average begins at the model's ({})", kAdvice));
  // A length that was given decides how often it is measured.
  const bool given = config.given("train.kimg");
  const double length = given ? config.get("train.kimg").get<double>() : kimg;
  const std::string half_life = shorter_half_life(config, length);
  if (!half_life.empty()) {
    choose("ema.half_life", half_life, fmt::format("a tenth of the length, at most ({})", kOwn));
  }
  const double every = std::max(length / kMeasurements, 0.001);
  choose(
      "metrics.every", shortest(every), fmt::format("{} measurements ({})", kMeasurements, kOwn));
  choose("save.every", shortest(every), "a state to go back to for each measurement");
  choose("save.keep_last",
         std::to_string(states_kept(every)),
         "the best one is among them when it falls");
  choose("save.keep_best", metric, "the best model by it is kept");
  choose("metrics.stop_on", "collapse", "pictures that have collapsed lead back to the best state");
  return choices;
}

}  // namespace gantrain
