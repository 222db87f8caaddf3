// SPDX-License-Identifier: Apache-2.0
#include "amp_help.h"
#include "cli.h"
#include "flags.h"
#include "schema.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr const char* kExitCodes = R"(0    done
1    internal error
2    usage or configuration
3    input that cannot be read (data, models, states)
4    environment (no GPU, rendezvous, port)
5    diverged
6    a rank died or hung (its reason is printed last)
7    out of memory
8    disk full or not writable
75   stopped early, resumable (signal, time limit, STOP)
130  Ctrl-C, saved, resumable
128+n killed by signal n
)";

void print_flags() {
  fmt::print("Every flag is an alias of a key; --set key=value reaches any key.\n\n");
  const Config config(full_schema(recipe_keys().front().name));
  for (const Flag& flag : flag_table()) {
    const Key& key = config.key(flag.key);
    fmt::print("{:<44} {:<22} {} [{}]\n",
               join(split(flag.names, ','), ", "),
               key.path,
               key.help,
               key.allowed());
  }
  fmt::print("{:<44} {:<22} {}\n", "--preset NAME", "preset", "named starting point");
  fmt::print("{:<44} {:<22} {}\n",
             "--config FILE, --config-file FILE",
             "",
             "JSON with comments; config.json of a run, too");
  fmt::print("{:<44} {:<22} {}\n", "--set key=value, --cfg-options key=value", "", "any key");
}

void print_keys() {
  for (const RecipeKeys& recipe : recipe_keys()) {
    for (const Key& key : full_schema(recipe.name)) {
      fmt::print("{:<32} {:<12} {} [{}]\n", key.path, text_of(key.value), key.help, key.allowed());
    }
  }
}

}  // namespace

int help_verb(const std::vector<std::string>& arguments) {
  const std::string topic = arguments.empty() ? "" : arguments[0];
  if (topic == "flags") {
    print_flags();
  } else if (topic == "keys") {
    print_keys();
  } else if (topic == "exit") {
    fmt::print("{}", kExitCodes);
  } else if (topic == "amp") {
    fmt::print("{}", kAmpHelp);
  } else if (topic.empty()) {
    fmt::print("gantrain help flags | keys | exit | amp, or gantrain COMMAND --help\n");
  } else {
    for (const Verb& verb : verbs()) {
      if (topic == verb.name && topic != "help") return verb.run({"--help"});
    }
    std::vector<std::string> topics = {"flags", "keys", "exit", "amp"};
    for (const Verb& verb : verbs()) {
      if (std::string(verb.name) != "help") topics.emplace_back(verb.name);
    }
    fail(Exit::kUsage, "no help on {}; there is {}", topic, join(topics, ", "));
  }
  return 0;
}

}  // namespace gantrain
