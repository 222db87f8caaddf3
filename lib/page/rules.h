// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "gan/recipe_facts.h"
#include "page/run_page.h"

namespace gantrain {

// The numbers of all rules; rule_definitions() says what they mean.
struct RuleLimits {
  // An exploding loss.
  double explosion = 100, too_large = 1e4;
  size_t exploding_ticks = 3, usual_ticks = 10;
  // A player that does not move.
  double still = 1e-7;
  size_t still_ticks = 3, same_measurements = 3;
  // What holds for long holds for the last third of the ticks, and for so many at least.
  size_t long_ticks = 4;
  // D has won; G's gradients have vanished.
  double won_loss = 0.05, won_gap = 5, vanished = 1e-3;
  // How much a measured distance falls, as shares: since the first measurement, in the last third.
  double fall = 0.05, last_fall = 0.01;
  double worse = 1.1;  // so many times the lowest: the verdict says the last one, too
  // So many measurements tell whether it falls in their last third.
  size_t measurements = 4;
};
inline constexpr RuleLimits kRuleLimits;

// The run's own limits of the collapse alarm.
struct CollapseLimits {
  double below = 0;  // as a share of how distinct the data's pictures are; 0: nothing is judged
  int64_t times = 1;
  double after_kimg = 0;
};
std::optional<CollapseLimits> collapse_limits(const RunRecord& run);

// Below which distinctness counts as collapse in a run that has reached `highest`: `below`; or two
// thirds of `highest` where that was 3 * `below` or more, but at most 2.5 * `below`. A StyleGAN2
// with ten times the rate made 64 pictures that the eye cannot tell apart at 0.19 to 0.25, after
// 0.37; healthy runs rise, and stay above 0.3.
inline double collapse_limit(double below, double highest) {
  return highest < 3 * below ? below : std::min(2.5 * below, highest * 2 / 3);
}

Verdict diverged(const std::string& reason, const std::string& rule);
Verdict collapsed(const std::string& reason, const std::string& rule);

// What is wrong with the training whatever its age.
std::optional<Verdict> find_failure(const RunRecord& run);

// What keeps a grown run from learning: D has won, or G's gradients have vanished.
std::optional<Verdict> find_standstill(const RunRecord& run);

// What the measured quality says of a run without a failure.
struct QualityVerdict {
  Verdict verdict;
  bool falls = false;  // the distance still falls in the last third of at least four measurements
};
QualityVerdict judge_quality(const RunRecord& run);

// The distance from the real pictures that a run has measured, lower is better: the best-known one.
struct MeasuredQuality {
  std::string title;  // "SWD"; "" where nothing was measured
  Curve curve;        // its finite values
};
MeasuredQuality measured_quality(const RunRecord& run);

// Whether a curve of that name is a player's loss.
bool is_loss(const std::string& name);

// The losses of G and D, in this order, where the two are in balance; one where both are the same.
// Empty for losses that have no such values.
std::vector<LossAtEquilibrium> losses_at_equilibrium(const RunRecord& run);

}  // namespace gantrain
