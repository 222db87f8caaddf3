// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/schema.h"
#include "metrics/metric_table.h"
#include "tune/children.h"

namespace gantrain {

// A key and the values that are tried for it, as they were typed: "auto*0.25" is a quarter of what
// the run would have without it.
struct Tried {
  std::string key;
  std::vector<std::string> values;
};

template <class Field>
void fields(Tried& t, Field&& field) {
  field("key", t.key);
  field("values", t.values);
}

// Reads the words of --try: "gamma=auto*{0.25,1,4}", "G.lr=0.001,0.002". A factor in braces stands
// for one value each; a shell that expands braces gives these as words of their own, and words of
// one key belong together. Throws UserError(kUsage) that names the word.
std::vector<Tried> parse_tries(const std::vector<std::string>& words);

// What a candidate of a race has that the others do not: values of keys.
struct Candidate {
  std::string name;               // for its run folder: "2-gamma-0.1"
  std::vector<std::string> sets;  // "RECIPE.gamma=0.1", as --set takes them

  std::string text() const;  // "RECIPE.gamma 0.1, G.adam.lr 0.002"
};

template <class Field>
void fields(Candidate& c, Field&& field) {
  field("name", c.name);
  field("set", c.sets);
}

// Every combination of the values, the last key's changing fastest. `config` is the completed
// configuration of the run without them; the keys are full ones. Throws UserError(kUsage) for
// values that a key does not take, one that is there twice, a factor of what is no number or not
// yet known, and fewer than two or more than kMostCandidates candidates.
inline constexpr size_t kMostCandidates = 64;
std::vector<Candidate> make_candidates(const std::vector<Tried>& tries, const Config& config);

// A race of candidates by successive halving (Jamieson & Talwalkar 2016, arXiv:1502.07943): all
// train for a short while, the worse half is given up, the others train on for twice as long, and
// so on; the last one trains to the end. Nobody begins anew.

// A rung: how far those who are still in the race train, and how many of them go on.
struct Rung {
  int64_t images = 0;
  int64_t candidates = 0;
  int64_t kept = 0;
};

template <class Field>
void fields(Rung& r, Field&& field) {
  field("images", r.images);
  field("candidates", r.candidates);
  field("kept", r.kept);
}

inline constexpr const char* kRaceAdvice =
    "take fewer candidates, a longer --kimg or a larger --extra";

// The rungs of a race to `length` images, the last one the winner's. Each is twice as far as the
// one before; all who lose train together for at most `extra` times the length. Throws
// UserError(kUsage) where the first rung would be shorter than a batch; `advice` says what to do.
std::vector<Rung> plan_rungs(int64_t candidates,
                             int64_t length,
                             double extra,
                             int64_t batch,
                             const std::string& advice = kRaceAdvice);

// What all candidates train together, in images.
int64_t images_of(const std::vector<Rung>& rungs);

// What became of a candidate.
enum class Place { kRacing, kLost, kFailed, kWon };
constexpr std::array<std::string_view, 4> names(Place) {
  return {"racing", "lost", "failed", "won"};
}

// A value of the metric at the end of a rung; none where the run has measured no finite one.
struct RungValue {
  double kimg = 0;
  std::optional<double> value;
  std::string trouble;  // a verdict of collapse or divergence; "" without
};

template <class Field>
void fields(RungValue& v, Field&& field) {
  field("kimg", v.kimg);
  field("value", v.value);
  field("trouble", v.trouble);
}

struct Racer {
  Candidate candidate;
  Place place = Place::kRacing;
  std::vector<RungValue> values = {};  // by rung
  std::string why = "";                // it lost, failed or won

  bool is_racing() const { return place == Place::kRacing; }
};

template <class Field>
void fields(Racer& r, Field&& field) {
  fields(r.candidate, field);
  field("place", r.place);
  field("values", r.values);
  field("why", r.why);
}

// What tune.json says: the race and where it stands.
struct Race {
  std::string command;             // the command line
  std::vector<std::string> flags;  // of the training
  std::string metric;
  std::vector<Rung> rungs;
  std::vector<Racer> racers;
  std::string winner;  // its folder, "" until there is one

  // The curve of the metric in a run's metrics: "swd", "pr/precision".
  std::string curve() const;
  int64_t racing() const;
};

template <class Field>
void fields(Race& r, Field&& field) {
  field("command", r.command);
  field("flags", r.flags);
  field("metric", r.metric);
  field("rungs", r.rungs);
  field("candidates", r.racers);
  field("winner", r.winner);
}

inline constexpr const char* kRaceFile = "tune.json";

// Reads tune.json of a folder; nothing where there is none. Throws UserError(kInput) where it is
// broken.
std::optional<Race> read_race(const std::filesystem::path& folder);
// Throws UserError(kDisk).
void write_race(const std::filesystem::path& folder, const Race& race);

// Whether a candidate has a run folder: else all that have ended were refused before they began,
// and the race says nothing yet.
bool has_begun(const Race& race, const std::filesystem::path& folder);

// Says in what the two races differ ("the flags of the training"), so that one is not the other
// gone on with; "" where they are the same.
std::string difference(const Race& a, const Race& b);

// What a run's files say of it at the end of a rung: the last value of the metric, and the verdict
// of its page where that is collapse or divergence.
RungValue value_at_rung(const std::filesystem::path& run, const Race& race);

// A candidate whose training ended by itself with that exit code is out of the race: it diverged,
// lacks memory, or was refused for its values. Returns false for what is no fault of its own, such
// as a full disk.
bool loses_by(int exit_code);
void fail_racer(Racer& racer, int exit_code, const std::string& reason);

// Gives up those who are not kept at a rung, by their values there, with the reason. Values that
// are missing are worse than all others; so is trouble, unless all have it. Equal ones keep their
// order. Throws UserError where nobody is left: of the code that the first failure had.
void decide(Race& race, size_t rung, int first_failure);

// A table of who stands where, a line each.
std::vector<std::string> standings(const Race& race);

// What the race will do, for --dry-run: rungs, kimg, candidates.
std::string plan_text(const Race& race, int64_t places);

// Where a race is run.
struct RaceSite {
  std::filesystem::path folder;     // of the race; each candidate has a run folder in it
  std::vector<std::string> places;  // CUDA_VISIBLE_DEVICES of each candidate that may train at a
                                    // time; one "" on a CPU: the environment's own
  // Flags of the training beside the race's: of every run, and of those that still race alone.
  std::vector<std::string> more, while_racing = {};
};

// The places for candidates of `ranks` GPUs each among `gpus` that are visible by `visible`
// (CUDA_VISIBLE_DEVICES, "" where it is not set); one without a GPU.
std::vector<std::string> race_places(int64_t gpus, int64_t ranks, const std::string& visible);

// The arguments of the program for a candidate's training up to a rung.
std::vector<std::string> arguments_of(const Race& race,
                                      const RaceSite& site,
                                      size_t racer,
                                      size_t rung);

// Runs a race from where it stands, `to_the_end` or until the winner alone is left, who then has
// the last rung before it. tune.json and compare.html in the folder follow. Returns 0, or the exit
// code of a stop, after which the same call goes on. Throws UserError where no candidate is left,
// and where a run ends by what is no candidate's fault.
int drive_race(Race& race, const RaceSite& site, Children& children, bool to_the_end);

// The one who is left, or has won. There must be one.
const Racer& winner_of(const Race& race);

}  // namespace gantrain
