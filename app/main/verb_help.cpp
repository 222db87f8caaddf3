// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <map>
#include <stdexcept>

#include "command/flags.h"
#include "config/config.h"
#include "config/resolve.h"
#include "main/verbs.h"
#include "metrics/metric_table.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

using Words = std::vector<std::string>;

constexpr size_t kWidth = 100;  // columns of a line
constexpr size_t kIndent = 26;  // where the second column of a table begins

// A row of a table: the term, and the text beside it in lines that are not too long.
std::string row(const std::string& term, const std::string& text) {
  std::string out = "  " + term, line;
  const auto put = [&] {
    const size_t at = out.size() - (out.rfind('\n') + 1);  // npos + 1 is 0
    if (at + 1 > kIndent) out += "\n" + std::string(kIndent, ' ');
    if (at + 1 <= kIndent) out += std::string(kIndent - at, ' ');
    out += line;
    line.clear();
  };
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && kIndent + line.size() + 1 + word.size() > kWidth) put();
    line += (line.empty() ? "" : " ") + word;
  }
  put();
  return out + "\n";
}

std::string rows_of(const std::string& table) {
  std::string out;
  for (const Explained& one : explained(table)) out += row(one.name, one.about);
  return out;
}

// The key of this path, of the first recipe that has it.
std::string key_row(const std::string& term, const std::string& path) {
  for (const RecipeFacts& recipe : recipe_facts()) {
    for (const Key& key : full_schema(recipe.name)) {
      if (key.path == path) return row(term, fmt::format("{} [{}]", key.help, key.allowed()));
    }
  }
  throw std::logic_error("help names the key " + path + ", which there is not");
}

// `verb` is "train", "data pack"; `word` a flag of it, or a key.
std::string flag_row(const VerbDescription& verb, const std::string& word) {
  if (!starts_with(word, "-")) return key_row(word, word);
  if (verb.name == "train") {
    if (const std::string key = key_of_flag(word); !key.empty()) return key_row(word, key);
  }
  for (const FlagDescription& flag : verb.flags) {
    if (contains(flag.names, word)) return row(word, flag.help);
  }
  throw std::logic_error(fmt::format("help names {} of {}, which there is not", word, verb.name));
}

std::string metric_rows() {
  std::string out;
  for (const MetricRow& metric : metric_table())
    out += row(metric.name, metric.help + std::string(metric.network_mark()));
  return out + row("*", "needs --detector FILE") +
         row("+", "needs --lite0 FILE, in training also called --features: gantrain features");
}

// The table that a line "@NAME WORD..." stands for. The parts of "data-pack" are words here.
std::string table(const Words& words) {
  const std::string name = join(split(words[0], '-'), " ");
  std::string out;
  if (name == "exit") {
    out = rows_of("exit_codes");
  } else if (name == "environment") {
    out = rows_of("environment");
  } else if (name == "presets") {
    for (const std::string& preset : preset_names()) out += row(preset, preset_about(preset));
  } else if (name == "metrics" && words.size() == 1) {
    out = metric_rows();
  } else {
    for (const VerbDescription& verb : describe_verbs(verbs())) {
      if (verb.name != name) continue;
      for (size_t i = 1; i < words.size(); ++i) out += flag_row(verb, words[i]);
    }
    if (out.empty()) throw std::logic_error("help names a table " + name + ", which there is not");
  }
  return out;
}

// A line of a text. A line that is a command, "  gantrain ...", can be run as it is shown.
std::string as_started(const std::string& line) {
  constexpr std::string_view kCommand = "  gantrain ";
  return starts_with(line, kCommand)
             ? fmt::format("  {} {}", program(), line.substr(kCommand.size()))
             : line;
}

// The text of a topic that has one, with its tables, in lines of up to 100 columns. Throws
// std::logic_error where a table names what the program does not have.
std::string topic_text(const std::string& topic) {
  std::string out;
  for (const std::string& line : split(trim(help_files().at(topic + ".txt")), '\n'))
    out += starts_with(line, "@") ? table(split(line.substr(1), ' ')) : as_started(line) + "\n";
  return out;
}

// The name of a verb's page: "gantrain-data-pack".
std::string page_name(const VerbDescription& verb) {
  return "gantrain-" + join(split(verb.name, ' '), "-");
}

// Text as roff shows it: no character is a command, hyphens can be searched for and copied.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\n') {
      out += "\n.br\n";
    } else {
      if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
      out += c;
    }
  }
  return out;
}

