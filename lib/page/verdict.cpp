// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "page/charts.h"
#include "page/rules.h"
#include "page/run_page.h"
#include "recipes/facts.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr int kFirstSignalCode = 128;

double kimg_of(const RunRecord& run) {
  double kimg = 0;
  for (const auto& [name, curve] : run.stats) {
    if (!curve.empty()) kimg = std::max(kimg, curve.back().first);
  }
  return kimg;
}

Verdict too_early(double kimg, double young) {
  const std::string reason =
      kimg == 0 ? "no tick has been reported yet"
                : fmt::format("{} kimg, and networks that have just begun are judged after {}",
                              shortest(kimg),
                              shortest(young));
  return {Judgement::kYoung, "still young", reason, "too early to tell"};
}

Verdict training(const RunRecord& run) {
  if (const auto failure = find_failure(run)) return *failure;
  const double kimg = kimg_of(run);
  const auto limits = collapse_limits(run);
  const double young = limits ? limits->after_kimg : 0;
  if (kimg <= young) return too_early(kimg, young);
  const QualityVerdict quality = judge_quality(run);
  if (quality.falls) return quality.verdict;
  if (const auto standstill = find_standstill(run)) return *standstill;
  return quality.verdict;
}

// Where the reason of a failure begins in STATUS.
std::string reason_of(const std::string& status) {
  const size_t colon = status.find(": ");
  return colon == std::string::npos ? status : status.substr(colon + 2);
}

// The number that the text begins with; nothing where it begins with none.
std::optional<int64_t> number_at_start(const std::string& text) {
  return parse_int(text.substr(0, text.find_first_not_of("0123456789")));
}

// The signal of "... died of signal 9 (SIGKILL) ...", or of an exit code of 128 + n; 0: none.
int64_t signal_of(const std::string& status, int64_t code) {
  if (code > kFirstSignalCode) return code - kFirstSignalCode;
  constexpr std::string_view kWords = "died of signal ";
  const size_t at = status.find(kWords);
  if (at == std::string::npos) return 0;
  return number_at_start(status.substr(at + kWords.size())).value_or(0);
}

// A process that does this to itself has crashed; nobody has killed it.
bool is_crash(int64_t signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE ||
         signal == SIGILL;
}

Verdict failure(const std::string& status, int64_t code) {
  const std::string reason = reason_of(status);
  const int64_t signal = signal_of(status, code);
  if (signal != 0 && !is_crash(signal)) {
    const std::string said = reason == status ? fmt::format("exit code {}", code) : reason;
    return {Judgement::kKilled, "killed", said, fmt::format("signal {}", signal)};
  }
  const std::string rule = fmt::format("exit code {}", code);
  if (code != static_cast<int>(Exit::kDiverged))
    return {Judgement::kFailed, "failed", reason, rule};
  if (starts_with(reason, "collapse")) return collapsed(reason, "--stop-on collapse");
  return diverged(reason, rule);
}

// What STATUS says of the end; nothing for a run that is done or at work.
std::optional<Verdict> end_of(const RunRecord& run) {
  if (const auto code = exit_code_of(run.status)) return failure(run.status, *code);
  if (starts_with(run.status, "ended ")) return collapsed(run.status, "--stop-on collapse");
  if (starts_with(run.status, "stopped "))
    return Verdict{Judgement::kStopped, "stopped", "at " + run.status.substr(8), "STATUS"};
  if (run.status == "running" && !run.at_work) {
    return Verdict{
        Judgement::kKilled,
        "killed",
        "STATUS says \"running\", but no process holds the folder's lock: the machine or "
        "all processes of the run ended without a word",
        "free lock"};
  }
  return std::nullopt;
}

// Whether a verdict says more than that somebody has stopped the run.
bool is_failure(Judgement judgement) {
  return judgement == Judgement::kCollapsed || judgement == Judgement::kDiverged ||
         judgement == Judgement::kStuck;
}

}  // namespace

