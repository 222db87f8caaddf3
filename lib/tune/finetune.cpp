// SPDX-License-Identifier: Apache-2.0
#include "tune/finetune.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "config/config.h"
#include "metrics/metric_table.h"
#include "page/run_page.h"
#include "train/plan/plan.h"
#include "train/save/run_folder.h"
#include "tune/starting_model.h"
#include "tune/state_file.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

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
// Of the averages that compete, as shares of the training: the average with a half-life of a
// twentieth of the images seen, as StyleGAN2's code has it at first, is about as long as 0.07.
// Ours.
constexpr const char* kLengths = "0.05,0.075,0.1,0.15,0.2";

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
    const int code = close();
    return code == 0 ? choose() : code;
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

  // What `gantrain average` is to compare; nothing where there are no averages.
  std::vector<std::string> comparison() const {
    std::vector<int64_t> kept;  // newest first
    for (const NumberedFile& file : find_averages(run_)) {
      if (file.images > 0) kept.push_back(file.images);
    }
    if (kept.size() < 2) return {};
    std::vector<std::string> ends = {shortest(kimg_of(kept.front()))};
    const double best = view_course(curve(), state_.metric, 0).best_kimg;
    if (best < kimg_of(kept.front()) && best >= kimg_of(kept[kept.size() - 2]))
      ends.push_back(shortest(best));
    const SavedConfig saved = read_saved_config(run_, Unreadable::kIgnored);
    const MetricRow& metric = find_metric(state_.metric);
    std::vector<std::string> words = {"average",
                                      "-q",
                                      run_.string(),
                                      "--length",
                                      kLengths,
                                      "--at",
                                      join(ends, ","),
                                      "--by",
                                      state_.metric,
                                      "-o",
                                      (folder_ / kAveragesFolder).string()};
    const auto pass = [&](const char* flag, const char* key) {
      const std::string value = saved.text(key);
      if (!value.empty()) words.insert(words.end(), {flag, value});
    };
    pass("--num-images", "metrics.images");
    pass("--device", "launch.device");
    if (metric.needs_detector) pass("--detector", "metrics.detector");
    if (metric.needs_detector) pass("--detector-sha256", "metrics.detector_sha256");
    if (metric.needs_lite0) pass("--lite0", "metrics.features");
    return words;
  }

  // The best of the run's own best model and averages of other lengths; nothing where there is no
  // model, or a stop came.
  fs::path best_of_all() {
    std::error_code error;
    const fs::path own = run_ / kBestModel;
    const auto models = find_models(run_);
    fs::path best = fs::exists(own, error) ? own
                    : models.empty()       ? fs::path()
                                           : models.front().path;
    const std::vector<std::string> words = comparison();
    if (words.empty()) return best;
    info("compare averages of lengths {} with {}", kLengths, best.string());
    children_.start(
        0, {.arguments = words, .environment = {{kLengthsVariable, "1"}}, .answers = false});
    const Children::End end = children_.wait();
    if (children_.stop_signal() != 0) return {};
    const fs::path said = folder_ / kAveragesFolder / kAveragesFile;
    const auto compared = end.code == 0 ? read_state_file<ComparedModels>(said) : std::nullopt;
    if (!compared) {
      warn(
          "averages could not be compared (exit code {}): {} is taken; without {} the same command "
          "tries again",
          end.code,
          best.string(),
          (folder_ / kChosenModel).string());
    } else if (!compared->best.empty()) {
      best = compared->best;
    }
    return best;
  }

  // Copies the best model. Returns 0 or a stop's code.
  int choose() {
    std::error_code error;
    const fs::path chosen = folder_ / kChosenModel;
    if (!fs::exists(chosen, error)) {
      const fs::path best = best_of_all();
      if (children_.stop_signal() != 0) return code_of_stop(children_.stop_signal());
      if (best.empty()) return 0;
      write_file(chosen, read_file(best));
      info("best    {}: {}", chosen.string(), best.filename().string());
    }
    for (const auto& entry : fs::directory_iterator(folder_ / kAveragesFolder, error)) {
      if (entry.path().extension() == ".safetensors") fs::remove(entry.path(), error);
    }
    return 0;
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

void forget_chosen(const fs::path& folder) {
  std::error_code error;
  fs::remove(folder / kChosenModel, error);
  fs::remove_all(folder / kAveragesFolder, error);
}

void write_finetuning(const fs::path& folder, const Finetuning& state) {
  write_state_file(folder / kFinetuneFile, state);
}

namespace {

// What the words say for --force, of which the last one counts; "" where they do not.
std::string forced_by(const std::vector<std::string>& words) {
  std::string keys;
  for (size_t i = 0; i < words.size(); ++i) {
    if (starts_with(words[i], "--force=")) keys = words[i].substr(8);
    if (words[i] == "--force" && i + 1 < words.size()) keys = words[i + 1];
  }
  return keys;
}

}  // namespace

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
    const std::string own = forced_by(state.words);
    if (!own.empty()) keys.push_back(own);
    if (!keys.empty()) words.insert(words.end(), {"--force", join(keys, ",")});
  }
  words.insert(words.end(), {"--run-dir", state.run});
  if (log_console_level() == Level::kWarning) words.emplace_back("-q");
  return words;
}

double go_back_to(const fs::path& run, double kimg) {
  const auto limit = static_cast<int64_t>(std::llround(kimg * 1e3));
  const auto states = find_states(run);
  const auto state =
      std::ranges::find_if(states, [&](const NumberedFile& file) { return file.images <= limit; });
  const bool afresh = state == states.end();
  set_aside(run, afresh ? 0 : limit);  // names of states may be shorter than those of averages
  return afresh ? 0 : kimg_of(state->images);
}

int supervise_finetuning(const fs::path& folder, Finetuning& state, Children& children) {
  return Supervisor(folder, state, children).run();
}

}  // namespace gantrain
