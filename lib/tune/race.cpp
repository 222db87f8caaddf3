// SPDX-License-Identifier: Apache-2.0
#include "tune/race.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "page/run_page.h"
#include "page/run_record.h"
#include "train/plan/plan.h"
#include "tune/state_file.h"
#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// How many are in the race at each rung: half of those before, rounded up, at last one.
std::vector<int64_t> field_sizes(int64_t candidates) {
  std::vector<int64_t> sizes;
  for (int64_t left = candidates; left > 1; left = (left + 1) / 2) sizes.push_back(left);
  return sizes;
}

// Whole kimg where that changes little.
int64_t rounded_down(double images) {
  constexpr int64_t kWhole = 10'000;
  const auto whole = static_cast<int64_t>(images);
  return whole >= kWhole ? whole / 1000 * 1000 : whole;
}

// "swd 12.3", or why there is no number.
std::string value_text(const Race& race, const RungValue& value) {
  if (!value.value) return "no finite " + race.metric;
  return fmt::format("{} {:.4g}", race.metric, *value.value);
}

struct Ranked {
  size_t racer;
  const RungValue* value;
};

// Better ones first; what has no value comes last.
std::vector<Ranked> ranking(const Race& race, size_t rung) {
  std::vector<Ranked> ranked;
  for (size_t i = 0; i < race.racers.size(); ++i) {
    if (race.racers[i].is_racing()) ranked.push_back({i, &race.racers[i].values.at(rung)});
  }
  const bool lower = find_metric(race.metric).lower_is_better;
  const bool all_in_trouble =
      std::ranges::all_of(ranked, [](const Ranked& one) { return !one.value->trouble.empty(); });
  const auto badness = [&](const Ranked& one) {
    const bool trouble = !all_in_trouble && !one.value->trouble.empty();
    const double value = one.value->value.value_or(0) * (lower ? 1 : -1);
    return std::tuple(!one.value->value.has_value(), trouble, value);
  };
  std::ranges::stable_sort(
      ranked, [&](const Ranked& a, const Ranked& b) { return badness(a) < badness(b); });
  return ranked;
}

std::string all_failed_text(const Race& race) {
  std::vector<std::string> parts;
  for (const Racer& racer : race.racers) {
    if (racer.place == Place::kFailed)
      parts.push_back(fmt::format("{}: {}", racer.candidate.text(), racer.why));
  }
  return join(parts, "; ");
}

}  // namespace

std::vector<Rung> plan_rungs(
    int64_t candidates, int64_t length, double extra, int64_t batch, const std::string& advice) {
  const std::vector<int64_t> sizes = field_sizes(candidates);
  double shares = 0;  // of the first rung's length, which those who lose train together
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t kept = (sizes[i] + 1) / 2;
    shares += static_cast<double>(sizes[i] - kept) * std::ldexp(1, static_cast<int>(i));
  }
  std::vector<Rung> rungs;
  const double first = extra * static_cast<double>(length) / shares;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t images = rounded_down(std::ldexp(first, static_cast<int>(i)));
    // A large share of many candidates may reach the end.
    rungs.push_back({std::min(images, length), sizes[i], (sizes[i] + 1) / 2});
  }
  if (rungs.front().images < batch) {
    fail(Exit::kUsage,
         "{} candidates would have {} pictures each at first, fewer than a batch of {}: {}",
         candidates,
         rungs.front().images,
         batch,
         advice);
  }
  rungs.push_back({length, 1, 1});
  return rungs;
}

int64_t images_of(const std::vector<Rung>& rungs) {
  int64_t images = rungs.back().images;
  for (const Rung& rung : rungs) images += (rung.candidates - rung.kept) * rung.images;
  return images;
}

std::string Race::curve() const {
  const MetricRow& row = find_metric(metric);
  return row.key == metric ? metric : metric + "/" + row.key;
}

int64_t Race::racing() const { return std::ranges::count_if(racers, &Racer::is_racing); }

std::optional<Race> read_race(const fs::path& folder) {
  return read_state_file<Race>(
      folder / kRaceFile,
      "; without this file the race is looked at anew, and its runs go on where they stand");
}

void write_race(const fs::path& folder, const Race& race) {
  write_state_file(folder / kRaceFile, race);
}

bool has_begun(const Race& race, const fs::path& folder) {
  return std::ranges::any_of(race.racers, [&](const Racer& racer) {
    std::error_code error;
    return fs::exists(folder / racer.candidate.name, error);
  });
}

std::string difference(const Race& a, const Race& b) {
  if (a.flags != b.flags) return "the flags of the training";
  if (a.metric != b.metric) return "--by";
  if (message_of(Race{.rungs = a.rungs}) != message_of(Race{.rungs = b.rungs}))
    return "the rungs (--kimg, --extra)";
  const auto sets = [](const Race& race) {
    std::vector<std::string> all;
    for (const Racer& racer : race.racers) all.push_back(racer.candidate.text());
    return all;
  };
  return sets(a) == sets(b) ? "" : "the candidates (--try)";
}

