// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "flags.h"
#include "habits.h"
#include "own_values.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

std::string hyphens(std::string name) {
  std::replace(
      name.begin() + std::min<long>(2, static_cast<long>(name.size())), name.end(), '_', '-');
  return name;
}

const Habit* find_habit(const std::string& name) {
  for (const Habit& habit : habits()) {
    for (const std::string& one : split(habit.names, ',')) {
      if (one == name || one == hyphens(name)) return &habit;
    }
  }
  return nullptr;
}

std::string respelled(const std::vector<Respelling>& words, const std::string& value) {
  for (const Respelling& one : words) {
    if (lower(value) == one.theirs) return one.ours;
  }
  return value;
}

// One flag of the command line with its value, as it was given.
struct Given {
  std::string name;
  std::optional<std::string> value;
  std::string text() const { return value ? name + " " + *value : name; }
};

// Walks through the command line and builds the translated one.
class Translator {
 public:
  Translator(const std::vector<std::string>& words, const std::vector<std::string>& known)
      : words_(words), known_(known) {}

  Translation run();

 private:
  bool is_known(const std::string& name) const {
    return std::find(known_.begin(), known_.end(), name) != known_.end();
  }
  // Takes the word after the flag, if that is one of these.
  bool join_switch(const std::string& name, const std::vector<std::string>& values);
  void take_own(const std::string& word, const std::string& name);
  // Takes the flag if its value has another name here.
  bool take_metrics(const std::string& name, const std::string& value);
  void take(const Habit& habit, Given given);

  const std::vector<std::string>& words_;
  const std::vector<std::string>& known_;
  size_t at_ = 0;
  Translation out_;
};

bool Translator::join_switch(const std::string& name, const std::vector<std::string>& values) {
  if (at_ + 1 >= words_.size()) return false;
  const std::string value = words_[at_ + 1];
  if (std::find(values.begin(), values.end(), lower(value)) == values.end()) return false;
  out_.arguments.push_back(name + "=" + lower(value));
  ++at_;
  return true;
}

bool Translator::take_metrics(const std::string& name, const std::string& value) {
  const std::string own = own_metrics(value);
  if (own == value) return false;
  out_.arguments.push_back(name + "=" + own);
  out_.lines.push_back(
      fmt::format("taken   {0} {1} for {0} {2}; --set metrics.images=50000 takes as many pictures",
                  name,
                  value,
                  own));
  return true;
}

// A flag of this program. A switch takes its value behind an equals sign alone, by CLI11.
void Translator::take_own(const std::string& word, const std::string& name) {
  static const std::vector<std::string> yes_no = {
      "yes", "no", "on", "off", "true", "false", "1", "0"};
  // The flag itself says which of them there are.
  static const std::vector<std::string> kAmpWords = {
      "auto", "fp16", "bf16", "off", "no", "fp32", "float16", "bfloat16", "float32"};
  const bool apart = word == name && at_ + 1 < words_.size();  // the value follows, if there is one
  const std::string value = word != name ? word.substr(name.size() + 1)
                            : apart      ? words_[at_ + 1]
                                         : "";
  if (name == "--resume") check_no_pickle(name, value);
  if (name == "--metrics" && take_metrics(name, value)) {
    at_ += apart ? 1 : 0;
    return;
  }
  if (word == "--amp" && join_switch(word, kAmpWords)) return;
  if (word == "--dry-run" && join_switch(word, {"full", "short"})) return;
  for (const Flag& flag : flag_table()) {
    if (flag.is_switch && word == flag.names && flag.alone == nullptr && join_switch(word, yes_no))
      return;
  }
  const auto& respellings = respellings_of_own_flags();
  const auto theirs = respellings.find(name);
  const std::string own = theirs == respellings.end() ? value : respelled(theirs->second, value);
  if (own == value) {
    out_.arguments.push_back(word);
    return;
  }
  at_ += apart ? 1 : 0;
  out_.arguments.push_back(name + "=" + own);
  out_.lines.push_back(fmt::format("taken   {0} {1} for {0} {2}", name, value, own));
}

void Translator::take(const Habit& habit, Given given) {
  if (habit.has_value && !given.value) {
    if (at_ + 1 >= words_.size())
      fail(Exit::kUsage,
           "{} needs a value; gantrain help flags shows this program's own",
           given.name);
    given.value = words_[++at_];
  }
  const std::string value = respelled(habit.respellings, given.value.value_or(""));
  const double four_times = 4 * parse_double(value).value_or(1);
  const std::string text = fmt::format(fmt::runtime(habit.text), value, number(four_times));
  if (habit.meaning == Meaning::kHint) fail(Exit::kUsage, "{}: {}", given.text(), text);
  if (habit.meaning == Meaning::kNeedless) {
    out_.lines.push_back(fmt::format("taken   {}: not needed, {}", given.text(), text));
    return;
  }
  const size_t blank = text.find(' ');
  out_.arguments.push_back(text.substr(0, blank));
  if (blank != std::string::npos) out_.arguments.push_back(text.substr(blank + 1));
  out_.lines.push_back(fmt::format("taken   {} for {}", given.text(), text));
}

Translation Translator::run() {
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
    } else if (const Habit* habit = find_habit(name)) {
      take(*habit, {name, value});
    } else {
      out_.arguments.push_back(word);
    }
  }
  return std::move(out_);
}

}  // namespace

Translation translate_habits(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& known) {
  return Translator(arguments, known).run();
}

}  // namespace gantrain
