// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>

#include "page/run_page.h"
#include "train/plan/plan.h"
#include "train/save/run_folder.h"
#include "tune/race.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// What STATUS, where it was written since `start`, says of a run that failed, behind its first
// words. A run that is refused writes none.
std::string reason_in_status(const fs::path& run, fs::file_time_type start) {
  std::error_code error;
  const auto written = fs::last_write_time(run / "STATUS", error);
  if (error || written + std::chrono::seconds(1) < start) return "";
  const std::string status = read_status(run);
  if (starts_with(status, "ended ")) return status;
  if (!starts_with(status, "failed")) return "";
  const size_t colon = status.find(": ");
  return colon == std::string::npos ? status : status.substr(colon + 2);
}

int64_t bytes_of(const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

// What a program has said last as an error, in the file of its standard error, which had so many
// bytes before; "" for nothing.
std::string reason_in_console(const fs::path& console, int64_t before) {
  const int64_t most = std::min(bytes_of(console) - before, int64_t{64} << 10);
  const std::string word = "error   ";
  std::string reason;
  each_line(console, most, [&](const std::string& line) {
    if (starts_with(line, word)) reason = line.substr(word.size());
  });
  return reason;
}

// A page needs runs that have begun.
void write_comparison(const Race& race, const fs::path& folder) {
  std::vector<fs::path> runs;
  for (const Racer& racer : race.racers) {
    const fs::path run = folder / racer.candidate.name;
    if (is_run_folder(run)) runs.push_back(run);
  }
  if (runs.empty()) return;
  try {
    write_file(folder / "compare.html", render_comparison(runs));
  } catch (const UserError& e) {
    if (e.code() != Exit::kInput) throw;
    debug("{}", e.what());  // no tick yet
  }
}

// One rung: the candidates that have not reached it yet, as many at a time as there are places.
class RungRunner {
 public:
  RungRunner(Race& race, const RaceSite& site, Children& children, size_t rung)
      : race_(race), site_(site), children_(children), rung_(rung), busy_(site.places.size()) {
    for (size_t i = 0; i < race.racers.size(); ++i) {
      if (race.racers[i].is_racing() && race.racers[i].values.size() <= rung) waiting_.push_back(i);
    }
  }

  // Returns 0, or the code of a stop.
  int run() {
    if (!waiting_.empty()) {
      info("race    rung {} of {}: {} to {} kimg",
           rung_ + 1,
           race_.rungs.size(),
           counted(race_.racing(), "candidate"),
           kimg_text(race_.rungs[rung_].images));
    }
    while ((stop_ == 0 && !waiting_.empty()) || children_.count() > 0) {
      start_what_fits();
      take(children_.wait());
    }
    if (!broken_.empty()) fail(static_cast<Exit>(stop_), "{}", broken_);
    return stop_;
  }

  int first_failure() const { return first_failure_; }

 private:
  void start_what_fits() {
    for (size_t place = 0; place < busy_.size() && stop_ == 0 && !waiting_.empty(); ++place) {
      if (busy_[place]) continue;
      const size_t racer = waiting_.front();
      waiting_.erase(waiting_.begin());
      Children::Start start{.arguments = arguments_of(race_, site_, racer, rung_)};
      if (!site_.places[place].empty())
        start.environment["CUDA_VISIBLE_DEVICES"] = site_.places[place];
      const std::string& name = race_.racers[racer].candidate.name;
      if (busy_.size() > 1) start.output = console_of(racer).string();
      info(
          "race    {} in {}", race_.racers[racer].candidate.text(), (site_.folder / name).string());
      children_.start(racer, start);
      busy_[place] = true;
      place_of_[racer] = place;
      start_of_[racer] = {fs::file_time_type::clock::now(), bytes_of(console_of(racer))};
    }
  }

  fs::path console_of(size_t racer) const {
    return site_.folder / ("console-" + race_.racers[racer].candidate.name + ".txt");
  }

  // Why the candidate's run has ended; where it has said so itself on this standard error, "".
  std::string reason_of(size_t racer) {
    const fs::path run = site_.folder / race_.racers[racer].candidate.name;
    const auto [start, console_bytes] = start_of_[racer];
    const std::string reason = reason_in_status(run, start);
    if (!reason.empty() || busy_.size() == 1) return reason;
    return reason_in_console(console_of(racer), console_bytes);
  }

  void take(const Children::End& end) {
    busy_[place_of_[end.id]] = false;
    Racer& racer = race_.racers[end.id];
    const fs::path run = site_.folder / racer.candidate.name;
    if (end.code == 0) {
      racer.values.push_back(value_at_rung(run, race_));
      write_race(site_.folder, race_);
    }
    if (stop_ == 0 && children_.stop_signal() != 0) stop_ = code_of_stop(children_.stop_signal());
    if (end.code == 0 || stop_ != 0) return;
    if (loses_by(end.code)) {
      fail_racer(racer, end.code, reason_of(end.id));
      if (first_failure_ == 0) first_failure_ = end.code;
      warn("{} is out of the race: {}", racer.candidate.text(), racer.why);
      write_race(site_.folder, race_);
      return;
    }
    stop_ = end.code;
    if (!is_stop_code(end.code)) {
      const std::string reason = reason_of(end.id);
      broken_ = fmt::format("{}: {}; the same command goes on with the race",
                            run.string(),
                            reason.empty() ? fmt::format("exit code {}", end.code) : reason);
    }
    children_.stop_all(SIGTERM);
  }

  Race& race_;
  const RaceSite& site_;
  Children& children_;
  size_t rung_;
  std::vector<bool> busy_;
  std::vector<size_t> waiting_ = {};
  std::map<size_t, size_t> place_of_ = {};
  // When the candidate's run was started, and the bytes of its console by then.
  std::map<size_t, std::pair<fs::file_time_type, int64_t>> start_of_ = {};
  int stop_ = 0, first_failure_ = 0;
  std::string broken_ = "";
};

// Where nobody is left, what they failed of may have passed: a GPU's memory that another job had.
void take_back_failures(Race& race) {
  if (race.racing() > 0 || !race.winner.empty()) return;
  info("race    no candidate was left: those that failed are tried again");
  for (Racer& racer : race.racers) {
    if (racer.place != Place::kFailed) continue;
    racer.place = Place::kRacing;
    racer.why.clear();
  }
}

}  // namespace

