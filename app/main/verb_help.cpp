// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <map>

#include "command/flags.h"
#include "config/full_schema.h"
#include "main/help.h"
#include "main/verbs.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

// Writes the completion scripts of bash, zsh and fish and the manual pages of all commands under
// PREFIX/share, where shells and man look for PREFIX=~/.local and PREFIX=/usr/local. Throws
// UserError(kDisk) with the path that cannot be written.
void install_help(const std::filesystem::path& prefix);

namespace {

void write(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) fail(Exit::kDisk, "{}: {}", path.parent_path().string(), error.message());
  write_file(path, text);
}

}  // namespace

void install_help(const fs::path& prefix) {
  const fs::path share = prefix / "share";
  write(share / "bash-completion/completions/gantrain", completion_script("bash"));
  write(share / "zsh/site-functions/_gantrain", completion_script("zsh"));
  write(share / "fish/vendor_completions.d/gantrain.fish", completion_script("fish"));
  write(share / "man/man1/gantrain.1", man_page(""));
  for (const VerbDescription& verb : describe_verbs(verbs()))
    write(share / "man/man1" / (page_name(verb) + ".1"), man_page(verb.name));
}

namespace {

void print_exit_codes() {
  Json rows = Json::array();
  for (const ExitCode& exit : kExitCodes)
    rows.push_back({{"code", exit.code}, {"meaning", exit.meaning}});
  fmt::print("{}\n", rows.dump());
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

// Each key once, with the recipes that have it; or the keys of one recipe alone.
Json key_rows(const std::string& only) {
  Json rows = Json::array();
  std::map<std::string, size_t> row_of;
  for (const RecipeFacts& recipe : recipe_facts()) {
    if (!only.empty() && recipe.name != only) continue;
    for (const Key& key : full_schema(recipe.name)) {
      const std::string same =
          fmt::format("{} {} {} {}", key.path, text_of(key.value), key.help, key.allowed());
      const auto [at, fresh] = row_of.emplace(same, rows.size());
      if (fresh) {
        rows.push_back({{"key", key.path},
                        {"default", key.value},
                        {"help", key.help},
                        {"allowed", key.allowed()},
                        {"recipes", Json::array()}});
      }
      rows[at->second]["recipes"].push_back(recipe.name);
    }
  }
  return rows;
}

// Keys that the same recipes have stand together under these recipes' names.
void print_keys(const std::string& only, bool json) {
  if (!only.empty()) find_recipe_facts(only);  // refuses an unknown one
  const Json rows = key_rows(only);
  if (json) {
    fmt::print("{}\n", rows.dump());
    return;
  }
  std::vector<std::vector<std::string>> groups;
  for (const Json& row : rows) {
    const auto recipes = row["recipes"].get<std::vector<std::string>>();
    if (std::find(groups.begin(), groups.end(), recipes) == groups.end()) groups.push_back(recipes);
  }
  for (const auto& group : groups) {
    if (only.empty()) {
      const bool every = group.size() == recipe_facts().size();
      const std::string names = every ? "every recipe" : "recipe " + join(group, ", ");
      fmt::print("{}Keys of {}:\n", group == groups.front() ? "" : "\n", names);
    }
    for (const Json& row : rows) {
      if (row["recipes"] != group) continue;
      fmt::print("{:<32} {:<12} {} [{}]\n",
                 text_of(row["key"]),
                 text_of(row["default"]),
                 text_of(row["help"]),
                 text_of(row["allowed"]));
    }
  }
}

}  // namespace

namespace {

void print_topics() {
  fmt::print("gantrain help TOPIC:\n");
  for (const HelpTopic& topic : help_topics()) fmt::print("  {:<12} {}\n", topic.name, topic.about);
  fmt::print("\ngantrain COMMAND --help shows a command's flags.\n");
}

// Prints a topic; false if there is none of that name.
bool print_topic(const std::string& name, const std::string& recipe, bool json) {
  for (const HelpTopic& topic : help_topics()) {
    if (name != topic.name) continue;
    if (name == "flags") {
      print_flags(json);
    } else if (name == "keys") {
      print_keys(recipe, json);
    } else if (name == "exit" && json) {
      print_exit_codes();
    } else {
      const std::string text = topic_text(topic);
      fmt::print("{}", json ? Json{{"text", text}}.dump() + "\n" : text);
    }
    return true;
  }
  return false;
}

[[noreturn]] void fail_topic(const std::string& name) {
  std::vector<std::string> names;
  for (const HelpTopic& topic : help_topics()) names.emplace_back(topic.name);
  for (const Verb& verb : verbs()) {
    const bool known = std::find(names.begin(), names.end(), verb.name) != names.end();
    if (!known && std::string(verb.name) != "help") names.emplace_back(verb.name);
  }
  const std::string hint = did_you_mean(name, names);
  fail(Exit::kUsage,
       "no help on {}{}",
       name,
       hint.empty() ? "; there is " + join(names, ", ") : hint);
}

struct HelpRequest {
  std::string topic, recipe;
  bool json = false;
  std::string completion, man, install;
};

template <class Field>
void fields(HelpRequest& o, Field&& field) {
  field("topic", o.topic, said("topic"), "one of gantrain help, or a command");
  field("recipe", o.recipe, said("recipe"), "keys: those of this recipe alone");
  field("json", o.json, "one JSON line");
  field("completion", o.completion, "the completion script of bash, zsh or fish");
  field("man",
        o.man,
        Said{.names = "--man", .value = "[COMMAND]", .count = -1},
        "the manual page of a command, else of gantrain");
  field("install",
        o.install,
        "writes completions and manual pages under this folder's share: ~/.local");
}

int run_help(HelpRequest& request, Options& options) {
  if (!request.recipe.empty() && request.topic != "keys")
    fail(Exit::kUsage, "unexpected argument {}; a recipe follows keys alone", request.recipe);
  if (!request.completion.empty()) {
    fmt::print("{}", completion_script(request.completion));
  } else if (options.given("--man")) {
    fmt::print("{}", man_page(request.man));
  } else if (!request.install.empty()) {
    install_help(request.install);
  } else if (request.topic.empty()) {
    print_topics();
  } else if (!print_topic(request.topic, request.recipe, request.json)) {
    for (const Verb& verb : verbs()) {
      if (request.topic == verb.name && request.topic != "help") return verb.run({"--help"});
    }
    fail_topic(request.topic);
  }
  return 0;
}

}  // namespace

Verb help_verb() {
  Verb verb = verb_of("help",
                      "by topic: start, data, ddp, slurm, amp, resume, metrics, exit, flags, keys",
                      "By topic; gantrain help lists them.",
                      run_help);
  verb.run = [run = verb.run](const std::vector<std::string>& arguments) {
    // These words are another command's, so that nothing may be read into them.
    if (!arguments.empty() && arguments[0] == "--complete")
      return print_completion({arguments.begin() + 1, arguments.end()});
    return run(arguments);
  };
  return verb;
}

}  // namespace gantrain
