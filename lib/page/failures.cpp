// SPDX-License-Identifier: Apache-2.0
// The rules by which training has failed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "page/rules.h"
#include "util/text.h"

namespace gantrain {

std::optional<CollapseLimits> collapse_limits(const RunRecord& run) {
  const auto below = number_setting(run, "metrics.collapse_below");
  const auto times = parse_int(setting(run, "metrics.collapse_times"));
  const auto after = number_setting(run, "metrics.collapse_after");
  if (!below || !times || !after || *times < 1) return std::nullopt;
  return CollapseLimits{*below, *times, *after};
}

bool is_loss(const std::string& name) {
  return starts_with(name, "Loss/") && ends_with(name, "/loss");
}

Verdict diverged(const std::string& reason, const std::string& rule) {
  return {Judgement::kDiverged, "diverged", reason, rule};
}

Verdict collapsed(const std::string& reason, const std::string& rule) {
  return {Judgement::kCollapsed, "collapsed", reason, rule};
}

namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The size of a loss while it was smallest: the lowest median of ten ticks in a row, the last ones
// left out. What has exploded long ago does not become usual.
std::optional<double> usual_size(const Curve& curve, size_t without) {
  std::vector<double> sizes;
  for (size_t i = 0; i + without < curve.size(); ++i) {
    if (std::isfinite(curve[i].second)) sizes.push_back(std::abs(curve[i].second));
  }
  if (sizes.size() < kRuleLimits.usual_ticks) return std::nullopt;
  double lowest = median({sizes.begin(), sizes.begin() + kRuleLimits.usual_ticks});
  for (auto at = sizes.begin(); at + kRuleLimits.usual_ticks <= sizes.end(); ++at)
    lowest = std::min(lowest, median({at, at + kRuleLimits.usual_ticks}));
  return lowest;
}

// Whether the last ticks of a curve, as far as there are so many, are all above.
bool stays_above(const Curve& curve, double limit) {
  const size_t count = std::min(curve.size(), kRuleLimits.exploding_ticks);
  return count > 0 && std::all_of(curve.end() - static_cast<std::ptrdiff_t>(count),
                                  curve.end(),
                                  [&](const auto& at) { return std::abs(at.second) > limit; });
}

std::optional<Verdict> nonfinite(const RunRecord& run) {
  for (const auto& [name, curve] : run.stats) {
    if (!is_loss(name) || curve.empty() || std::isfinite(curve.back().second)) continue;
    return diverged(fmt::format("{} is not finite at {} kimg", name, shortest(curve.back().first)),
                    "loss that is not finite");
  }
  return std::nullopt;
}

// A player whose steps were all left out since it last had a loss.
std::optional<Verdict> left_out(const RunRecord& run) {
  for (const char* player : {"G", "D"}) {
    const Curve* skipped = find_curve(run.stats, fmt::format("AMP/{}/skipped", player));
    if (skipped == nullptr) continue;
    const auto& [kimg, steps] = skipped->back();
    const Curve* loss = find_curve(run.stats, fmt::format("Loss/{}/loss", player));
    const bool silent = loss == nullptr || loss->back().first < kimg;
    if (!silent || !(steps > 0)) continue;
    return diverged(fmt::format("all steps of {} were left out in the tick at {} kimg, because of "
                                "gradients that are not finite",
                                player,
                                shortest(kimg)),
                    "no loss, and steps left out");
  }
  return std::nullopt;
}

std::optional<Verdict> exploding(const RunRecord& run) {
  for (const auto& [name, curve] : run.stats) {
    if (!is_loss(name)) continue;
    if (stays_above(curve, kRuleLimits.too_large)) {
      return diverged(
          fmt::format(
              "{} is {:.3g}, far from what a healthy network has", name, curve.back().second),
          "exploding loss");
    }
    const auto usual = usual_size(curve, kRuleLimits.exploding_ticks);
    if (!usual || !stays_above(curve, kRuleLimits.explosion * std::max(*usual, 1.0))) continue;
    return diverged(
        fmt::format("{} of {:.3g} has been above {} times its usual size ({:.3g}) for {} ticks",
                    name,
                    curve.back().second,
                    kRuleLimits.explosion,
                    std::max(*usual, 1.0),
                    kRuleLimits.exploding_ticks),
        "exploding loss");
  }
  return std::nullopt;
}

// The alarm's own rule (train/run/run_metrics.h), read from what each tick has measured.
std::optional<Verdict> indistinct(const Curve& curve, const CollapseLimits& limits) {
  const auto times = static_cast<size_t>(limits.times);
  if (curve.size() < times) return std::nullopt;
  double highest = 0, limit = limits.below;
  size_t in_a_row = 0;
  for (const auto& [kimg, distinct] : curve) {
    limit = collapse_limit(limits.below, highest);
    in_a_row = kimg >= limits.after_kimg && distinct < limit ? in_a_row + 1 : 0;
    highest = std::max(highest, distinct);
  }
  if (in_a_row < times) return std::nullopt;
  return collapsed(
      fmt::format("for {} measurements pictures have been less distinct than {} of the data's "
                  "(now {:.3f})",
                  limits.times,
                  shortest(curve.back().second < limits.below ? limits.below
                                                              : std::round(1000 * limit) / 1000),
                  curve.back().second),
      "collapse alarm");
}

// Where distinctness was not measured, MS-SSIM is: 1 of pictures that are all the same one.
std::optional<Verdict> alike(const Curve& curve, const CollapseLimits& limits) {
  if (curve.back().first < limits.after_kimg) return std::nullopt;
  const double most = 1 - limits.below;
  if (!(curve.back().second > most)) return std::nullopt;
  return collapsed(
      fmt::format(
          "MS-SSIM {:.2f} of the last fakes is above {}", curve.back().second, shortest(most)),
      "alike by MS-SSIM");
}

std::optional<Verdict> collapse(const RunRecord& run) {
  const auto limits = collapse_limits(run);
  if (!limits || limits->below <= 0) return std::nullopt;
  if (const Curve* distinct = find_curve(run.stats, "Progress/distinctness"))
    return indistinct(*distinct, *limits);
  const Curve* msssim = find_curve(run.metrics, "msssim");
  return msssim == nullptr ? std::nullopt : alike(*msssim, *limits);
}

// The ticks by which it is judged whether something holds for long: the last third; none where the
// run is too short to tell.
Curve long_tail(const Curve& curve) {
  const size_t count = std::max(curve.size() / 3, kRuleLimits.long_ticks);
  if (curve.size() < 2 * kRuleLimits.long_ticks) return {};
  return {curve.end() - static_cast<std::ptrdiff_t>(count), curve.end()};
}

bool all_below(const Curve& curve, double limit) {
  return std::ranges::all_of(curve, [&](const auto& at) { return at.second < limit; });
}

Verdict stuck(const std::string& word, const std::string& reason, const std::string& rule) {
  return {Judgement::kStuck, word, reason, rule};
}

// How many of a curve's last values are below.
size_t last_below(const Curve& curve, double limit) {
  size_t count = 0;
  while (count < curve.size() && curve[curve.size() - 1 - count].second < limit) ++count;
  return count;
}

// Where a curve went below for the last time.
double below_since(const Curve& curve, double limit) {
  return curve[curve.size() - last_below(curve, limit)].first;
}

std::optional<Verdict> weights_still(const RunRecord& run) {
  for (const char* player : {"G", "D"}) {
    const Curve* moved = find_curve(run.stats, fmt::format("Weights/{}/moved", player));
    if (moved == nullptr) continue;
    const size_t ticks = last_below(*moved, kRuleLimits.still);
    if (ticks < kRuleLimits.still_ticks) continue;
    return stuck(
        fmt::format("{} does not move", player),
        fmt::format("the weights of {} have not moved in the last {} ticks, up to {} kimg: "
                    "its learning rate is 0 or far too small",
                    player,
                    ticks,
                    shortest(moved->back().first)),
        "weights that do not move");
  }
  return std::nullopt;
}

// For runs whose ticks do not tell how far weights move.
std::optional<Verdict> pictures_still(const RunRecord& run) {
  if (find_curve(run.stats, "Weights/G/moved") != nullptr) return std::nullopt;
  const auto [title, curve] = measured_quality(run);
  const size_t count = kRuleLimits.same_measurements;
  if (curve.size() < count) return std::nullopt;
  const bool same = std::all_of(curve.end() - static_cast<std::ptrdiff_t>(count),
                                curve.end(),
                                [&](const auto& at) { return at.second == curve.back().second; });
  if (!same) return std::nullopt;
  return stuck("G does not move",
               fmt::format("the last {} measurements of {} are the same number, {}",
                           count,
                           title,
                           shortest(curve.back().second)),
               "pictures that do not change");
}

// Whether D tells real pictures from generated ones that far, for long; also where no scores were
// reported.
bool scores_far_apart(const RunRecord& run) {
  const Curve* real = find_curve(run.stats, "Loss/scores/real");
  const Curve* fake = find_curve(run.stats, "Loss/scores/fake");
  if (real == nullptr || fake == nullptr || real->size() != fake->size()) return true;
  Curve gap = *real;
  for (size_t i = 0; i < gap.size(); ++i) gap[i].second = (*fake)[i].second - gap[i].second;
  return all_below(long_tail(gap), -kRuleLimits.won_gap);
}

std::optional<Verdict> won(const RunRecord& run) {
  const std::vector<LossAtEquilibrium> balance = losses_at_equilibrium(run);
  const Curve* loss = find_curve(run.stats, "Loss/D/loss");
  if (balance.empty() || loss == nullptr) return std::nullopt;
  const double limit = kRuleLimits.won_loss * balance.back().value;
  const Curve tail = long_tail(*loss);
  if (tail.empty() || !all_below(tail, limit) || !scores_far_apart(run)) return std::nullopt;
  const auto of_G = last_of(run.stats, "Loss/G/loss");
  return stuck("D has won",
               fmt::format("Loss/D/loss has been below {:.2g} since {} kimg and is {:.2g}{}: G has "
                           "hardly anything to learn from",
                           limit,
                           shortest(below_since(*loss, limit)),
                           tail.back().second,
                           of_G ? fmt::format(", Loss/G/loss is {:.3g}", *of_G) : ""),
               "D has won");
}

constexpr double kNothing = std::numeric_limits<double>::min();

std::optional<Verdict> vanished(const RunRecord& run) {
  const Curve* size = find_curve(run.stats, "Gradients/G/size");
  if (size == nullptr) return std::nullopt;
  const Curve tail = long_tail(*size);
  if (tail.empty()) return std::nullopt;
  double largest = 0;
  for (const auto& [kimg, value] : *size) largest = std::max(largest, value);
  // Without any gradient each one is 0.
  const double limit = largest > 0 ? kRuleLimits.vanished * largest : kNothing;
  if (!all_below(tail, limit)) return std::nullopt;
  return stuck("D has won",
               fmt::format("G's gradients are {:.2g} since {} kimg, and were {:.2g}: it does not "
                           "learn any more",
                           tail.back().second,
                           shortest(below_since(*size, limit)),
                           largest),
               "gradients that vanish");
}

}  // namespace

std::optional<Verdict> find_failure(const RunRecord& run) {
  for (const auto rule :
       {nonfinite, left_out, exploding, weights_still, pictures_still, collapse}) {
    if (auto verdict = rule(run)) return verdict;
  }
  return std::nullopt;
}

std::optional<Verdict> find_standstill(const RunRecord& run) {
  if (auto verdict = won(run)) return verdict;
  return vanished(run);
}

}  // namespace gantrain
