// SPDX-License-Identifier: Apache-2.0
#include "page/healthy.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "util/text.h"

namespace gantrain {

namespace {

constexpr double kEver = std::numeric_limits<double>::infinity();

// Whether G minimises softplus(-D(G(z))) and D the cross-entropy of real and fake.
bool has_nonsaturating_loss(const RunRecord& run) {
  const std::string recipe = setting(run, "recipe");
  return (recipe == "dcgan" && setting(run, "dcgan.loss") == "dcgan") ||
         (recipe == "stylegan1" && setting(run, "stylegan1.loss") == "logistic") ||
         recipe == "stylegan2" || recipe == "stylegan3";
}

std::vector<HealthyBand> of_losses(const RunRecord& run) {
  const double ln2 = std::log(2);
  if (setting(run, "recipe") == "r3gan") {
    return {{{ln2, ln2},
             "Dashed at 0.69: both losses are ln 2 at the equilibrium, D's without its penalties: "
             "a real and a generated picture are scored alike (Huang et al. 2024, sec. 2)."}};
  }
  if (!has_nonsaturating_loss(run)) return {};
  return {{{ln2, ln2},
           "Dashed at 0.69: G's loss ln 2 at the equilibrium, where D says 1/2 to every picture "
           "(Goodfellow et al. 2014)."},
          {{2 * ln2, 2 * ln2}, "Dashed at 1.39: D's loss 2 ln 2 there."}};
}

std::optional<double> augmentation_target(const RunRecord& run) {
  if (setting(run, "ada.mode") != "ada") return std::nullopt;
  for (const Setting& one : run.settings) {
    if (one.key == "ada.target") return parse_double(one.value);
  }
  return std::nullopt;
}

}  // namespace

std::vector<HealthyBand> healthy_bands(const RunRecord& run, const Chart& chart) {
  const std::string& name = chart.curves.front().name;
  if (chart.title == "Losses") return of_losses(run);
  if (chart.title == "Signs") {
    const auto target = augmentation_target(run);
    if (!target || run.stats.count("Progress/augment") == 0) return {};
    return {{{*target, *target},
             fmt::format("Dashed: {}, the target of adaptive augmentation for real pictures "
                         "(Karras et al. 2020, arXiv:2006.06676, sec. 3).",
                         number(*target))}};
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
                         number(*below))}};
  }
  if (starts_with(name, "AMP/") && ends_with(name, "/scale")) {
    return {{{1, kEver},
             "Shaded: a loss scale below 1 means that gradients overflow float16 however they are "
             "scaled (Micikevicius et al. 2018, sec. 3.2)."}};
  }
  return {};
}

}  // namespace gantrain
