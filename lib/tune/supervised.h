// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/schema.h"
#include "tune/children.h"

namespace gantrain {

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

// Reads finetune.json of a folder; nothing where there is none. Throws UserError(kInput) where it
// is broken.
std::optional<Finetuning> read_finetuning(const std::filesystem::path& folder);
void write_finetuning(const std::filesystem::path& folder, const Finetuning& state);

// The arguments of its training as it stands: rates are halved by each return.
std::vector<std::string> arguments_of(const Finetuning& state);

// Sets aside what came after the newest state up to so many kimg; without one all of it, so that
// the run begins again at the model's weights. Returns the kimg of that state.
double go_back_to(const std::filesystem::path& run, double kimg);

// Trains until it is done: it goes back to the best state where view_course() says so, and ends
// where nothing improves. Returns 0 or the exit code of a stop, after which the same call goes on.
// Throws UserError where the run fails for another reason.
int supervise_finetuning(const std::filesystem::path& folder,
                         Finetuning& state,
                         Children& children);

}  // namespace gantrain