RungValue value_at_rung(const fs::path& run, const Race& race) {
  const RunRecord record = read_run_record(run);
  RungValue found;
  if (const Curve* curve = find_curve(record.metrics, race.curve())) {
    found.kimg = curve->back().first;
    if (std::isfinite(curve->back().second)) found.value = curve->back().second;
  }
  for (const Verdict& verdict : judge(record)) {
    const bool bad =
        verdict.judgement == Judgement::kCollapsed || verdict.judgement == Judgement::kDiverged;
    if (bad && found.trouble.empty()) found.trouble = verdict.word + ": " + verdict.reason;
  }
  return found;
}

bool loses_by(int exit_code) {
  for (const Exit own : {Exit::kDiverged, Exit::kOutOfMemory, Exit::kUsage, Exit::kInput}) {
    if (exit_code == code_of(own)) return true;
  }
  return false;
}

void fail_racer(Racer& racer, int exit_code, const std::string& reason) {
  racer.place = Place::kFailed;
  racer.why = reason.empty() ? fmt::format("ended with exit code {}", exit_code) : reason;
}

void decide(Race& race, size_t rung, int first_failure) {
  const std::vector<Ranked> ranked = ranking(race, rung);
  if (ranked.empty())
    fail(static_cast<Exit>(first_failure), "no candidate is left: {}", all_failed_text(race));
  const Rung& plan = race.rungs[rung];
  const Ranked& best = ranked.front();
  for (size_t i = static_cast<size_t>(plan.kept); i < ranked.size(); ++i) {
    Racer& racer = race.racers[ranked[i].racer];
    racer.place = Place::kLost;
    racer.why = fmt::format("{} at {} kimg, place {} of {}; best: {} of {}",
                            value_text(race, *ranked[i].value),
                            shortest(ranked[i].value->kimg),
                            i + 1,
                            ranked.size(),
                            value_text(race, *best.value),
                            race.racers[best.racer].candidate.text());
    if (!ranked[i].value->trouble.empty()) racer.why += "; " + ranked[i].value->trouble;
  }
  if (rung + 1 < race.rungs.size()) return;
  Racer& winner = race.racers[best.racer];
  winner.place = Place::kWon;
  winner.why =
      fmt::format("{} at {} kimg", value_text(race, *best.value), shortest(best.value->kimg));
  race.winner = winner.candidate.name;
}

std::vector<std::string> standings(const Race& race) {
  std::vector<std::string> lines;
  for (const Racer& racer : race.racers) {
    std::string line = fmt::format(
        "{:<7} {}", names(racer.place)[static_cast<size_t>(racer.place)], racer.candidate.text());
    if (!racer.why.empty()) {
      line += ": " + racer.why;
    } else if (!racer.values.empty()) {
      const RungValue& last = racer.values.back();
      line += fmt::format(": {} at {} kimg", value_text(race, last), shortest(last.kimg));
    }
    lines.push_back(line);
  }
  return lines;
}

std::string plan_text(const Race& race, int64_t places) {
  const MetricRow& metric = find_metric(race.metric);
  const double length = kimg_of(race.rungs.back().images), all = kimg_of(images_of(race.rungs));
  std::string text = fmt::format("rung  candidates   to kimg  go on\n");
  for (size_t i = 0; i < race.rungs.size(); ++i) {
    const Rung& rung = race.rungs[i];
    text += fmt::format("{:>4}  {:>10}  {:>8}  {}\n",
                        i + 1,
                        rung.candidates,
                        kimg_text(rung.images),
                        i + 1 < race.rungs.size() ? std::to_string(rung.kept) : "the winner");
  }
  for (const Racer& racer : race.racers)
    text += fmt::format("\n{:<28} {}", racer.candidate.name, racer.candidate.text());
  text += fmt::format(
      "\n\n{} by {}, {} is better: {} kimg together, {:.0f} % more than one run's {}; {} at a "
      "time\n",
      counted(static_cast<int64_t>(race.racers.size()), "candidate"),
      race.metric,
      metric.lower_is_better ? "lower" : "higher",
      shortest(all),
      100 * (all / length - 1),
      shortest(length),
      places);
  return text;
}

namespace {

constexpr const char* kExpected =
    "KEY=VALUE,VALUE or KEY=auto*{FACTOR,FACTOR} is expected, as in gamma=auto*{0.25,1,4}";

[[noreturn]] void refuse_try(const std::string& word, const std::string& why) {
  fail(Exit::kUsage, "--try {}: {}", word, why);
}

// The parts between commas that stand outside of brackets.
std::vector<std::string> split_outside_brackets(const std::string& word, const std::string& text) {
  std::vector<std::string> parts(1);
  int64_t depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth < 0) break;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (depth != 0) refuse_try(word, "its brackets do not match");
  return parts;
}

