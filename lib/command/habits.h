// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace gantrain {

// What a flag of another trainer becomes here.
enum class Meaning {
  kSame,      // the same thing has another name here: it simply works
  kNeedless,  // gantrain finds it out by itself: the flag is passed over
  kHint,      // it means something else here: refused with the spelling to type
};

// A word that a flag's value is replaced by: "no" of --mixed_precision is "off" here.
struct Respelling {
  const char* theirs;
  const char* ours;
};

// A flag that people know from other trainers and launchers.
struct Habit {
  const char* names;  // "--gpus,--devices"; a hyphen stands for an underscore, too
  const char* whose;  // where people know it from: "StyleGAN3"
  Meaning meaning;
  bool has_value;
  // kSame: what to say here; kNeedless: why nothing need be said; kHint: what to do. {0} is the
  // value, {1} four times the value.
  const char* text;
  std::vector<Respelling> respellings = {};
};

// The table of habits, by where they come from.
const std::vector<Habit>& habits();

// Words of other trainers for values of the program's own flags: "gpu" of --device is "cuda".
const std::map<std::string, std::vector<Respelling>>& respellings_of_own_flags();

// A command line of `gantrain train` in this program's words, and for each replaced flag a line
// that says what it was taken for.
struct Translation {
  std::vector<std::string> arguments;
  std::vector<std::string> lines;
};

// Replaces the flags of other trainers, spellings with underscores (--run_dir) and the separate
// values of switches (--mirror yes, --amp bf16). `known` holds the program's own flags, which are
// never replaced. Throws UserError(kUsage) with the spelling to type where the meaning is another.
Translation translate_habits(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& known);

// Returns the value of --metrics with this program's names for StyleGAN's metrics, which say how
// many pictures they take: "fid,kid" for "fid50k_full,kid50k_full". Other names come back as they
// are.
std::string own_metrics(const std::string& value);

// Throws UserError(kUsage) with the commands to type where --resume or --init-from (`flag`) is
// given an official network pickle.
void check_no_pickle(const std::string& flag, const std::string& value);

}  // namespace gantrain