const std::vector<RuleDefinition>& rule_definitions() {
  constexpr const RuleLimits& l = kRuleLimits;
  static const std::string kLong =
      fmt::format("for the last third of the ticks, at least {}", l.long_ticks);
  static const std::vector<RuleDefinition> table = {
      {"loss that is not finite", "the last value of a loss is not finite"},
      {"no loss, and steps left out",
       "the last tick of a player has no loss, because all its steps "
       "were left out for gradients that are not finite"},
      {"exploding loss",
       fmt::format(
           "a loss has been above {} for {} ticks, or above {} times its lowest median of {} "
           "ticks (at least 1)",
           l.too_large,
           l.exploding_ticks,
           l.explosion,
           l.usual_ticks)},
      {"weights that do not move",
       fmt::format("in each of the last {} ticks the weights of a player have changed by less than "
                   "{} of their size",
                   l.still_ticks,
                   l.still)},
      {"pictures that do not change",
       fmt::format("the last {} measurements of a distance are the same number",
                   l.same_measurements)},
      {"collapse alarm",
       "as many measurements in a row as metrics.collapse_times says have been below "
       "metrics.collapse_below, after metrics.collapse_after kimg; or have fallen, from 3 times of "
       "it or more, to less than two thirds of the highest one and than 2.5 times of it"},
      {"alike by MS-SSIM",
       "where distinctness was not measured: the last MS-SSIM of fakes is above "
       "1 - metrics.collapse_below"},
      {"too early to tell", "the run has not trained for longer than metrics.collapse_after kimg"},
      {"D has won",
       fmt::format(
           "{} D's loss has been below {:.0f} % of its value at the equilibrium and scores of "
           "real and generated pictures more than {} apart, and no measured distance falls",
           kLong,
           100 * l.won_loss,
           l.won_gap)},
      {"gradients that vanish",
       fmt::format("{} G's gradients have been below {} of their largest size, and no measured "
                   "distance falls",
                   kLong,
                   l.vanished)},
      {"quality that rises",
       fmt::format(
           "FID, FD, KID or SWD has fallen by at least {:.0f} % since the first measurement, "
           "and by at least {:.0f} % in the last third of the measurements",
           100 * l.fall,
           100 * l.last_fall)},
      {"quality that has stopped rising",
       fmt::format(
           "FID, FD, KID or SWD has fallen by at least {:.0f} % since the first measurement, "
           "but by less than {:.0f} % in the last third of the measurements",
           100 * l.fall,
           100 * l.last_fall)},
      {"quality that does not rise",
       fmt::format(
           "in {} or more measurements FID, FD, KID or SWD has never been {:.0f} % below the "
           "first one",
           l.measurements,
           100 * l.fall)},
      {"no rule of failure holds",
       "nothing of what a run looks for is wrong, and measurements do not "
       "tell whether pictures get better"}};
  return table;
}

std::string definition_of(const std::string& rule) {
  for (const RuleDefinition& one : rule_definitions()) {
    if (one.name == rule) return one.definition;
  }
  return "";
}

std::optional<int64_t> exit_code_of(const std::string& status) {
  constexpr std::string_view kBeginning = "failed with exit code ";
  if (!starts_with(status, kBeginning)) return std::nullopt;
  return number_at_start(status.substr(kBeginning.size()));
}

std::vector<Verdict> judge(const RunRecord& run) {
  const std::optional<Verdict> end = end_of(run);
  const Verdict now = training(run);
  if (!end) return {now};
  if (end->judgement == now.judgement) return {*end};
  // A stop is nobody's fault, and says less than what the training has come to.
  if (end->judgement == Judgement::kStopped && is_failure(now.judgement)) return {now, *end};
  return {*end, now};
}

// What is known of curves in healthy training.

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

// What a run's own measurements say of its pictures.

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
  std::string fall = fall_text(measured);
  if (falls_at_last(curve)) {
    const double now = curve.back().second;
    if (now > kRuleLimits.worse * lowest(curve.begin(), curve.end()))
      fall += fmt::format(" (now {:.4g})", now);
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