std::string heading(const std::string& name, const std::string& about) {
  return fmt::format(".TH {} 1 \"\" \"gantrain {}\" \"gantrain\"\n.SH NAME\n{} \\- {}\n",
                     roff(name),
                     roff(kVersion),
                     roff(name),
                     roff(about));
}

std::string item(const std::string& term, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", term, roff(text));
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }

std::string flag_term(const FlagDescription& flag) {
  std::vector<std::string> names;
  if (!flag.argument.empty()) names.push_back("\\fI" + roff(flag.argument) + "\\fR");
  for (const std::string& name : flag.names) names.push_back(bold(name));
  std::string term = join(names, ", ");
  if (!flag.value.empty() && !flag.names.empty()) term += " \\fI" + roff(flag.value) + "\\fR";
  return term;
}

// The flags under the headings that --help has.
std::string options(const VerbDescription& verb) {
  std::string out, group;
  for (const FlagDescription& flag : verb.flags) {
    if (out.empty()) out += ".SH OPTIONS\n";
    if (flag.group != group) out += ".SS " + roff(flag.group) + "\n";
    group = flag.group;
    out += item(flag_term(flag), flag.help);
  }
  return out;
}

// A section of what has a name and is about something.
template <class Rows>
std::string section(const std::string& title, const Rows& rows, const std::string& before = "") {
  std::string out = ".SH " + title + "\n";
  for (const auto& row : rows) out += item(bold(before + row.name), row.about);
  return out;
}

std::string exit_status() { return section("EXIT STATUS", explained("exit_codes")); }

std::string main_page() {
  std::string flags;
  std::vector<std::string> pages;
  for (const VerbDescription& verb : describe_verbs(verbs())) {
    pages.push_back(bold(page_name(verb)) + "(1)");
    if (verb.name == "train") flags = options(verb);
  }
  return fill_template(help_files().at("gantrain.1"),
                       {{"head", heading("gantrain", "train GANs on one or many devices")},
                        {"commands", section("COMMANDS", verbs())},
                        {"options", flags},
                        {"topics", section("TOPICS", explained("topics"), "gantrain help ")},
                        {"environment", section("ENVIRONMENT", explained("environment"))},
                        {"exit", exit_status()},
                        {"pages", join(pages, ",\n")}});
}

std::string verb_page(const VerbDescription& verb) {
  std::string about = verb.about;  // without the full stop, which NAME does not have
  if (ends_with(about, ".")) about.pop_back();
  std::string out = heading(page_name(verb), about.substr(0, about.find(". ")));
  out += fmt::format(".SH SYNOPSIS\n.B gantrain {}\n[\\fIoptions\\fR]", roff(verb.name));
  for (const FlagDescription& flag : verb.flags) {
    if (!flag.argument.empty()) out += " [\\fI" + roff(flag.argument) + "\\fR]";
  }
  out += "\n.SH DESCRIPTION\n" + roff(verb.about) + "\n" + options(verb) + exit_status();
  return out + ".SH SEE ALSO\n\\fBgantrain\\fR(1)\n";
}

// The manual page gantrain(1), or gantrain-VERB(1) where a verb is named ("data pack" is
// gantrain-data-pack), in the man macros of roff. It is made of what the verbs declare, as --help
// is. Throws UserError(kUsage) for an unknown verb.
std::string man_page(const std::string& verb) {
  if (verb.empty() || verb == "gantrain") return main_page();
  std::vector<std::string> names;
  for (const VerbDescription& known : describe_verbs(verbs())) {
    if (known.name == verb || page_name(known) == verb) return verb_page(known);
    names.push_back(known.name);
  }
  const std::string hint = did_you_mean(verb, names);
  fail(Exit::kUsage,
       "--man {}: no such command{}",
       verb,
       hint.empty() ? "; there is " + join(names, ", ") : hint);
}

void write(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) fail(Exit::kDisk, "{}: {}", path.parent_path().string(), error.message());
  write_file(path, text);
}

// Writes the completion scripts of bash, zsh and fish and the manual pages of all commands under
// PREFIX/share, where shells and man look for PREFIX=~/.local and PREFIX=/usr/local. Throws
// UserError(kDisk) with the path that cannot be written.
void install_help(const fs::path& prefix) {
  const fs::path share = prefix / "share";
  write(share / "bash-completion/completions/gantrain", completion_script("bash"));
  write(share / "zsh/site-functions/_gantrain", completion_script("zsh"));
  write(share / "fish/vendor_completions.d/gantrain.fish", completion_script("fish"));
  write(share / "man/man1/gantrain.1", man_page(""));
  for (const VerbDescription& verb : describe_verbs(verbs()))
    write(share / "man/man1" / (page_name(verb) + ".1"), man_page(verb.name));
}

