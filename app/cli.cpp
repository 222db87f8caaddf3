// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "config/value.h"
#include "launch/environment.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table = {
      {"train", "train a GAN on one to many devices (the verb may be left out)", train_verb},
      {"generate", "pictures from a trained generator", generate_verb},
      {"import", "a model file of foreign weights (network pickles)", import_verb},
      {"interpolate", "an animation from seed to seed: WebP, MP4 or frames", interpolate_verb},
      {"presets", "list, show and compare the named starting points", presets_verb},
      {"doctor", "what this machine and build can do; --ddp-table", doctor_verb},
      {"bench", "what this machine takes for what: gantrain bench ddp", bench_verb},
      {"help",
       "flags, keys, exit codes, mixed precision: gantrain help flags|keys|exit|amp",
       help_verb},
  };
  return table;
}

namespace {

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

[[noreturn]] void fail_unknown(const CLI::App& app, const std::string& argument) {
  const std::string word = argument.substr(0, argument.find('='));
  if (!starts_with(word, "-"))
    fail(Exit::kUsage, "unexpected argument {}; gantrain --help shows what can be said", word);
  const std::string hint = did_you_mean(word, flag_names(app));
  fail(Exit::kUsage,
       "unknown flag {}{}",
       word,
       hint.empty() ? "; gantrain help flags lists all" : hint);
}

}  // namespace

bool parse(CLI::App& app, std::vector<std::string> arguments) {
  app.allow_extras();
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string text = e.what();  // "--force: 1 required TEXT missing"
    fail(Exit::kUsage,
         "{} needs a value; gantrain help flags says which",
         text.substr(0, text.find(':')));
  } catch (const CLI::ParseError& e) {
    std::string reason = e.what();
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    fail(Exit::kUsage, "{}", reason);
  }
  const std::vector<std::string> extra = app.remaining();
  if (!extra.empty()) fail_unknown(app, extra.front());
  return true;
}

namespace {

void check_text(const std::string& text, const std::string& what) {
  const auto dumped = [&](Json::error_handler_t how) {
    return Json(text).dump(-1, ' ', false, how);
  };
  try {
    dumped(Json::error_handler_t::strict);
  } catch (const Json::type_error&) {
    fail(Exit::kUsage,
         "{} {} is not UTF-8: rename the file, or give it a link with another name",
         what,
         dumped(Json::error_handler_t::replace));
  }
}

}  // namespace

void check_text(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) check_text(argument, "argument");
  for (const auto& [name, value] : current_environment()) {
    if (starts_with(name, "GANTRAIN_")) check_text(value, "environment " + name + " =");
  }
}

std::string command_line() {
  const std::string raw = read_file("/proc/self/cmdline");
  std::string line;
  for (const std::string& word :
       split(std::string_view(raw).substr(0, raw.empty() ? 0 : raw.size() - 1), '\0')) {
    line += (line.empty() ? "" : " ") + shell_quote(word);
  }
  return line;
}

}  // namespace gantrain
