// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/schema.h"
#include "page/run_record.h"
#include "tune/children.h"
#include "tune/starting_model.h"

namespace gantrain {

// The course of a finetuning: what its measurements ask for.

struct CourseLimits {
  double worse = 0.1;              // a value is worse than the best by more than this share of it
  int64_t times = 4;               // measurements in a row that are: quality has fallen for long
  int64_t times_without_best = 8;  // measurements since the best: nothing improves
  // Since the best, before either is said: measurements that are close together differ by noise.
  double kimg = 8;
  int64_t returns = 2;  // at most, to the best state
};
inline constexpr CourseLimits kCourseLimits;

enum class Turn { kGoOn, kGoBack, kEnd };
constexpr std::array<std::string_view, 3> names(Turn) { return {"go on", "go back", "end"}; }

struct CourseView {
  Turn turn = Turn::kGoOn;
  std::string why;
  double best_kimg = 0;  // where the best value was measured; 0 where there is none
};

// What to do after these measurements of the metric, of which the later ones belong to what came
// after the last return. `returned`: how often there was one.
CourseView view_course(const Curve& curve, const std::string& metric, int64_t returned);

// What to do where pictures have collapsed or the training diverged, with the reason.
CourseView view_failure(const Curve& curve,
                        const std::string& metric,
                        int64_t returned,
                        const std::string& reason);

// What `gantrain average --by` has compared, as averages.json says it while it comes.

struct ComparedModel {
  std::string file;
  std::optional<double> length;  // of the average; none: the best model that the training has kept
  double kimg = 0;               // where the average ends
  std::optional<double> value;   // of the metric; none: it was no number, or is not measured
  std::string sha256;            // of the file's content
  bool measured = false;
};

template <class Field>
void fields(ComparedModel& m, Field&& field) {
  field("file", m.file);
  field("length", m.length);
  field("kimg", m.kimg);
  field("value", m.value);
  field("sha256", m.sha256);
  field("measured", m.measured);
}

struct ComparedModels {
  std::string metric;
  std::string settings;  // a hash of all else that the values depend on beside the models
  std::vector<ComparedModel> models;
  std::string best;  // its file; "": no value is a number, or not all are there
};

template <class Field>
void fields(ComparedModels& c, Field&& field) {
  field("metric", c.metric);
  field("settings", c.settings);
  field("models", c.models);
  field("best", c.best);
}

inline constexpr const char* kAveragesFile = "averages.json";
// Set in the environment of a comparison whose lengths the user has not chosen, as finetuning's.
inline constexpr const char* kLengthsVariable = "GANTRAIN_LENGTHS_CHOSEN";

// A return to the best state, and the rate that follows.
struct Return {
  double from_kimg = 0;  // what was given up there
  double to_kimg = 0;
  std::string why;
  std::vector<std::string> rates;  // "G.adam.lr=0.001", half of those before
};

template <class Field>
void fields(Return& r, Field&& field) {
  field("from_kimg", r.from_kimg);
  field("to_kimg", r.to_kimg);
  field("why", r.why);
  field("rates", r.rates);
}

// What finetune.json says: what finetuning decided, and where it stands.
struct Finetuning {
  std::string command;             // the command line
  std::string from;                // the model, as it was named
  std::vector<std::string> words;  // of the training: what was chosen, then what the user gave
  std::string metric;
  std::string run;                // the training's folder, "" before it is known
  std::vector<std::string> sets;  // of the race's winner
  std::vector<Return> returns;
  bool applied = true;  // the last return is done: what came after the state is set aside
  std::string ended;    // why it ended, "" before
};

template <class Field>
void fields(Finetuning& f, Field&& field) {
  field("command", f.command);
  field("from", f.from);
  field("words", f.words);
  field("metric", f.metric);
  field("run", f.run);
  field("set", f.sets);
  field("returns", f.returns);
  field("applied", f.applied);
  field("ended", f.ended);
}

inline constexpr const char* kFinetuneFile = "finetune.json";
// Beside it at the end: the model to use, and what it has competed with.
inline constexpr const char* kChosenModel = "best.safetensors";
inline constexpr const char* kAveragesFolder = "averages";

// Reads finetune.json of a folder; nothing where there is none. Throws UserError(kInput) where it
// is broken.
std::optional<Finetuning> read_finetuning(const std::filesystem::path& folder);
void write_finetuning(const std::filesystem::path& folder, const Finetuning& state);

// Removes what an earlier finetuning in the folder has chosen.
void forget_chosen(const std::filesystem::path& folder);

// The arguments of its training as it stands: rates are halved by each return.
std::vector<std::string> arguments_of(const Finetuning& state);

// Sets aside what came after the newest state up to so many kimg; without one all of it, so that
// the run begins again at the model's weights. Returns the kimg of that state.
double go_back_to(const std::filesystem::path& run, double kimg);

// Trains until it is done: it goes back to the best state where view_course() says so, and ends
// where nothing improves. Then the best model, or an average of another length which is better by
// the metric, is copied to the folder as kChosenModel. Returns 0 or the exit code of a stop, after
// which the same call goes on. Throws UserError where the run fails for another reason.
int supervise_finetuning(const std::filesystem::path& folder,
                         Finetuning& state,
                         Children& children);

}  // namespace gantrain
