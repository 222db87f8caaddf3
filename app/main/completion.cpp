// SPDX-License-Identifier: Apache-2.0
// What the shells are told: to ask the program itself, which knows its flags, presets and keys.

#include <algorithm>
#include <set>

#include "config/config.h"
#include "config/resolve.h"
#include "main/verbs.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

// What can stand at the cursor.
struct Completion {
  struct Word {
    std::string text;
    std::string about;  // may be ""
  };
  std::vector<Word> words;  // all begin with what is typed
  bool files = false;       // names of files and folders, too
};

using Words = std::vector<std::string>;

// A command line, taken apart as far as completion needs it.
struct Line {
  const VerbDescription* verb = nullptr;
  Words before;         // the verb's arguments before the cursor
  std::string current;  // what is typed of the word at the cursor
};

void add(Completion& out, const std::string& prefix, const std::string& text, std::string about) {
  if (starts_with(text, prefix)) out.words.push_back({text, std::move(about)});
}

const VerbDescription* find(const std::vector<VerbDescription>& verbs, const std::string& name) {
  for (const VerbDescription& verb : verbs) {
    if (verb.name == name) return &verb;
  }
  return nullptr;
}

// Whether behind "--" the words of a verb are those of a training.
bool takes_training(const VerbDescription& verb) {
  return verb.name == "slurm" || verb.name == "kube" || verb.name == "tune" ||
         verb.name == "finetune";
}

const FlagDescription* find_flag(const VerbDescription& verb, const std::string& name) {
  for (const FlagDescription& flag : verb.flags) {
    if (contains(flag.names, name)) return &flag;
  }
  return nullptr;
}

void add_presets(Completion& out, const std::string& prefix) {
  for (const std::string& name : preset_names()) add(out, prefix, name, preset_about(name));
}

// The keys that can be meant: those of the preset's recipe where one is named, else of all.
std::vector<Key> keys_of(const Words& before) {
  Words recipes;
  for (size_t i = 0; i < before.size(); ++i) {
    std::string name;
    if (starts_with(before[i], "--preset=")) name = before[i].substr(9);
    if (before[i] == "--preset" && i + 1 < before.size()) name = before[i + 1];
    const Words known = preset_names();
    if (contains(known, name)) recipes = {preset_recipe(name)};
  }
  if (recipes.empty()) {
    for (const RecipeFacts& recipe : recipe_facts()) recipes.push_back(recipe.name);
  }
  std::vector<Key> keys;
  std::set<std::string> seen;
  for (const std::string& recipe : recipes) {
    for (const Key& key : full_schema(recipe)) {
      if (seen.insert(key.path).second) keys.push_back(key);
    }
  }
  return keys;
}

// The words that a key allows, if it allows words: "on|off". `lead` stands before each: "key=".
void add_values(Completion& out,
                const std::string& prefix,
                const Key& key,
                const std::string& lead) {
  if (key.type == "text") {
    out.files = true;
    if (key.path == "data.path") add(out, prefix, lead + "synth:shapes", "built-in pictures");
  } else if (key.type.find('|') != std::string::npos) {
    for (const std::string& word : split(key.type, '|')) {
      if (word.find(' ') == std::string::npos && word != "integer" && word != "number" &&
          word != "text")
        add(out, prefix, lead + word, "");
    }
  }
}

void add_pairs(Completion& out, const Line& line, const std::string& prefix) {
  const size_t equals = prefix.find('=');
  for (const Key& key : keys_of(line.before)) {
    if (equals == std::string::npos) {
      add(out, prefix, key.path + "=", key.help);
    } else if (key.path == prefix.substr(0, equals)) {
      add_values(out, prefix, key, key.path + "=");
    }
  }
}

// The value of a flag. Everything that is not known to be something else may be a file.
void add_flag_values(Completion& out,
                     const Line& line,
                     const FlagDescription& flag,
                     const std::string& prefix) {
  const std::string& name = flag.names.front();
  if (name == "--preset") return add_presets(out, prefix);
  if (name == "--set") return add_pairs(out, line, prefix);
  if (name == "--recipe") {
    for (const RecipeFacts& recipe : recipe_facts()) add(out, prefix, recipe.name, "");
    return;
  }
  if (line.verb->name == "train" || takes_training(*line.verb)) {
    const std::string path = key_of_flag(name);
    for (const Key& key : full_schema(recipe_facts().front().name)) {
      if (key.path == path) return add_values(out, prefix, key, "");
    }
  }
  out.files = flag.value != "INT" && flag.value != "UINT" && flag.value != "FLOAT";
}

