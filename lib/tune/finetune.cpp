// SPDX-License-Identifier: Apache-2.0
#include "tune/finetune.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>

#include "config/config.h"
#include "metrics/metric_table.h"
#include "page/run_page.h"
#include "train/plan/plan.h"
#include "train/save/run_folder.h"
#include "tune/starting_model.h"
#include "tune/state_file.h"
#include "util/error.h"
#include "util/log.h"
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
// Layers of a discriminator that was trained for less kimg are not worth keeping. Ours: with models
// of 60 and 200 kimg at 32 pixels, frozen layers made pictures worse or no better
// (docs/measurements.md).
constexpr double kWorthKeeping = 1'000;
// Pictures that are each shown less often are not mirrored. Ours: with 200 to 250 pictures that
// were shown 80 to 100 times, mirrored ones made the result no better (docs/measurements.md).
constexpr double kOftenShown = 500;

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

// DiffAugment, as Projected GAN has it, or none, as the user may have said.
bool has_other_augmentation(const Config& config) {
  return config.has("augment.mode") && text_of(config.get("augment.mode")) != "ada";
}

}  // namespace

// Where the columns come from:
//   kimg     NVIDIA's MetFaces, 1336 pictures from a model of faces, had 5000 at most (Karras et
//            al. 2021, app. G); fewer pictures overfit sooner (Karras et al. 2020, fig. 1). The
//            numbers below and above are ours; the end is found by the metric.
//   frozen   D's first layers stay as they are: Mo et al. 2020. StyleGAN3's advice calls 10 and 13
//            layers good values, which are half of D's resolutions at 256 and at 1024 pixels. With
//            many pictures D may learn all of it anew.
//   mirror   Karras et al. 2020 double small sets by mirroring. It is left out where each picture
//   is
//            shown so seldom that it gained nothing (kOftenShown).
const std::vector<FinetuneRule>& finetune_rules() {
  static const std::vector<FinetuneRule> table = {
      {200, 500, 0.5, true},
      {1'000, 1'500, 0.5, true},
      {2'000, 5'000, 0.5, true},
      {10'000, 5'000, 0.25, true},
      {std::numeric_limits<int64_t>::max(), 10'000, 0, false},
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
  } else if (model.kimg > 0 && model.kimg < kWorthKeeping) {
    choose(recipe + ".freeze_d",
           "0",
           fmt::format("a model of less than {} kimg: D's first layers are not good enough to stay "
                       "as they are ({})",
                       shortest(kWorthKeeping),
                       kOwn));
  } else {
    choose(recipe + ".freeze_d",
           std::to_string(frozen),
           fmt::format("{}: {:.0f} % of D's resolutions stay as they are ({}; {})",
                       for_so_many,
                       100 * rule.frozen,
                       kFreezeD,
                       kAdvice));
  }
  if (!has_other_augmentation(config)) {
    choose("ada.mode", "ada", fmt::format("what D sees is augmented as it overfits ({})", kAda));
    choose("ada.p", "0", fmt::format("it begins at none ({}, its code)", kAda));
    choose(
        "ada.kimg", "100", fmt::format("five times as fast as from nothing ({}, its code)", kAda));
  }
  choose("ema.rampup", "0", fmt::format("the average begins at the model's ({})", kAdvice));
  // A length that was given decides how often it is measured.
  const bool given = config.given("train.kimg");
  const double length = given ? config.get("train.kimg").get<double>() : kimg;
  const double shown = 1e3 * length / static_cast<double>(pictures);
  if (rule.mirror && shown >= kOftenShown) {
    choose("data.mirror",
           "on",
           fmt::format("{}, each shown {:.0f} times; off where left and right differ ({})",
                       for_so_many,
                       shown,
                       kAda));
  }
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

namespace {

// The measurements from the best one on, the best first; empty where none is finite.
Curve since_best(const Curve& curve, bool lower) {
  Curve since;
  for (const auto& [kimg, value] : curve) {
    if (!std::isfinite(value)) continue;
    if (since.empty() || (lower ? value < since.front().second : value > since.front().second))
      since.clear();
    since.emplace_back(kimg, value);
  }
  return since;
}

bool is_worse(double value, double best, bool lower) {
  const double margin = kCourseLimits.worse * std::abs(best);
  return lower ? value > best + margin : value < best - margin;
}

Turn back_or_end(int64_t returned) {
  return returned < kCourseLimits.returns ? Turn::kGoBack : Turn::kEnd;
}

std::string best_text(const std::string& metric, const Curve& since) {
  return fmt::format("its best, {} {:.4g} at {} kimg",
                     metric,
                     since.front().second,
                     shortest(since.front().first));
}

}  // namespace

CourseView view_course(const Curve& curve, const std::string& metric, int64_t returned) {
  const bool lower = find_metric(metric).lower_is_better;
  const Curve since = since_best(curve, lower);
  CourseView view;
  if (since.empty()) return view;
  view.best_kimg = since.front().first;
  if (since.back().first - since.front().first < kCourseLimits.kimg) return view;
  const double best = since.front().second;
  const auto times = static_cast<size_t>(kCourseLimits.times);
  const bool falls =
      since.size() > times &&
      std::all_of(since.end() - kCourseLimits.times, since.end(), [&](const auto& point) {
        return is_worse(point.second, best, lower);
      });
  if (falls) {
    view.turn = back_or_end(returned);
    view.why = fmt::format(
        "{} {:.4g} at {} kimg: {} measurements in a row were more than {:.0f} % "
        "worse than {}",
        metric,
        since.back().second,
        shortest(since.back().first),
        times,
        100 * kCourseLimits.worse,
        best_text(metric, since));
  } else if (static_cast<int64_t>(since.size()) > kCourseLimits.times_without_best) {
    view.turn = Turn::kEnd;
    view.why = fmt::format("nothing better in {} after {}",
                           counted(kCourseLimits.times_without_best, "measurement"),
                           best_text(metric, since));
  }
  return view;
}

CourseView view_failure(const Curve& curve,
                        const std::string& metric,
                        int64_t returned,
                        const std::string& reason) {
  const Curve since = since_best(curve, find_metric(metric).lower_is_better);
  return {back_or_end(returned), reason, since.empty() ? 0 : since.front().first};
}

namespace {

constexpr double kBetweenLooks = 1;  // seconds

double newest_kimg(const fs::path& run) {
  const auto states = find_states(run);
  return states.empty() ? 0 : kimg_of(states.front().images);
}

// "G.adam.lr=0.001", half of the run's rate for each player; those of a run without config.json are
// not known.
std::vector<std::string> halved_rates(const fs::path& run) {
  const SavedConfig saved = read_saved_config(run, Unreadable::kIgnored);
  std::vector<std::string> pairs;
  for (const char* player : {"G", "D"}) {
    const std::string kind = saved.text(std::string(player) + ".optimizer");
    const std::string key = fmt::format("{}.{}.lr", player, kind);
    const auto rate = Value<Scheduled>::from_text(saved.text(key));
    if (rate) pairs.push_back(key + "=" + text_of(Value<Scheduled>::to_json(scaled(*rate, 0.5))));
  }
  return pairs;
}

void say_in_log(const fs::path& run, const std::string& text) {
  const Level level = log_console_level();
  std::error_code error;
  if (fs::is_directory(run, error)) set_log({level, Level::kInfo, run / "log.txt", ""});
  warn("{}", text);
  set_log({level, Level::kInfo, {}, ""});
}

// Why the training is asked to end, and what follows.
class Supervisor {
 public:
  Supervisor(const fs::path& folder, Finetuning& state, Children& children)
      : folder_(folder), state_(state), children_(children), run_(state.run) {}

  int run() {
    while (state_.ended.empty()) {
      apply_return();
      const std::optional<int> code = session();
      if (code) return *code;
    }
    return close();
  }

 private:
  Curve curve() const {
    const auto curves = read_metrics(run_);
    const MetricRow& row = find_metric(state_.metric);
    const Curve* found =
        find_curve(curves, row.key == state_.metric ? row.name : state_.metric + "/" + row.key);
    return found == nullptr ? Curve() : *found;
  }

  int64_t returned() const { return static_cast<int64_t>(state_.returns.size()); }

  // One training until it ends or is asked to. Returns the code to end with, if there is one.
  std::optional<int> session() {
    children_.start(0, {.arguments = arguments_of(state_)});
    CourseView asked;
    std::optional<Children::End> end;
    while (!(end = children_.wait_for(kBetweenLooks))) {
      // Until the training says so, measurements of what was given up may still be there.
      const bool running = starts_with(read_status(run_), "running");
      if (!running || asked.turn != Turn::kGoOn || children_.stop_signal() != 0) continue;
      asked = view_course(curve(), state_.metric, returned());
      if (asked.turn != Turn::kGoOn) children_.stop_all(SIGTERM);
    }
    if (children_.stop_signal() != 0) return code_of_stop(children_.stop_signal());
    if (asked.turn == Turn::kGoOn && end->code == code_of(Exit::kDiverged))
      asked = view_failure(curve(), state_.metric, returned(), read_status(run_));
    if (asked.turn != Turn::kGoOn) {
      turn(asked);
      return std::nullopt;
    }
    if (end->code == 0) {
      state_.ended = fmt::format("trained to {} kimg", shortest(newest_kimg(run_)));
      write_finetuning(folder_, state_);
      return std::nullopt;
    }
    if (is_stop_code(end->code)) return end->code;
    fail(static_cast<Exit>(end->code),
         "{}: the training ended with exit code {}; the same command goes on",
         run_.string(),
         end->code);
  }

  // What was decided is on disk before it is done.
  void turn(const CourseView& view) {
    if (view.turn == Turn::kGoBack) {
      const std::vector<std::string> rates = halved_rates(run_);
      state_.returns.push_back({newest_kimg(run_), view.best_kimg, view.why, rates});
      state_.applied = false;
    } else {
      state_.ended = view.why;
    }
    write_finetuning(folder_, state_);
  }

  void apply_return() {
    if (state_.applied || state_.returns.empty()) return;
    Return& last = state_.returns.back();
    last.to_kimg = go_back_to(run_, last.to_kimg);
    write_status(run_,
                 fmt::format("stopped {} kimg (finetune), resumable", shortest(last.to_kimg)));
    say_in_log(
        run_,
        fmt::format("finetune: back to {} kimg with half the rates ({}, return {} of {}): {}",
                    shortest(last.to_kimg),
                    join(last.rates, ", "),
                    state_.returns.size(),
                    kCourseLimits.returns,
                    last.why));
    state_.applied = true;
    write_finetuning(folder_, state_);
  }

  // A run that was asked to end before its length is done where it stands.
  int close() {
    const std::string status = read_status(run_);
    if (starts_with(status, "done") || find_states(run_).empty()) return 0;
    // What collapsed or diverged is not what the run ends with.
    if (starts_with(status, "ended") || starts_with(status, "failed"))
      go_back_to(run_, view_course(curve(), state_.metric, 0).best_kimg);
    say_in_log(run_, "finetune: ends: " + state_.ended);
    std::vector<std::string> words = arguments_of(state_);
    words.insert(words.end(), {"--set", "train.kimg=" + shortest(newest_kimg(run_))});
    children_.start(0, {.arguments = words});
    const Children::End end = children_.wait();
    if (children_.stop_signal() != 0) return code_of_stop(children_.stop_signal());
    return end.code;
  }

  const fs::path& folder_;
  Finetuning& state_;
  Children& children_;
  fs::path run_;
};

}  // namespace

std::optional<Finetuning> read_finetuning(const fs::path& folder) {
  return read_state_file<Finetuning>(folder / kFinetuneFile);
}

void write_finetuning(const fs::path& folder, const Finetuning& state) {
  write_state_file(folder / kFinetuneFile, state);
}

std::vector<std::string> arguments_of(const Finetuning& state) {
  std::vector<std::string> words = {"train"};
  words.insert(words.end(), state.words.begin(), state.words.end());
  for (const std::string& pair : state.sets) words.insert(words.end(), {"--set", pair});
  if (!state.returns.empty()) {
    std::vector<std::string> keys;
    for (const std::string& pair : state.returns.back().rates) {
      words.insert(words.end(), {"--set", pair});
      keys.push_back(pair.substr(0, pair.find('=')));
    }
    if (!keys.empty()) words.insert(words.end(), {"--force", join(keys, ",")});
  }
  words.insert(words.end(), {"--run-dir", state.run});
  return words;
}

double go_back_to(const fs::path& run, double kimg) {
  const auto limit = static_cast<int64_t>(std::llround(kimg * 1e3));
  const auto states = find_states(run);
  const auto state =
      std::ranges::find_if(states, [&](const NumberedFile& file) { return file.images <= limit; });
  const int64_t images = state == states.end() ? 0 : state->images;
  set_aside(run, images);
  return kimg_of(images);
}

int supervise_finetuning(const fs::path& folder, Finetuning& state, Children& children) {
  return Supervisor(folder, state, children).run();
}

}  // namespace gantrain
