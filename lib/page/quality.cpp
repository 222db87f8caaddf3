// SPDX-License-Identifier: Apache-2.0
// What a run's own measurements say of its pictures.
#include <algorithm>
#include <cmath>

#include "page/rules.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Distances from the real pictures, lower is better, the best-known one first.
constexpr std::pair<const char*, const char*> kDistances[] = {
    {"fid", "FID"}, {"fd", "FD"}, {"kid", "KID"}, {"fd_lite0", "FD in Lite0"}, {"swd", "SWD"}};

// What is known of how different the pictures are.
std::string variety(const RunRecord& run) {
  if (const auto distinct = last_of(run.stats, "Progress/distinctness"))
    return fmt::format("pictures are {:.2f} as distinct from each other as the data's", *distinct);
  if (const auto msssim = last_of(run.metrics, "msssim"))
    return fmt::format("MS-SSIM of fakes is {:.2f}", *msssim);
  return "whether pictures are alike was not measured";
}

double lowest(Curve::const_iterator first, Curve::const_iterator end) {
  double value = first->second;
  for (auto at = first; at != end; ++at) value = std::min(value, at->second);
  return value;
}

// Whether the last third of the measurements has a lower one than those before.
bool falls_at_last(const Curve& curve) {
  const auto count = static_cast<std::ptrdiff_t>(std::max<size_t>(curve.size() / 3, 1));
  const auto third = curve.end() - count;
  const double before = lowest(curve.begin(), third);
  return lowest(third, curve.end()) < before - kRuleLimits.last_fall * std::abs(before);
}

Verdict no_failure(const RunRecord& run, const std::string& quality) {
  const bool reported =
      std::ranges::any_of(run.stats, [](const auto& of) { return is_loss(of.first); });
  return {Judgement::kNoFailure,
          "no failure found",
          fmt::format("{}; {}; {}",
                      quality,
                      reported ? "losses are finite and do not explode" : "no loss was reported",
                      variety(run)),
          "no rule of failure holds"};
}

// "SWD fell by 60 % since kimg 0, from 81.2 to 32.5 at kimg 200".
std::string fall_text(const MeasuredQuality& measured) {
  const auto& [start, first] = measured.curve.front();
  const auto best =
      std::ranges::min_element(measured.curve, {}, [](const auto& at) { return at.second; });
  return fmt::format("{} fell by {:.0f} % since kimg {}, from {:.4g} to {:.4g} at kimg {}",
                     measured.title,
                     100 * (first - best->second) / first,
                     shortest(start),
                     first,
                     best->second,
                     shortest(best->first));
}

QualityVerdict judge_measurements(const RunRecord& run, const MeasuredQuality& measured) {
  const Curve& curve = measured.curve;
  const bool enough = curve.size() >= kRuleLimits.measurements;
  const double first = curve.front().second;
  const bool fell = lowest(curve.begin(), curve.end()) < (1 - kRuleLimits.fall) * first;
  const std::string unchanged = fmt::format("{} was {:.4g} at kimg {} and is {:.4g} at kimg {}",
                                            measured.title,
                                            first,
                                            shortest(curve.front().first),
                                            curve.back().second,
                                            shortest(curve.back().first));
  if (!fell && !enough) return {no_failure(run, unchanged)};
  if (!fell) {
    return {{Judgement::kNotImproving,
             "not improving",
             unchanged + "; " + variety(run),
             "quality that does not rise"}};
  }
  const std::string fall = fall_text(measured);
  if (falls_at_last(curve)) {
    return {{Judgement::kLearning, "learning", fall + "; " + variety(run), "quality that rises"},
            enough};
  }
  return {{Judgement::kLevelled,
           "levelled off",
           fmt::format("{}, and has not fallen since (now {:.4g}); {}",
                       fall,
                       curve.back().second,
                       variety(run)),
           "quality that has stopped rising"}};
}

}  // namespace

MeasuredQuality measured_quality(const RunRecord& run) {
  MeasuredQuality measured;
  for (const auto& [name, title] : kDistances) {
    const Curve* all = find_curve(run.metrics, name);
    if (all == nullptr || measured.curve.size() > 1) continue;
    Curve finite;
    for (const auto& at : *all) {
      if (std::isfinite(at.second)) finite.push_back(at);
    }
    if (finite.size() > measured.curve.size()) measured = {title, finite};
  }
  return measured;
}

QualityVerdict judge_quality(const RunRecord& run) {
  const MeasuredQuality measured = measured_quality(run);
  if (measured.curve.empty()) return {no_failure(run, "quality was not measured")};
  const auto& [kimg, value] = measured.curve.front();
  if (measured.curve.size() > 1 && value > 0) return judge_measurements(run, measured);
  return {no_failure(run,
                     fmt::format("whether quality rises is not known: {} was {:.4g} at kimg {}",
                                 measured.title,
                                 value,
                                 shortest(kimg)))};
}

}  // namespace gantrain
