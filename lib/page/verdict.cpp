// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "page/charts.h"
#include "page/run_page.h"
#include "recipes/facts.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

// A loss that is so many times its usual size counts as exploding, where it stays so.
constexpr double kExplosion = 100;
constexpr size_t kExplodingTicks = 3, kUsualTicks = 10;
// No loss of a healthy network is as large, whatever its past.
constexpr double kTooLarge = 1e4;

constexpr int kFirstSignalCode = 128;

// The run's own limits of the collapse alarm.
struct CollapseLimits {
  double below = 0;  // as a share of how distinct the data's pictures are; 0: nothing is judged
  int64_t times = 1;
  double after_kimg = 0;
};

std::optional<CollapseLimits> limits_of(const RunRecord& run) {
  const auto below = number_setting(run, "metrics.collapse_below");
  const auto times = parse_int(setting(run, "metrics.collapse_times"));
  const auto after = number_setting(run, "metrics.collapse_after");
  if (!below || !times || !after || *times < 1) return std::nullopt;
  return CollapseLimits{*below, *times, *after};
}

double kimg_of(const RunRecord& run) {
  double kimg = 0;
  for (const auto& [name, curve] : run.stats) {
    if (!curve.empty()) kimg = std::max(kimg, curve.back().first);
  }
  return kimg;
}

bool is_loss(const std::string& name) {
  return starts_with(name, "Loss/") && ends_with(name, "/loss");
}

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
  if (sizes.size() < kUsualTicks) return std::nullopt;
  double lowest = median({sizes.begin(), sizes.begin() + kUsualTicks});
  for (auto at = sizes.begin(); at + kUsualTicks <= sizes.end(); ++at)
    lowest = std::min(lowest, median({at, at + kUsualTicks}));
  return lowest;
}

// Whether the last ticks of a curve, as far as there are so many, are all above.
bool stays_above(const Curve& curve, double limit) {
  const size_t count = std::min(curve.size(), kExplodingTicks);
  return count > 0 && std::all_of(curve.end() - static_cast<std::ptrdiff_t>(count),
                                  curve.end(),
                                  [&](const auto& at) { return std::abs(at.second) > limit; });
}

Verdict diverged(const std::string& reason, const std::string& rule) {
  return {Judgement::kDiverged, "diverged", reason, rule};
}

Verdict collapsed(const std::string& reason, const std::string& rule) {
  return {Judgement::kCollapsed, "collapsed", reason, rule};
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
    if (stays_above(curve, kTooLarge)) {
      return diverged(
          fmt::format(
              "{} is {:.3g}, far from what a healthy network has", name, curve.back().second),
          "exploding loss");
    }
    const auto usual = usual_size(curve, kExplodingTicks);
    if (!usual || !stays_above(curve, kExplosion * std::max(*usual, 1.0))) continue;
    return diverged(
        fmt::format("{} of {:.3g} has been above {} times its usual size ({:.3g}) for {} ticks",
                    name,
                    curve.back().second,
                    kExplosion,
                    std::max(*usual, 1.0),
                    kExplodingTicks),
        "exploding loss");
  }
  return std::nullopt;
}

// The alarm's own rule (train/run/evaluate.h), read from what each tick has measured.
std::optional<Verdict> indistinct(const Curve& curve, const CollapseLimits& limits) {
  const auto times = static_cast<size_t>(limits.times);
  if (curve.size() < times) return std::nullopt;
  const auto first = curve.end() - static_cast<std::ptrdiff_t>(times);
  const bool all = std::all_of(first, curve.end(), [&](const auto& at) {
    return at.first >= limits.after_kimg && at.second < limits.below;
  });
  if (!all) return std::nullopt;
  return collapsed(
      fmt::format("for {} measurements pictures have been less distinct than {} of the data's "
                  "(now {:.3f})",
                  limits.times,
                  shortest(limits.below),
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
  const auto limits = limits_of(run);
  if (!limits || limits->below <= 0) return std::nullopt;
  if (const Curve* distinct = find_curve(run.stats, "Progress/distinctness"))
    return indistinct(*distinct, *limits);
  const Curve* msssim = find_curve(run.metrics, "msssim");
  return msssim == nullptr ? std::nullopt : alike(*msssim, *limits);
}

// What is known of how different the pictures are.
std::string variety(const RunRecord& run) {
  if (const auto distinct = last_of(run.stats, "Progress/distinctness"))
    return fmt::format("pictures are {:.2f} as distinct from each other as the data's", *distinct);
  if (const auto msssim = last_of(run.metrics, "msssim"))
    return fmt::format("MS-SSIM of fakes is {:.2f}", *msssim);
  return "whether pictures are alike was not measured";
}

Verdict training(const RunRecord& run) {
  if (const auto verdict = nonfinite(run)) return *verdict;
  if (const auto verdict = left_out(run)) return *verdict;
  if (const auto verdict = exploding(run)) return *verdict;
  if (const auto verdict = collapse(run)) return *verdict;
  const double kimg = kimg_of(run);
  const auto limits = limits_of(run);
  const double young = limits ? limits->after_kimg : 0;
  if (kimg <= young) {
    const std::string reason =
        kimg == 0 ? "no tick has been reported yet"
                  : fmt::format("{} kimg, and networks that have just begun are judged after {}",
                                shortest(kimg),
                                shortest(young));
    return {Judgement::kYoung, "still young", reason, "too early to tell"};
  }
  const bool reported =
      std::ranges::any_of(run.stats, [](const auto& of) { return is_loss(of.first); });
  return {Judgement::kGood,
          "good",
          fmt::format("at {} kimg {}; {}",
                      shortest(kimg),
                      reported ? "losses are finite and do not explode" : "no loss was reported",
                      variety(run)),
          "no rule of failure holds"};
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
    return Verdict{Judgement::kStopped, "stopped", run.status, "STATUS"};
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

constexpr double kEver = std::numeric_limits<double>::infinity();

std::vector<HealthyBand> of_losses(const RunRecord& run) {
  const std::string name = setting(run, "recipe");
  std::vector<HealthyBand> bands;
  for (const RecipeFacts& recipe : recipe_facts()) {
    if (recipe.name != name || recipe.equilibrium == nullptr) continue;
    const auto setting_of = [&run](const std::string& key) { return setting(run, key); };
    for (const LossAtEquilibrium& loss : recipe.equilibrium(setting_of))
      bands.push_back({{loss.value, loss.value}, loss.words});
  }
  return bands;
}

std::optional<double> augmentation_target(const RunRecord& run) {
  if (setting(run, "ada.mode") != "ada") return std::nullopt;
  return number_setting(run, "ada.target");
}

}  // namespace

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
  const bool bad = now.judgement == Judgement::kCollapsed || now.judgement == Judgement::kDiverged;
  // A stop is nobody's fault, and says less than what the training has come to.
  if (end->judgement == Judgement::kStopped && bad) return {now, *end};
  return {*end, now};
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
