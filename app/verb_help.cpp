// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <map>

#include "amp_help.h"
#include "cli.h"
#include "flags.h"
#include "schema.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

struct ExitCode {
  const char* code;
  const char* meaning;
};

constexpr ExitCode kExitCodes[] = {
    {"0", "done"},
    {"1", "internal error"},
    {"2", "usage or configuration"},
    {"3", "input that cannot be read (data, models, states)"},
    {"4", "environment (no GPU, rendezvous, port)"},
    {"5", "diverged"},
    {"6", "a rank died or hung (its reason is printed last)"},
    {"7", "out of memory"},
    {"8", "disk full or not writable"},
    {"75", "stopped early, resumable (signal, time limit, STOP)"},
    {"130", "Ctrl-C, saved, resumable"},
    {"128+n", "killed by signal n"},
};

void print_exit_codes(bool json) {
  Json rows = Json::array();
  for (const ExitCode& exit : kExitCodes) {
    rows.push_back({{"code", exit.code}, {"meaning", exit.meaning}});
    if (!json) fmt::print("{:<6} {}\n", exit.code, exit.meaning);
  }
  if (json) fmt::print("{}\n", rows.dump());
}

void print_flags(bool json) {
  const Config config(full_schema(recipe_facts().front().name));
  Json rows = Json::array();
  for (const Flag& flag : flag_table()) {
    const Key& key = config.key(flag.key);
    rows.push_back({{"flags", split(flag.names, ',')},
                    {"key", key.path},
                    {"help", key.help},
                    {"allowed", key.allowed()}});
  }
  rows.push_back({{"flags", {"--preset"}},
                  {"key", "preset"},
                  {"help", "named starting point"},
                  {"allowed", "a name of gantrain presets list"}});
  rows.push_back({{"flags", {"--config", "--config-file"}},
                  {"key", ""},
                  {"help", "JSON with comments; config.json of a run, too"},
                  {"allowed", "FILE"}});
  rows.push_back({{"flags", {"--set", "--cfg-options"}},
                  {"key", ""},
                  {"help", "any key; of two that set the same one, flags too, the later wins"},
                  {"allowed", "key=value"}});
  if (json) {
    fmt::print("{}\n", rows.dump());
    return;
  }
  fmt::print("Every flag is an alias of a key; --set key=value reaches any key.\n\n");
  for (const Json& row : rows) {
    fmt::print("{:<44} {:<22} {} [{}]\n",
               join(row["flags"].get<std::vector<std::string>>(), ", "),
               text_of(row["key"]),
               text_of(row["help"]),
               text_of(row["allowed"]));
  }
}

// Each key once, with the recipes that have it.
void print_keys(bool json) {
  Json rows = Json::array();
  std::map<std::string, size_t> row_of;
  for (const RecipeFacts& recipe : recipe_facts()) {
    for (const Key& key : full_schema(recipe.name)) {
      const std::string line = fmt::format(
          "{:<32} {:<12} {} [{}]", key.path, text_of(key.value), key.help, key.allowed());
      const auto [at, fresh] = row_of.emplace(line, rows.size());
      if (fresh) {
        if (!json) fmt::print("{}\n", line);
        rows.push_back({{"key", key.path},
                        {"default", key.value},
                        {"help", key.help},
                        {"allowed", key.allowed()},
                        {"recipes", Json::array()}});
      }
      rows[at->second]["recipes"].push_back(recipe.name);
    }
  }
  if (json) fmt::print("{}\n", rows.dump());
}

}  // namespace

int help_verb(const std::vector<std::string>& arguments) {
  CLI::App app("flags | keys | exit | amp | COMMAND", "gantrain help");
  std::string topic;
  bool json = false;
  app.add_option("topic", topic, "flags | keys | exit | amp | COMMAND");
  app.add_flag("--json", json, "one JSON line");
  if (!parse(app, arguments)) return 0;
  if (topic == "flags") {
    print_flags(json);
  } else if (topic == "keys") {
    print_keys(json);
  } else if (topic == "exit") {
    print_exit_codes(json);
  } else if (topic == "amp") {
    fmt::print("{}", json ? Json{{"text", kAmpHelp}}.dump() + "\n" : kAmpHelp);
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
