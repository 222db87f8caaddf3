// SPDX-License-Identifier: Apache-2.0
#include "command/flags.h"

#include <CLI/CLI.hpp>

#include "util/text.h"

namespace gantrain {

const std::vector<Flag>& flag_table() {
  static const std::vector<Flag> table = [] {
    std::vector<Flag> flags;
    for (const auto& row : table_rows(command_files().at("flags.txt"), 4)) {
      const std::vector<std::string> words = split(row[3], ' ');
      flags.push_back({row[0],
                       row[1],
                       row[2],
                       words[0] == "switch",
                       words.size() > 1 ? words[1] : "",
                       words[0] == "each"});
    }
    return flags;
  }();
  return table;
}

std::vector<std::string> training_flag_names() {
  std::vector<std::string> names = split(
      "--preset,--config,--config-file,--set,--cfg-options,--smoke,--local_rank,--local-rank,"
      "--stopped-code,--dry-run,--json,--color,--quiet,--verbose,--help",
      ',');
  for (const Flag& flag : flag_table()) {
    for (const std::string& name : split(flag.names, ',')) names.push_back(name);
  }
  return names;
}

std::string flag_of(const std::string& key) {
  for (const Flag& flag : flag_table()) {
    if (key == flag.key) return split(flag.names, ',')[0];
  }
  return "--set " + key;
}

void KeyFlags::add_set(Options& options, const Said& said) {
  options.add({said.names, said, {}, "key=value, any key of gantrain help keys"}, pairs_);
  set_ = options.app().get_options().back();
}

void KeyFlags::add_flags(Options& options,
                         const Config& defaults,
                         const std::function<bool(const Flag&)>& wanted,
                         const std::string& group) {
  for (const Flag& flag : flag_table()) {
    if (!wanted(flag)) continue;
    const Key& key = defaults.key(flag.key);
    const std::string shown = split(flag.names, ',')[0];
    std::string& value = values_[shown];
    const std::string alone = flag.alone.empty() ? "" : fmt::format("{{{}}}", flag.alone);
    CLI::App& app = options.app();
    CLI::Option* option = flag.is_switch ? app.add_flag(flag.names + alone, value, key.help)
                                         : app.add_option(flag.names, value, key.help);
    option->group(group.empty() ? flag.group : group);
    flag.adds ? option->join(',') : option->take_last();
    if (group.empty() && !flag.is_switch) option->type_name(key.type.size() < 30 ? key.type : "");
    names_[option] = shown;
  }
}

std::vector<std::pair<std::string, std::string>> KeyFlags::given(Options& options) const {
  std::vector<std::pair<std::string, std::string>> all;
  auto pair = pairs_.begin();
  for (const CLI::Option* option : options.app().parse_order()) {
    if (option == set_) all.emplace_back("--set", *pair++);
    if (const auto at = names_.find(option); at != names_.end())
      all.emplace_back(at->second, values_.at(at->second));
  }
  return all;
}

}  // namespace gantrain
