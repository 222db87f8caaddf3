// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "command/options.h"
#include "config/config.h"

namespace gantrain {

// The template of batch scripts, and the tables of flags and of habits.
const EmbeddedFiles& command_files();

// A flag, which is an alias of a configuration key: --batch 8 is --set train.batch=8. `gantrain
// help flags` prints the table of flags, flags.txt.
struct Flag {
  std::string group;  // heading in --help
  std::string names;  // "--nproc,--nproc-per-node"; help shows the first
  std::string key;    // "launch.nproc"
  bool is_switch;     // may stand without a value: --mirror
  std::string alone;  // the value without a given one; "": on
  bool adds = false;  // given again, it is joined with a comma instead of replaced: --track
};

const std::vector<Flag>& flag_table();

// Returns the names of all flags of `gantrain train`, those without a key too: "--preset".
std::vector<std::string> training_flag_names();

// Returns the flag of a key: "--batch" for "train.batch", or "--set data.fit" where it has none.
std::string flag_of(const std::string& key);

// --set and those flags of the table that a verb takes. It is kept where it is while the command
// line is read.
class KeyFlags {
 public:
  void add_set(Options& options, const Said& said);
  // Adds the flags that are wanted, with the help of their keys. `group` is their heading, "" for
  // that of the table, with which the types of the keys are shown, too.
  void add_flags(Options& options,
                 const Config& defaults,
                 const std::function<bool(const Flag&)>& wanted,
                 const std::string& group);

  // Returns what was given, in the order of the command line: "--batch" and its value, or "--set"
  // and "key=value".
  std::vector<std::pair<std::string, std::string>> given(Options& options) const;

 private:
  std::vector<std::string> pairs_;
  const CLI::Option* set_ = nullptr;
  std::map<std::string, std::string> values_;  // by the name that help shows
  std::map<const CLI::Option*, std::string> names_;
};

// What a flag of another trainer becomes here, see habits.txt.
enum class Meaning { kSame, kNeedless, kHint };
constexpr std::array<std::string_view, 3> names(Meaning) { return {"same", "needless", "hint"}; }

// The words that values of a flag are replaced by: "no" of --mixed_precision is "off" here.
using Respellings = std::map<std::string, std::string>;

// A flag that people know from other trainers and launchers.
struct Habit {
  std::string names;  // "--gpus,--devices"
  Meaning meaning;
  bool has_value;
  std::string text;
  Respellings respellings;
};

// The rows of habits.txt that are of foreign flags.
const std::vector<Habit>& habits();

// The rows of verb_habits.txt that are of a verb's flags: "data pack". Throws std::out_of_range for
// a verb without any.
const std::vector<Habit>& habits_of_verb(const std::string& verb);

// Returns the verb that does the work of another program's script: "generate" for "gen_images.py";
// "" where there is none.
std::string verb_of_script(const std::string& word);

// A flag of another program: this program's flag or key in its place, and how it was typed.
struct Taken {
  std::string own;    // "--batch", "ada.mode"
  std::string typed;  // "--batch-size=64"
};

// A command line of `gantrain train` in this program's words, and for each replaced flag a line
// that says what it was taken for.
struct Translation {
  std::vector<std::string> arguments;
  std::vector<std::string> lines;
  std::vector<Taken> taken;
};

// Returns a message about this program's flags and keys with how those that were taken were typed.
std::string as_typed(const std::string& message, const std::vector<Taken>& taken);

// Replaces the flags of other trainers, spellings with underscores (--run_dir) and the separate
// values of switches (--mirror yes). `known`: the program's own flags, which are never replaced.
// Throws UserError(kUsage) with the spelling to type where the meaning is another.
Translation translate_habits(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& known);

// Returns the value of --metrics with this program's names for StyleGAN's metrics: "fid,kid" for
// "fid50k_full,kid50k_full". Other names come back as they are.
std::string own_metrics(const std::string& value);

}  // namespace gantrain
