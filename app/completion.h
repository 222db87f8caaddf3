// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "verb_description.h"

namespace gantrain {

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

}  // namespace gantrain