void add_flags(Completion& out, const VerbDescription& verb, const std::string& prefix) {
  for (const FlagDescription& flag : verb.flags) {
    for (const std::string& name : flag.names) {
      // One spelling is enough, unless another one is being typed.
      if (name != flag.names.front() && prefix.size() < 4) continue;
      if (name.size() > 2 || prefix == "-") add(out, prefix, name, flag.help);
    }
  }
}

// The words that verbs take besides flags.
void add_arguments(Completion& out, const Line& line) {
  const std::string& verb = line.verb->name;
  if (verb == "presets") {
    if (!line.before.empty()) return add_presets(out, line.current);
    add(out, line.current, "list", "all presets");
    add(out, line.current, "show", "one preset and all that it sets");
    add(out, line.current, "diff", "what differs between two presets");
  } else if (verb == "help") {
    std::set<std::string> offered;  // some topics have the name of a verb
    for (const Explained& topic : explained("topics")) {
      offered.insert(topic.name);
      add(out, line.current, topic.name, topic.about);
    }
    for (const Verb& other : verbs()) {
      if (offered.insert(other.name).second) add(out, line.current, other.name, other.about);
    }
  } else if (verb != "train") {
    out.files = std::ranges::any_of(
        line.verb->flags, [](const FlagDescription& flag) { return !flag.argument.empty(); });
  }
}

// The first words: a verb, or flags of train, which may be left out.
void add_verbs(Completion& out,
               const std::vector<VerbDescription>& all,
               const std::string& prefix) {
  if (starts_with(prefix, "-")) {
    add_flags(out, *find(all, "train"), prefix);
    add(out, prefix, "--version", "which gantrain this is");
    return;
  }
  for (const Verb& verb : verbs()) add(out, prefix, verb.name, verb.about);
}

Completion complete_arguments(Line line, const std::vector<VerbDescription>& verbs) {
  Completion out;
  const VerbDescription* train = find(verbs, "train");
  const auto dashes = std::ranges::find(line.before, "--");
  if (takes_training(*line.verb) && dashes != line.before.end()) {
    line.verb = train;
    line.before.erase(line.before.begin(), dashes + 1);
  }
  const size_t equals = line.current.find('=');
  if (starts_with(line.current, "--") && equals != std::string::npos) {
    const std::string name = line.current.substr(0, equals);
    if (const FlagDescription* flag = find_flag(*line.verb, name)) {
      add_flag_values(out, line, *flag, line.current.substr(equals + 1));
      for (Completion::Word& word : out.words) word.text.insert(0, name + "=");
    }
    return out;
  }
  const FlagDescription* flag =
      line.before.empty() ? nullptr : find_flag(*line.verb, line.before.back());
  if (flag != nullptr && !flag->value.empty()) {
    add_flag_values(out, line, *flag, line.current);
  } else if (starts_with(line.current, "-")) {
    add_flags(out, *line.verb, line.current);
  } else {
    add_arguments(out, line);
  }
  return out;
}

// Returns what can stand for the last of `words`, a command line up to the cursor: the program,
// then what was typed, of which the last may be "". `all` is describe_verbs().
Completion complete(const Words& words, const std::vector<VerbDescription>& all) {
  Completion out;
  if (words.size() < 2) return out;
  const std::string& current = words.back();
  if (words.size() == 2) {
    add_verbs(out, all, current);
    if (!out.words.empty() || current.find('=') == std::string::npos) return out;
  }
  const std::string& first = words[1];
  if (starts_with(first, "-")) {
    const VerbDescription* train = find(all, "train");
    return complete_arguments({train, {words.begin() + 1, words.end() - 1}, current}, all);
  }
  for (const Verb& verb : verbs()) {
    if (first != verb.name) continue;
    if (verb.parts.empty())
      return complete_arguments({find(all, first), {words.begin() + 2, words.end() - 1}, current},
                                all);
    if (words.size() == 3) {
      for (const Verb& part : verb.parts) add(out, current, part.name, part.about);
      return out;
    }
    const VerbDescription* part = find(all, first + " " + words[2]);
    if (part == nullptr) return out;
    return complete_arguments({part, {words.begin() + 3, words.end() - 1}, current}, all);
  }
  return out;
}

}  // namespace

std::string completion_script(const std::string& shell) {
  const auto script = help_files().find("completion." + shell);
  if (script != help_files().end()) return std::string(script->second);
  fail(Exit::kUsage, "--completion {}: there is bash, zsh, fish", shell);
}

int print_completion(const Words& words) {
  const Completion completion = complete(words, describe_verbs(verbs()));
  for (const Completion::Word& word : completion.words)
    fmt::print("{}\t{}\n", word.text, word.about.substr(0, word.about.find('\n')));
  if (completion.files) fmt::print(":files\n");
  return 0;
}

}  // namespace gantrain
