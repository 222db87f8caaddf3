// SPDX-License-Identifier: Apache-2.0
// What is known of curves in healthy training.
#include <limits>

#include "page/charts.h"
#include "page/rules.h"
#include "recipes/facts.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr double kEver = std::numeric_limits<double>::infinity();

std::vector<HealthyBand> of_losses(const RunRecord& run) {
  std::vector<HealthyBand> bands;
  for (const LossAtEquilibrium& loss : losses_at_equilibrium(run))
    bands.push_back({{loss.value, loss.value}, loss.words});
  return bands;
}

std::optional<double> augmentation_target(const RunRecord& run) {
  if (setting(run, "ada.mode") != "ada") return std::nullopt;
  return number_setting(run, "ada.target");
}

}  // namespace

std::vector<LossAtEquilibrium> losses_at_equilibrium(const RunRecord& run) {
  const std::string name = setting(run, "recipe");
  for (const RecipeFacts& recipe : recipe_facts()) {
    if (recipe.name != name || recipe.equilibrium == nullptr) continue;
    return recipe.equilibrium([&run](const std::string& key) { return setting(run, key); });
  }
  return {};
}

std::vector<HealthyBand> healthy_bands(const RunRecord& run, const Chart& chart) {
  const std::string& name = chart.curves.front().name;
  if (chart.title == "Losses") return of_losses(run);
  if (chart.title == "Signs") {
    const auto target = augmentation_target(run);
    if (!target || run.stats.count("Progress/augment") == 0) return {};
    return {{{*target, *target},
             fmt::format("Dashed: {}, the target of adaptive augmentation for real pictures "
                         "(Karras et al. 2020, arXiv:2006.06676, sec. 3).",
                         shortest(*target))}};
  }
  if (chart.title == "Augmentation") {
    return {{{0, 0.8},
             "Shaded: below 0.8 augmentations do not leak into generated pictures (Karras et al. "
             "2020, arXiv:2006.06676, sec. 2.2)."}};
  }
  if (chart.title == "Distinctness") {
    const auto below = number_setting(run, "metrics.collapse_below");
    if (!below || *below <= 0) return {};
    return {{{*below, kEver},
             fmt::format("Shaded: above metrics.collapse_below = {}, where the collapse alarm is "
                         "silent.",
                         shortest(*below))}};
  }
  if (starts_with(name, "AMP/") && ends_with(name, "/scale")) {
    return {{{1, kEver},
             "Shaded: a loss scale below 1 means that gradients overflow float16 however they are "
             "scaled (Micikevicius et al. 2018, sec. 3.2)."}};
  }
  return {};
}

}  // namespace gantrain
