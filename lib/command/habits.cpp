// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <optional>

#include "command/flags.h"
#include "util/error.h"
#include "util/file_kind.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

Respellings respellings_of(const std::string& words) {
  Respellings all;
  for (const std::string& pair : split(words, ' ')) {
    const size_t equals = pair.find('=');
    if (equals != std::string::npos) all[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return all;
}

// The cells of a row from the second on.
Habit habit_of(const std::string& meaning,
               const std::string& flag,
               const std::string& words,
               const std::string& text) {
  const std::vector<std::string> names = split(flag, ' ');
  return {names[0],
          Value<Meaning>::from_text(meaning).value(),
          names.size() > 1,
          text,
          respellings_of(words)};
}

// What habits.txt and verb_habits.txt say.
struct Habits {
  std::vector<Habit> foreign;                  // of the training
  std::map<std::string, Respellings> own;      // values of the program's own flags
  std::map<std::string, Respellings> besides;  // what values of foreign flags say besides
  std::map<std::string, std::vector<Habit>> of_verbs;
  std::map<std::string, std::string> scripts;  // other programs, and the verb that does their work

  Habits() {
    for (const auto& row : table_rows(command_files().at("habits.txt"), 4)) {
      if (row[0] == "own") {
        own[row[1]] = respellings_of(row[2]);
      } else if (row[0] == "besides") {
        for (const std::string& value : split(row[2], ' ')) besides[row[1]][value] = row[3];
      } else {
        foreign.push_back(habit_of(row[0], row[1], row[2], row[3]));
      }
    }
    for (const auto& row : table_rows(command_files().at("verb_habits.txt"), 5)) {
      for (const std::string& verb : split(row[0], ',')) {
        if (row[1] != "script") {
          of_verbs[verb].push_back(habit_of(row[1], row[2], row[3], row[4]));
          continue;
        }
        for (const std::string& script : split(row[2], ',')) scripts[script] = verb;
      }
    }
  }
};

const Habits& known_habits() {
  static const Habits all;
  return all;
}

std::string hyphens(std::string name) {
  std::replace(
      name.begin() + std::min<long>(2, static_cast<long>(name.size())), name.end(), '_', '-');
  return name;
}

const Habit* find_habit(const std::vector<Habit>& habits, const std::string& name) {
  for (const Habit& habit : habits) {
    for (const std::string& one : split(habit.names, ',')) {
      if (one == name || one == hyphens(name)) return &habit;
    }
  }
  return nullptr;
}

std::string respelled(const Respellings& words, const std::string& value) {
  const auto own = words.find(lower(value));
  return own == words.end() ? value : own->second;
}

// Throws UserError(kUsage) with the commands to type where --resume is given an official network
// pickle, or the address of one.
void check_no_pickle(const std::string& flag, const std::string& value) {
  if (!ends_with(lower(value), ".pkl")) return;
  refuse_address(value);
  const std::string model = value.substr(0, value.size() - 4) + ".safetensors";
  fail(Exit::kUsage,
       "{} {}: a network pickle holds weights, not the state of a run; {} import {} -o {}, "
       "then --init-from {} starts a run at them",
       flag,
       value,
       program(),
       shell_quote(value),
       shell_quote(model),
       shell_quote(model));
}

// One flag of the command line with its value, as it was given.
struct Given {
  std::string name;
  std::optional<std::string> value;
  bool apart = false;  // the value is a word of its own
  std::string text() const {
    return value ? name + (apart ? " " : "=") + shell_quote(*value) : name;
  }
};

// Walks through the command line and builds the translated one.
class Translator {
 public:
  Translator(const std::vector<std::string>& words,
             const std::vector<std::string>& known,
             const std::vector<Habit>& foreign,
             bool of_training)
      : words_(words), known_(known), foreign_(foreign), of_training_(of_training) {}

  Translation run() {
    for (; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      const size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      std::optional<std::string> value;
      if (equals != std::string::npos) value = word.substr(equals + 1);
      if (!starts_with(word, "-") || word == "--") {
        out_.arguments.push_back(word);
      } else if (is_known(name)) {
        take_own(word, name);
      } else if (is_known(hyphens(name))) {
        const std::string own = hyphens(name);
        take_own(value ? own + "=" + *value : own, own);
      } else if (const Habit* habit = find_habit(foreign_, name)) {
        take(*habit, {name, value});
      } else {
        out_.arguments.push_back(word);
      }
    }
    return std::move(out_);
  }

 private:
  bool is_known(const std::string& name) const { return contains(known_, name); }

  // Takes the word after the flag, if that is one of these.
  bool join_switch(const std::string& name, const std::vector<std::string>& values) {
    if (at_ + 1 >= words_.size()) return false;
    const std::string value = words_[at_ + 1];
    if (!contains(values, lower(value))) return false;
    out_.arguments.push_back(name + "=" + lower(value));
    ++at_;
    return true;
  }

  // A flag of this program. A switch takes its value behind an equals sign alone, by CLI11.
  void take_own(const std::string& word, const std::string& name) {
    const bool apart =
        word == name && at_ + 1 < words_.size();  // the value follows, if there is one
    const std::string value = word != name ? word.substr(name.size() + 1)
                              : apart      ? words_[at_ + 1]
                                           : "";
    if (take_metrics(name, value)) {
      at_ += apart ? 1 : 0;
      return;
    }
    if (!of_training_) {
      out_.arguments.push_back(word);
      return;
    }
    static const std::vector<std::string> yes_no = {
        "yes", "no", "on", "off", "true", "false", "1", "0"};
    // The flag itself says which of them there are.
    static const std::vector<std::string> kAmpWords = {
        "auto", "fp16", "bf16", "off", "no", "fp32", "float16", "bfloat16", "float32"};
    if (name == "--resume") check_no_pickle(name, value);
    if (word == "--amp" && join_switch(word, kAmpWords)) return;
    if (word == "--dry-run" && join_switch(word, {"full", "short"})) return;
    for (const Flag& flag : flag_table()) {
      if (flag.is_switch && word == flag.names && flag.alone.empty() && join_switch(word, yes_no))
        return;
    }
    const auto theirs = known_habits().own.find(name);
    const bool has_words = theirs != known_habits().own.end();
    const std::string own = has_words ? respelled(theirs->second, value) : value;
    if (own == value) {
      out_.arguments.push_back(word);
      return;
    }
    at_ += apart ? 1 : 0;
    out_.arguments.push_back(name + "=" + own);
    out_.lines.push_back(fmt::format("taken   {0} {1} for {0} {2}", name, value, own));
  }

  // Takes the flag if it names metrics and its value has another name here.
  bool take_metrics(const std::string& name, const std::string& value) {
    if (name != "--metrics" && name != "--keep-best" && name != "--by") return false;
    const std::string own = own_metrics(value);
    if (own == value) return false;
    out_.arguments.push_back(name + "=" + own);
    out_.lines.push_back(
        fmt::format("taken   {0} {1} for {0} {2}{3}",
                    name,
                    value,
                    own,
                    of_training_ ? "; --set metrics.images=50000 takes as many pictures" : ""));
    return true;
  }

  // Puts what a value of the flag says in the other program besides before all that is typed, which
  // wins therefore. Returns what the line says of it.
  std::string add_besides(const Habit& habit, const std::string& value) {
    const auto flag = known_habits().besides.find(split(habit.names, ',')[0]);
    if (!of_training_ || flag == known_habits().besides.end()) return "";
    const auto text = flag->second.find(lower(value));
    if (text == flag->second.end()) return "";
    const std::vector<std::string> words = split(text->second, ' ');
    out_.arguments.insert(out_.arguments.begin(), words.begin(), words.end());
    return fmt::format(", with {} unless flags say otherwise", text->second);
  }

  void take(const Habit& habit, Given given) {
    if (habit.has_value && !given.value) {
      if (at_ + 1 >= words_.size())
        fail(Exit::kUsage,
             "{} needs a value; {} help flags shows this program's own",
             given.name,
             program());
      given.value = words_[++at_];
      given.apart = true;
    }
    const std::string value = respelled(habit.respellings, given.value.value_or(""));
    const std::string kimg = kimg_of_ticks(habit, given, value);
    const auto filled = [&](const std::string& with) {
      return fmt::format(fmt::runtime(habit.text), with, kimg, program());
    };
    const std::string shown = filled(shell_quote(value));
    if (habit.meaning == Meaning::kHint) fail(Exit::kUsage, "{}: {}", given.text(), shown);
    if (habit.meaning == Meaning::kNeedless) {
      out_.lines.push_back(fmt::format("taken   {}: not needed, {}", given.text(), shown));
      return;
    }
    const std::string text = filled(value);
    const size_t blank = starts_with(habit.text, "-") ? text.find(' ') : std::string::npos;
    out_.arguments.push_back(text.substr(0, blank));
    if (blank != std::string::npos) out_.arguments.push_back(text.substr(blank + 1));
    out_.lines.push_back(fmt::format(
        "taken   {} for {}{}", given.text(), shown, add_besides(habit, given.value.value_or(""))));
    const std::string flag = habit.text.substr(0, habit.text.find_first_of(" ="));
    const std::string key = habit.text.substr(std::min(habit.text.size(), flag.size() + 1));
    out_.taken.push_back({flag == "--set" ? key.substr(0, key.find('=')) : flag, given.text()});
  }

  // StyleGAN's scripts count in ticks, of 4 kimg where --tick says nothing else. "" where the habit
  // counts nothing.
  std::string kimg_of_ticks(const Habit& habit,
                            const Given& given,
                            const std::string& value) const {
    if (habit.text.find("{1}") == std::string::npos) return "";
    const auto ticks = parse_double(value);
    if (!ticks) fail(Exit::kUsage, "{}: a number of ticks is expected", given.text());
    double tick = 4;
    for (size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] == "--tick" && i + 1 < words_.size())
        tick = parse_double(words_[i + 1]).value_or(tick);
      if (starts_with(words_[i], "--tick="))
        tick = parse_double(words_[i].substr(7)).value_or(tick);
    }
    return shortest(*ticks * tick);
  }

  const std::vector<std::string>& words_;
  const std::vector<std::string>& known_;
  const std::vector<Habit>& foreign_;
  bool of_training_;
  size_t at_ = 0;
  Translation out_;
};

}  // namespace