// "auto*{0.25,1}" becomes "auto*0.25" and "auto*1"; other parts stay.
void add_values(const std::string& word,
                const std::string& part,
                std::vector<std::string>& values) {
  const size_t star = part.rfind("*{");
  if (star == std::string::npos || !ends_with(part, "}")) {
    if (trim(part).empty()) refuse_try(word, kExpected);
    values.push_back(trim(part));
    return;
  }
  for (const std::string& factor : split(part.substr(star + 2, part.size() - star - 3), ',')) {
    if (!parse_double(trim(factor))) refuse_try(word, trim(factor) + " is no factor");
    values.push_back(trim(part.substr(0, star)) + "*" + trim(factor));
  }
}

// The factor behind the last star, where there is a number.
std::optional<double> factor_of(const std::string& value) {
  const size_t star = value.rfind('*');
  return star == std::string::npos ? std::nullopt : parse_double(trim(value.substr(star + 1)));
}

// What a typed value is in a run: a factor is multiplied, and "auto" is what `config` has.
std::string resolved(const std::string& key, const std::string& value, const Config& config) {
  const auto factor = factor_of(value);
  const std::string base = factor ? trim(value.substr(0, value.rfind('*'))) : value;
  const std::string own = text_of(config.get(key));
  if (base != "auto" && !factor) return value;
  if (base == "auto" && own == "auto") {
    refuse_try(key + "=" + value,
               "what auto is will be known only when the run begins; give the values themselves");
  }
  if (!factor) return own;
  const auto number = Value<Scheduled>::from_text(base == "auto" ? own : base);
  if (!number) {
    refuse_try(key + "=" + value,
               fmt::format("{} is no number, so it has no multiples", base == "auto" ? own : base));
  }
  return text_of(Value<Scheduled>::to_json(scaled(*number, *factor)));
}

// What a file's name may hold of a value.
std::string for_a_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
    if (plain) name += c;
  }
  constexpr size_t kMost = 24;
  return name.substr(0, kMost);
}

// The last word of a key: "gamma" of "RECIPE.gamma"; of a player's rate also the player.
std::string short_key(const std::string& key) {
  const std::vector<std::string> parts = split(key, '.');
  return parts.size() > 2 ? parts.front() + "." + parts.back() : parts.back();
}

}  // namespace

std::vector<Tried> parse_tries(const std::vector<std::string>& words) {
  std::vector<Tried> tries;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) refuse_try(word, kExpected);
    const std::string key = word.substr(0, equals);
    auto at = std::ranges::find(tries, key, &Tried::key);
    if (at == tries.end()) at = tries.insert(at, Tried{key, {}});
    for (const std::string& part : split_outside_brackets(word, word.substr(equals + 1)))
      add_values(word, part, at->values);
  }
  return tries;
}

std::string Candidate::text() const {
  std::vector<std::string> parts;
  for (const std::string& pair : sets) {
    const size_t equals = pair.find('=');
    parts.push_back(pair.substr(0, equals) + " " + pair.substr(equals + 1));
  }
  return join(parts, ", ");
}

std::vector<Candidate> make_candidates(const std::vector<Tried>& tries, const Config& config) {
  std::vector<Candidate> all(1);
  for (const Tried& tried : tries) {
    Config checked = config;
    if (!config.has(tried.key))
      checked.set(tried.key, tried.values.front(), "--try");  // refuses it
    std::vector<std::string> values;
    for (const std::string& typed : tried.values) {
      checked.set(tried.key, resolved(tried.key, typed, config), "--try");
      values.push_back(text_of(checked.get(tried.key)));
      if (std::ranges::count(values, values.back()) > 1)
        refuse_try(tried.key + "=" + typed, "that is " + values.back() + ", which is there twice");
    }
    std::vector<Candidate> next;
    for (const Candidate& before : all) {
      for (const std::string& value : values) {
        Candidate& one = next.emplace_back(before);
        one.name += fmt::format("-{}-{}", short_key(tried.key), for_a_name(value));
        one.sets.push_back(fmt::format("{}={}", tried.key, value));
      }
    }
    all = std::move(next);
    if (all.size() > kMostCandidates)
      fail(Exit::kUsage, "--try: {} candidates; at most {} race", all.size(), kMostCandidates);
  }
  if (all.size() < 2) fail(Exit::kUsage, "--try: nothing to choose from; {}", kExpected);
  for (size_t i = 0; i < all.size(); ++i) all[i].name = fmt::format("{}{}", i + 1, all[i].name);
  return all;
}

}  // namespace gantrain
