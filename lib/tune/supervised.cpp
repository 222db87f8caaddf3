// SPDX-License-Identifier: Apache-2.0
#include "tune/supervised.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "config/config.h"
#include "metrics/metric_table.h"
#include "page/run_page.h"
#include "train/plan/plan.h"
#include "train/save/run_folder.h"
#include "tune/course.h"
#include "tune/starting_model.h"
#include "tune/state_file.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr double kBetweenLooks = 1;  // seconds

double newest_kimg(const fs::path& run) {
  const auto states = find_states(run);
  return states.empty() ? 0 : kimg_of(states.front().images);
}

// "G.adam.lr=0.001", half of the run's rate for each player; those of a run without config.json are
// not known.
std::vector<std::string> halved_rates(const fs::path& run) {
  const Json values = values_of_run(run);
  std::vector<std::string> pairs;
  for (const char* player : {"G", "D"}) {
    const std::string kind = value_in(values, std::string(player) + ".optimizer");
    const std::string key = fmt::format("{}.{}.lr", player, kind);
    const auto rate = Value<Scheduled>::from_text(value_in(values, key));
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
