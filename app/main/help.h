// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "command/options.h"

namespace gantrain {

// A row of a table of help and the manual page.
struct Explained {
  const char* name;
  const char* about;
};

// What the program reads from its environment; SECTION and KEY stand for those of a key.
inline constexpr Explained kEnvironmentVariables[] = {
    {"GANTRAIN_PRESET", "The preset where no flag names one."},
    {"GANTRAIN_SECTION__KEY",
     "Any configuration key: GANTRAIN_TRAIN__BATCH=64 is train.batch=64. A flag wins."},
    {"GANTRAIN_CACHE_DIR", "Where statistics of data sets are kept instead of ~/.cache/gantrain."},
    {"GANTRAIN_TORCH_LIB",
     "The folder of PyTorch's or LibTorch's libraries, where the program does not find them by "
     "itself."},
    {"NO_COLOR", "No colours on a terminal."},
    {"CUDA_VISIBLE_DEVICES", "The GPUs that may be used; it is honoured and never rewritten."},
    {"RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT",
     "Set by torchrun and similar launchers: the program is then one rank."},
};

// What the program's exit codes mean.
inline constexpr Explained kExitCodes[] = {
    {"0", "done"},
    {"1", "internal error"},
    {"2", "usage or configuration"},
    {"3", "input that cannot be read (data, models, states)"},
    {"4", "environment (no GPU, rendezvous, port)"},
    {"5", "diverged"},
    {"6", "a rank died or hung (its reason is printed last)"},
    {"7", "out of memory"},
    {"8", "disk full or not writable"},
    {"75", "stopped early, resumable (signal, time limit, STOP)"},
    {"130", "Ctrl-C, saved, resumable"},
    {"128+n", "killed by signal n"},
};

// A subject of `gantrain help TOPIC`.
struct HelpTopic {
  const char* name;
  const char* about;  // one line, for completion and the manual page
  // What is printed. A line "@VERB WORD..." stands for one row for each word, a flag of that verb
  // or, of train, a key of the configuration, as the program itself describes it; "@exit",
  // "@environment", "@metrics" and "@presets" stand for those tables. Null: verb_help.cpp prints
  // the topic, in a form of its own.
  const char* text;
};

// Returns all topics, in the order in which they are read best.
const std::vector<HelpTopic>& help_topics();

// Returns the script by which a shell asks this program for completions. Throws UserError(kUsage)
// for a shell other than bash, zsh and fish.
std::string completion_script(const std::string& shell);

// Runs `gantrain help --complete WORDS...`, which the scripts call: prints one word a line with
// what it is about behind a tab, and ":files" where names of files can follow.
int print_completion(const std::vector<std::string>& words);

}  // namespace gantrain