const std::vector<Habit>& habits() { return known_habits().foreign; }

std::string own_metrics(const std::string& value) {
  static const std::map<std::string, std::string> names = {{"fid50k_full", "fid"},
                                                           {"fid50k", "fid"},
                                                           {"kid50k_full", "kid"},
                                                           {"kid50k", "kid"},
                                                           {"pr50k3_full", "pr"},
                                                           {"pr50k3", "pr"},
                                                           {"ppl2_wend", "ppl"},
                                                           {"ppl_wend", "ppl"},
                                                           {"is50k", "is"},
                                                           {"eqt50k_int", "eqt"},
                                                           {"eqt50k_frac", "eqt_frac"},
                                                           {"eqr50k", "eqr"}};
  std::vector<std::string> all;
  for (const std::string& one : split(value, ',')) {
    const auto at = names.find(trim(one));
    all.push_back(at == names.end() ? one : at->second);
  }
  return join(all, ",");
}

namespace {

// Messages name a flag by its first name: what was typed is another name of it, or its key.
std::vector<Taken> other_spellings(const std::vector<std::string>& arguments) {
  std::vector<Taken> found;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool key = i > 0 && arguments[i - 1] == "--set";
    const std::string said = arguments[i].substr(0, arguments[i].find('='));
    for (const Flag& flag : flag_table()) {
      const std::vector<std::string> names = split(flag.names, ',');
      if (key && said == flag.key) found.push_back({names[0], "--set " + arguments[i]});
      if (!key && std::find(names.begin() + 1, names.end(), said) != names.end())
        found.push_back({names[0], arguments[i]});
    }
  }
  return found;
}

}  // namespace

