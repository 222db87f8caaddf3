// SPDX-License-Identifier: Apache-2.0
#include "command/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "command/cli.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

// An option whose text is no value yet.
struct Options::Text {
  std::string flag;  // its first name
  std::string text;
  const CLI::Option* option;
  std::function<void(const std::string& flag, const std::string& text)> read;
};

namespace {

template <class T>
void check_range(CLI::Option* option, const Check& check) {
  if (std::isfinite(check.min) && std::isfinite(check.max))
    option->check(CLI::Range(static_cast<T>(check.min), static_cast<T>(check.max)));
}

void style(CLI::Option* option, const Said& said) {
  if (*said.group != 0) option->group(said.group);
  if (*said.value != 0) option->type_name(said.value);
  if (*said.one_of != 0) option->check(CLI::IsMember(split(said.one_of, ',')));
  if (said.count > 0) option->expected(said.count);
  if (said.count < 0) option->expected(0, 1);
  if (said.last_wins) option->take_last();
  if (said.one_each) option->allow_extra_args(false);
  if (said.show_default) option->capture_default_str();
}

template <class T>
CLI::Option* add_to(CLI::App& app, const OptionLine& line, T& member) {
  CLI::Option* option = app.add_option(line.names, member, line.help);
  style(option, line.said);
  return option;
}

}  // namespace

Options::Options(const std::string& about, const std::string& title)
    : app_(std::make_unique<CLI::App>(about, title)) {
  app_->allow_extras();
}

Options::~Options() = default;

std::string Options::option_names(std::string_view name, const Said& said) {
  if (*said.names != 0) return said.names;
  std::string flag = "--" + std::string(name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

void Options::add_native(const OptionLine& line, bool& member) {
  style(app_->add_flag(line.names, member, line.help), line.said);
}

void Options::add_native(const OptionLine& line, std::string& member) {
  add_to(*app_, line, member);
}

void Options::add_native(const OptionLine& line, std::vector<std::string>& member) {
  add_to(*app_, line, member);
}

void Options::add_native(const OptionLine& line, int64_t& member) {
  check_range<int64_t>(add_to(*app_, line, member), line.check);
}

void Options::add_native(const OptionLine& line, double& member) {
  check_range<double>(add_to(*app_, line, member), line.check);
}

void Options::add_native(const OptionLine& line, std::optional<int64_t>& member) {
  check_range<int64_t>(add_to(*app_, line, member), line.check);
}

void Options::add_text(const OptionLine& line,
                       std::function<void(const std::string& flag, const std::string& text)> read) {
  texts_.push_back(std::make_unique<Text>());
  Text& text = *texts_.back();
  text.flag = split(line.names, ',')[0];
  text.option = add_to(*app_, line, text.text);
  text.read = std::move(read);
}

void Options::add_color() {
  // Taken already where it was given.
  if (app_->get_option_no_throw("--color") == nullptr)
    app_->add_option("--color", color_, kColorHelp)->type_name("WHEN");
}

bool Options::read_arguments(std::vector<std::string> arguments) {
  add_color();
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app_->parse(arguments);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app_->help());
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
  return true;
}

void Options::read_texts() {
  for (const auto& text : texts_) {
    if (text->option->count() > 0) text->read(text->flag, text->text);
  }
}

bool Options::parse(std::vector<std::string> arguments) {
  if (!read_arguments(std::move(arguments))) return false;
  const std::vector<std::string> unknown = app_->remaining();
  if (!unknown.empty()) {
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    if (!starts_with(word, "-"))
      fail(Exit::kUsage, "unexpected argument {}; gantrain --help shows what can be said", word);
    const std::string hint = did_you_mean(word, flag_names());
    fail(Exit::kUsage,
         "unknown flag {}{}",
         word,
         hint.empty() ? "; gantrain help flags lists all" : hint);
  }
  read_texts();
  return true;
}

bool Options::parse_known(std::vector<std::string> arguments, std::vector<std::string>& unknown) {
  if (!read_arguments(std::move(arguments))) return false;
  unknown = app_->remaining();
  read_texts();
  return true;
}

std::vector<std::string> Options::flag_names() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

bool Options::given(const std::string& name) const { return app_->count(name) > 0; }

std::vector<FlagDescription> Options::describe() {
  add_color();
  std::vector<FlagDescription> flags;
  for (const CLI::Option* option : app_->get_options()) {
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

Verb verb_of_parts(const std::string& name,
                   const std::string& line,
                   const std::vector<Verb>& parts) {
  const auto run = [=](const std::vector<std::string>& arguments) {
    const std::string what = arguments.empty() ? "--help" : arguments.front();
    std::vector<std::string> names;
    for (const Verb& part : parts) {
      if (what == part.name) return part.run({arguments.begin() + 1, arguments.end()});
      names.push_back(part.name);
    }
    if (what == "--help" || what == "-h") {
      fmt::print("gantrain {} WHAT\n\n", name);
      for (const Verb& part : parts) fmt::print("  {:<12} {}\n", part.name, part.about);
      return 0;
    }
    const std::string hint = did_you_mean(what, names);
    fail(Exit::kUsage,
         "gantrain {} {}{}",
         name,
         what,
         hint.empty() ? ": there is " + join(names, ", ") : hint);
  };
  return {name, line, nullptr, run, parts};
}

std::vector<VerbDescription> describe_verbs(const std::vector<Verb>& verbs) {
  std::vector<VerbDescription> all;
  for (const Verb& verb : verbs) {
    if (verb.parts.empty()) {
      all.push_back(verb.describe());
      all.back().name = verb.name;
    }
    for (const Verb& part : verb.parts) {
      all.push_back(part.describe());
      all.back().name = verb.name + " " + part.name;
    }
  }
  return all;
}

}  // namespace gantrain
