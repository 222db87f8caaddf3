// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "command/options.h"

namespace gantrain {

struct EnvironmentVariable {
  const char* names;  // with commas between; SECTION and KEY stand for those of a key
  const char* meaning;
};

// What the program reads from its environment, for help and the manual page.
inline constexpr EnvironmentVariable kEnvironmentVariables[] = {
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

struct ExitCode {
  const char* code;
  const char* meaning;
};

// What the program's exit codes mean, for help and the manual page.
inline constexpr ExitCode kExitCodes[] = {
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

// Returns the text of a topic that has one, with its tables, in lines of up to 100 columns. Throws
// std::logic_error where a table names what the program does not have.
std::string topic_text(const HelpTopic& topic);

// The texts, in help_texts.cpp.
extern const char* const kStartHelp;
extern const char* const kDataHelp;
extern const char* const kDdpHelp;
extern const char* const kSlurmHelp;
extern const char* const kAmpHelp;
extern const char* const kResumeHelp;
extern const char* const kMetricsHelp;
extern const char* const kExitHelp;

// What can stand at the cursor.
struct Completion {
  struct Word {
    std::string text;
    std::string about;  // may be ""
  };
  std::vector<Word> words;  // all begin with what is typed
  bool files = false;       // names of files and folders, too
};

// Returns what can stand for the last of `words`, a command line up to the cursor: the program,
// then what was typed, of which the last may be "". `verbs` is describe_verbs().
Completion complete(const std::vector<std::string>& words,
                    const std::vector<VerbDescription>& verbs);

// Returns the script by which a shell asks this program for completions. Throws UserError(kUsage)
// for a shell other than bash, zsh and fish.
std::string completion_script(const std::string& shell);

// Runs `gantrain help --complete WORDS...`, which the scripts call: prints one word a line with
// what it is about behind a tab, and ":files" where names of files can follow.
int print_completion(const std::vector<std::string>& words);

// Returns the manual page gantrain(1), or gantrain-VERB(1) where a verb is named ("data pack" is
// gantrain-data-pack), in the man macros of roff. It is made of what the verbs declare, as --help
// is. Throws UserError(kUsage) for an unknown verb.
std::string man_page(const std::string& verb);

// Returns the name of a verb's page: "gantrain-data-pack".
std::string page_name(const VerbDescription& verb);

}  // namespace gantrain