Translation translate_habits(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& known) {
  Translation translated = Translator(arguments, known, habits(), /*of_training=*/true).run();
  for (const Taken& one : other_spellings(arguments)) translated.taken.push_back(one);
  return translated;
}

std::string as_typed(const std::string& message, const std::vector<Taken>& taken) {
  std::vector<std::string> typed;
  for (const Taken& one : taken) {
    if (message.find(one.own) != std::string::npos) typed.push_back(one.typed);
  }
  return typed.empty() ? message : message + "; given as " + join(typed, " ");
}

namespace {

struct SidesJoined {
  std::vector<std::string> arguments;
  std::string line;  // that says what was taken; "" for nothing
};

// dataset_tool.py has a flag for each side: both together are one size here.
SidesJoined join_sides(const std::string& verb, const std::vector<std::string>& arguments) {
  SidesJoined joined;
  std::map<std::string, std::string> sides, typed;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    const bool side = name == "--width" || name == "--height";
    const bool apart = side && equals == std::string::npos && i + 1 < arguments.size();
    if (side && (apart || equals != std::string::npos)) {
      sides[name] = apart ? arguments[i + 1] : arguments[i].substr(equals + 1);
      typed[name] = apart ? name + " " + shell_quote(arguments[++i]) : shell_quote(arguments[i]);
    } else {
      joined.arguments.push_back(arguments[i]);
    }
  }
  if (verb != "data pack" || sides.size() != 2) return {arguments, ""};
  const std::string size = sides["--width"] + "x" + sides["--height"];
  joined.arguments.push_back("--resolution=" + size);
  joined.line = fmt::format(
      "taken   {} {} for --resolution {}", typed["--width"], typed["--height"], shell_quote(size));
  return joined;
}

}  // namespace

std::vector<std::string> in_own_words(const std::string& verb,
                                      const std::vector<std::string>& arguments,
                                      const Options& options) {
  const auto of_verb = known_habits().of_verbs.find(verb);
  static const std::vector<Habit> kNone;
  const std::vector<Habit>& foreign =
      of_verb == known_habits().of_verbs.end() ? kNone : of_verb->second;
  const SidesJoined joined = join_sides(verb, arguments);
  if (!joined.line.empty()) info("{}", joined.line);
  Translation own =
      Translator(joined.arguments, options.flag_names(), foreign, /*of_training=*/false).run();
  for (const std::string& line : own.lines) info("{}", line);
  return std::move(own.arguments);
}

std::string verb_of_script(const std::string& word) {
  const std::string name = word.substr(word.rfind('/') + 1);
  for (const std::string& script : {name, name + ".py"}) {
    const auto found = known_habits().scripts.find(script);
    if (found != known_habits().scripts.end()) return found->second;
  }
  return "";
}

const std::vector<Habit>& habits_of_verb(const std::string& verb) {
  return known_habits().of_verbs.at(verb);
}

}  // namespace gantrain
