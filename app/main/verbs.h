// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "command/options.h"

namespace gantrain {

Verb train_verb();
Verb join_verb();
Verb generate_verb();
Verb export_verb();
Verb import_verb();
Verb inspect_verb();
Verb interpolate_verb();
Verb metrics_verb();
Verb features_verb();
Verb average_verb();
Verb nn_verb();
Verb project_verb();
Verb edit_verb();
Verb report_verb();
Verb serve_verb();
Verb slurm_verb();
Verb kube_verb();
Verb launch_verb();
Verb track_verb();
Verb tune_verb();
Verb finetune_verb();
Verb presets_verb();
Verb data_verb();
Verb doctor_verb();
Verb bench_verb();
Verb help_verb();

// All of them, in the order of `gantrain --help`.
const std::vector<Verb>& verbs();

// Of app/main/texts: the completion scripts, gantrain(1), the topics of `gantrain help TOPIC` that
// have a text, and tables. In a topic a line "@VERB WORD..." stands for one row for each word, a
// flag of that verb or, of train, a key of the configuration, as the program itself describes it;
// "@exit", "@environment", "@metrics" and "@presets" stand for those tables.
const EmbeddedFiles& help_files();

// A row of a table of help and the manual page.
struct Explained {
  std::string name;
  std::string about;
};

// Returns a table: "environment", what the program reads from its environment (SECTION and KEY
// stand for those of a key); "exit_codes", what these mean; "topics" of help, in the order in which
// they are read best.
std::vector<Explained> explained(const std::string& table);

// Returns the script by which a shell asks this program for completions. Throws UserError(kUsage)
// for a shell other than bash, zsh and fish.
std::string completion_script(const std::string& shell);

// Runs `gantrain help --complete WORDS...`, which the scripts call: prints one word a line with
// what it is about behind a tab, and ":files" where names of files can follow.
int print_completion(const std::vector<std::string>& words);

}  // namespace gantrain
