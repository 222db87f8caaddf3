// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "metrics/metric_table.h"
#include "tune/candidates.h"

namespace gantrain {

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

// The rungs of a race to `length` images, the last one the winner's. Each is twice as far as the
// one before; all who lose train together for at most `extra` times the length. Throws
// UserError(kUsage) where the first rung would be shorter than a batch.
std::vector<Rung> plan_rungs(int64_t candidates, int64_t length, double extra, int64_t batch);

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

}  // namespace gantrain
