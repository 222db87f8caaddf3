// SPDX-License-Identifier: Apache-2.0
#include "page/curves.h"

#include <algorithm>
#include <array>

#include "util/text.h"

namespace gantrain {

namespace {

struct Known {
  const char* chart;
  const char* name;
  const char* meaning;
};

// Curves of one chart stand together.
constexpr std::array kKnown = {
    Known{
        "Losses",
        "Loss/G/loss",
        "What the generator minimises: it need not fall, staying level while the pictures improve "
        "is healthy."},
    Known{"Losses",
          "Loss/D/loss",
          "What the discriminator minimises: near zero for long means that it has won and the "
          "generator learns little."},
    Known{"Scores",
          "Loss/scores/real",
          "The discriminator's mean output for real pictures, higher is more convinced."},
    Known{"Scores",
          "Loss/scores/fake",
          "The same for generated pictures: a gap to the real ones that keeps growing means that "
          "the discriminator runs away."},
    Known{"Signs",
          "Loss/signs/real",
          "Mean sign of the discriminator's output for real pictures, -1 to 1: close to 1 means "
          "that it knows the data by heart, and 0.6 is what adaptive augmentation aims at."},
    Known{"Signs",
          "Loss/signs/fake",
          "Mean sign of its output for generated pictures, -1 to 1: at -1 none of them fools it."},
    Known{
        "Distinctness",
        "Progress/distinctness",
        "How distinct generated pictures are from each other, as a share of the data's: near zero "
        "means collapse."},
    Known{"Gradient penalty",
          "Loss/gradient_penalty",
          "How far the critic's gradient between real and fake pictures is from length 1, squared: "
          "should settle near zero."},
    Known{"R1 penalty",
          "Loss/r1_penalty",
          "Squared gradient of the discriminator at real pictures, before its weight: a steep rise "
          "announces divergence."},
    Known{"R2 penalty",
          "Loss/r2_penalty",
          "The same at generated pictures: a steep rise announces divergence."},
    Known{"Path length penalty",
          "Loss/pl_penalty",
          "How unevenly steps in latent space change the picture: should fall early and stay low."},
    Known{"Augmentation",
          "Progress/augment",
          "Probability of each augmentation: rises while the discriminator overfits; above 0.8 "
          "the data are too few."},
    Known{"Sliced Wasserstein distance (times 1000)",
          "swd",
          "Distance of local patches from those of real pictures, mean over all scales: lower is "
          "better."},
    Known{"MS-SSIM",
          "msssim",
          "How alike generated pictures are to each other: a sudden rise means mode collapse; "
          "compare with the real pictures' own value."},
    Known{
        "FID", "fid", "Frechet distance of features from those of real pictures: lower is better."},
    Known{"KID", "kid", "Kernel distance of features, unbiased for few pictures: lower is better."},
    Known{
        "Precision and recall",
        "pr/precision",
        "Share of generated pictures that look like some real picture: quality, higher is better."},
    Known{"Precision and recall",
          "pr/recall",
          "Share of real pictures that the generator could have made: variety, higher is better."},
    Known{"Time per kimg",
          "Timing/sec_per_kimg",
          "Seconds to show a thousand real pictures to the discriminator, all work included."},
    Known{"Waiting",
          "Timing/data_wait",
          "Seconds of a tick that training waited for pictures: should stay near zero, else add "
          "loader threads."},
    Known{
        "Waiting",
        "Timing/comm",
        "Seconds of a tick that training waited for other ranks: grows when one of them is slow."},
    Known{"Memory (GB)",
          "Resources/cpu_mem_gb",
          "Main memory of the first rank: a steady rise is a leak."},
    Known{"Memory (GB)",
          "Resources/peak_gpu_mem_gb",
          "Most GPU memory that the first rank held at once."},
};

const Known* find_known(const std::string& name) {
  const auto found = std::find_if(
      kKnown.begin(), kKnown.end(), [&](const Known& known) { return name == known.name; });
  return found == kKnown.end() ? nullptr : &*found;
}

// What every chart has on its horizontal axis, or nearly so.
bool is_place(const std::string& name) {
  return name == "Progress/kimg" || name == "Progress/tick" || name == "Timing/total_sec";
}

bool is_bookkeeping(const std::string& name) {
  constexpr std::array<std::string_view, 5> kGroups = {
      "Comm/", "AMP/", "Timing/", "Resources/", "Gradients/"};
  return std::any_of(kGroups.begin(), kGroups.end(), [&](std::string_view group) {
    return starts_with(name, group);
  });
}

void put(std::vector<Chart>& charts, const std::string& title, ExplainedCurve curve) {
  if (charts.empty() || charts.back().title != title)
    charts.push_back({title, {}, is_bookkeeping(curve.name)});
  charts.back().curves.push_back(std::move(curve));
}

}  // namespace

std::vector<Chart> charts_of(const std::map<std::string, Curve>& curves) {
  std::vector<Chart> charts;
  for (const Known& known : kKnown) {
    const auto found = curves.find(known.name);
    if (found != curves.end()) put(charts, known.chart, {known.name, known.meaning, found->second});
  }
  for (const auto& [name, curve] : curves) {
    if (find_known(name) != nullptr || is_place(name)) continue;
    const std::string meaning = starts_with(name, "swd/")
                                    ? "The distance at one scale: " + name.substr(4) + "."
                                    : "Mean of " + name + " over each tick.";
    put(charts, name, {name, meaning, curve});
  }
  return charts;
}

}  // namespace gantrain
