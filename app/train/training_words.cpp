// SPDX-License-Identifier: Apache-2.0
#include "train/training_words.h"

#include <algorithm>

#include "command/flags.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Refuses flags that neither this verb nor `gantrain train` has.
void check_flag_names(const Options& options, const std::vector<std::string>& words) {
  std::vector<std::string> known = training_flag_names();
  for (const std::string& name : options.flag_names()) known.push_back(name);
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (!starts_with(name, "--") || std::ranges::find(known, name) != known.end()) continue;
    fail(Exit::kUsage, "unknown flag {}{}", name, did_you_mean(name, known));
  }
}

}  // namespace

std::optional<std::vector<std::string>> training_words(Options& options,
                                                       const std::vector<std::string>& arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  std::vector<std::string> words;
  if (!options.parse({arguments.begin(), dashes}, &words)) return std::nullopt;
  check_flag_names(options, translate_habits(words, training_flag_names()).arguments);
  if (dashes != arguments.end()) words.insert(words.end(), dashes + 1, arguments.end());
  words = translate_habits(words, training_flag_names()).arguments;
  if (!words.empty() && words.front() == "train") words.erase(words.begin());
  return words;
}

std::vector<std::string> without_flag(const std::vector<std::string>& words,
                                      const std::vector<std::string>& names) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (std::ranges::count(names, words[i].substr(0, equals)) == 0) {
      kept.push_back(words[i]);
    } else if (equals == std::string::npos) {
      ++i;
    }
  }
  return kept;
}

}  // namespace gantrain
