// SPDX-License-Identifier: Apache-2.0
#include "verb_description.h"

#include <CLI/CLI.hpp>

namespace gantrain {

std::vector<FlagDescription> describe_flags(const CLI::App& app) {
  std::vector<FlagDescription> flags;
  for (const CLI::Option* option : app.get_options()) {
    FlagDescription flag;
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    if (option->get_positional()) flag.argument = option->get_name(/*positional=*/true);
    flag.help = option->get_description();
    if (option->get_expected_min() > 0) flag.value = option->get_type_name();
    if (option->get_expected_min() > 0 && flag.value.empty()) flag.value = "VALUE";
    flag.group = option->get_group() == "Options" ? "" : option->get_group();
    flags.push_back(flag);
  }
  return flags;
}

VerbDescription describe(const Verb& verb) {
  if (verb.parts != nullptr) return {verb.name, verb.about, {}};
  try {
    verb.run({kDescribeFlag});
  } catch (const FlagsDescribed& described) {
    VerbDescription description = described.description;
    description.name = verb.name;
    return description;
  }
  return {verb.name, verb.about, {}};
}

std::vector<VerbDescription> describe_verbs() {
  std::vector<VerbDescription> all;
  for (const Verb& verb : verbs()) {
    if (verb.parts == nullptr) {
      all.push_back(describe(verb));
      continue;
    }
    for (const Verb& part : verb.parts()) {
      all.push_back(describe(part));
      all.back().name = std::string(verb.name) + " " + part.name;
    }
  }
  return all;
}

}  // namespace gantrain