void print_exit_codes() {
  Json rows = Json::array();
  for (const Explained& exit : explained("exit_codes"))
    rows.push_back({{"code", exit.name}, {"meaning", exit.about}});
  fmt::print("{}\n", rows.dump());
}

// The flags of `train` that set no key: --smoke, --dry-run, -q.
void add_other_flags(Json& rows) {
  std::vector<std::string> known;
  for (const Json& row : rows) {
    const auto names = row["flags"].get<std::vector<std::string>>();
    known.insert(known.end(), names.begin(), names.end());
  }
  for (const VerbDescription& verb : describe_verbs(verbs())) {
    if (verb.name != "train") continue;
    for (const FlagDescription& flag : verb.flags) {
      if (flag.names.empty() || contains(known, flag.names.front())) continue;
      rows.push_back(
          {{"flags", flag.names},
           {"key", ""},
           {"help", flag.help},
           {"allowed", flag.value.empty() ? "on" : flag.value.substr(0, flag.value.find(':'))}});
    }
  }
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
  add_other_flags(rows);
  if (json) {
    fmt::print("{}\n", rows.dump());
    return;
  }
  fmt::print("Flags of training and the keys that they set; --set key=value sets any key.\n\n");
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

// Keys that the same recipes have stand together under these recipes' names. A preset stands for
// its recipe.
void print_keys(const std::string& named, bool json) {
  const std::vector<std::string> presets = preset_names();
  const bool preset = contains(presets, named);
  const std::string only = preset ? preset_recipe(named) : named;
  if (!only.empty()) find_recipe_facts(only);  // refuses an unknown one
  const Json rows = key_rows(only);
  if (json) {
    fmt::print("{}\n", rows.dump());
    return;
  }
  std::vector<std::vector<std::string>> groups;
  for (const Json& row : rows) {
    const auto recipes = row["recipes"].get<std::vector<std::string>>();
    if (!contains(groups, recipes)) groups.push_back(recipes);
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

void print_topics(bool json) {
  if (json) {
    Json topics = Json::array(), commands = Json::array();
    for (const Explained& topic : explained("topics"))
      topics.push_back({{"name", topic.name}, {"about", topic.about}});
    for (const Verb& verb : verbs())
      commands.push_back({{"name", verb.name}, {"about", verb.about}, {"computes", verb.computes}});
    fmt::print("{}\n", Json{{"topics", topics}, {"commands", commands}}.dump());
    return;
  }
  fmt::print("{} help TOPIC:\n", program());
  for (const Explained& topic : explained("topics"))
    fmt::print("  {:<12} {}\n", topic.name, topic.about);
  fmt::print("\n{} COMMAND --help shows a command's flags.\n", program());
}

// Prints a topic; false if there is none of that name.
bool print_topic(const std::string& name, const std::string& recipe, bool json) {
  for (const Explained& topic : explained("topics")) {
    if (name != topic.name) continue;
    if (name == "flags") {
      print_flags(json);
    } else if (name == "keys") {
      print_keys(recipe, json);
    } else if (name == "exit" && json) {
      print_exit_codes();
    } else {
      const std::string text = topic_text(name);
      fmt::print("{}", json ? Json{{"text", text}}.dump() + "\n" : text);
    }
    return true;
  }
  return false;
}

[[noreturn]] void fail_topic(const std::string& name) {
  std::vector<std::string> names;
  for (const Explained& topic : explained("topics")) names.push_back(topic.name);
  for (const Verb& verb : verbs()) {
    const bool known = contains(names, verb.name);
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
  field("recipe", o.recipe, said("recipe"), "keys: those of this recipe, or of a preset's, alone");
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
    print_topics(request.json);
  } else if (!print_topic(request.topic, request.recipe, request.json)) {
    for (const Verb& verb : verbs()) {
      if (request.topic == verb.name && request.topic != "help") return verb.run({"--help"});
    }
    fail_topic(request.topic);
  }
  return 0;
}

}  // namespace

std::vector<Explained> explained(const std::string& table) {
  std::vector<Explained> all;
  for (const auto& row : table_rows(help_files().at(table + ".txt"), 2))
    all.push_back({row[0], row[1]});
  return all;
}

Verb help_verb() {
  Verb verb = verb_of(
      "help",
      "by topic: start, data, ddp, gpus, slurm, amp, resume, metrics, flags, keys and others",
      "Explains a topic; without one it lists the topics.",
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