std::vector<std::string> race_places(int64_t gpus, int64_t ranks, const std::string& visible) {
  if (gpus == 0) return {""};
  std::vector<std::string> devices;
  if (!visible.empty()) devices = split(visible, ',');
  for (auto i = static_cast<int64_t>(devices.size()); i < gpus; ++i)
    devices.push_back(std::to_string(i));
  std::vector<std::string> places;
  for (int64_t first = 0; first + ranks <= gpus; first += ranks) {
    const auto begin = devices.begin() + first;
    places.push_back(join({begin, begin + ranks}, ","));
  }
  return places;
}

std::vector<std::string> arguments_of(const Race& race,
                                      const RaceSite& site,
                                      size_t racer,
                                      size_t rung) {
  const Candidate& candidate = race.racers[racer].candidate;
  std::vector<std::string> words = {"train"};
  const auto add = [&](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  add(race.flags);
  add(site.more);
  if (rung + 1 < race.rungs.size()) add(site.while_racing);
  for (const std::string& pair : candidate.sets) add({"--set", pair});
  add({"--run-dir", (site.folder / candidate.name).string()});
  add({"--set", "train.kimg=" + kimg_text(race.rungs[rung].images)});
  return words;
}

int drive_race(Race& race, const RaceSite& site, Children& children, bool to_the_end) {
  make_writable_folder(site.folder);
  take_back_failures(race);
  write_race(site.folder, race);
  const size_t rungs = race.rungs.size() - (to_the_end ? 0 : 1);
  int first_failure = code_of(Exit::kDiverged);
  for (size_t rung = 0; rung < rungs && race.winner.empty(); ++rung) {
    RungRunner runner(race, site, children, rung);
    const int stop = runner.run();
    write_comparison(race, site.folder);
    if (stop != 0) return stop;
    if (runner.first_failure() != 0) first_failure = runner.first_failure();
    std::vector<std::string> before;
    for (const Racer& racer : race.racers) before.push_back(racer.why);
    decide(race, rung, first_failure);
    write_race(site.folder, race);
    for (size_t i = 0; i < race.racers.size(); ++i) {
      const Racer& racer = race.racers[i];
      if (racer.place == Place::kLost && before[i] != racer.why)
        info("given up {}: {}", racer.candidate.text(), racer.why);
    }
  }
  return 0;
}

const Racer& winner_of(const Race& race) {
  const auto is_it = [&](const Racer& racer) {
    return race.winner.empty() ? racer.is_racing() : racer.place == Place::kWon;
  };
  return *std::ranges::find_if(race.racers, is_it);
}

}  // namespace gantrain
