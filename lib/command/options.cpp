// SPDX-License-Identifier: Apache-2.0
#include "command/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "command/flags.h"
#include "launch/where/environment.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr const char* kFlag = "--color";

void obey(const std::string& when) {
  if (!Value<ColorWhen>::from_text(when))
    fail(Exit::kUsage, "{} {}: allowed: auto, always, never", kFlag, when);
  ::setenv(kColorVariable, when.c_str(), 1);
}

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

template <class T>
void add_one(CLI::App& app, const OptionLine& line, T& member) {
  if constexpr (std::same_as<T, bool>) {
    style(app.add_flag(line.names, member, line.help), line.said);
  } else {
    CLI::Option* option = add_to(app, line, member);
    const Check& check = line.check;
    using Number = std::conditional_t<std::same_as<T, double>, double, int64_t>;
    if constexpr (!std::same_as<T, std::string> && !std::same_as<T, std::vector<std::string>>) {
      if (std::isfinite(check.min) && std::isfinite(check.max))
        option->check(CLI::Range(static_cast<Number>(check.min), static_cast<Number>(check.max)));
    }
  }
}

}  // namespace

void take_color(std::vector<std::string>& arguments) {
  // The words after --complete are another command's, and most of launch another program's.
  if (arguments.size() > 1 && arguments[1] == "--complete") return;
  if (!arguments.empty() && arguments[0] == "launch") return;
  for (size_t i = 0; i < arguments.size();) {
    const std::string word = arguments[i];
    const auto here = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    if (word == "--no-color") {
      obey("never");
      arguments.erase(here);
      continue;
    }
    const bool alone = word == kFlag;
    if (!alone && !starts_with(word, std::string(kFlag) + "=")) {
      ++i;
      continue;
    }
    if (alone && i + 1 == arguments.size())
      fail(Exit::kUsage, "{} needs a value: auto, always or never", kFlag);
    obey(alone ? arguments[i + 1] : word.substr(word.find('=') + 1));
    arguments.erase(here, here + (alone ? 2 : 1));
  }
}

void check_text(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) check_text(argument, "argument");
  for (const auto& [name, value] : current_environment()) {
    if (starts_with(name, "GANTRAIN_")) check_text(value, "environment " + name + " =");
  }
}

std::string command_line() {
  std::string raw = read_file("/proc/self/cmdline");
  if (!raw.empty()) raw.pop_back();
  std::vector<std::string> words = split(raw, '\0');
  for (std::string& word : words) word = shell_quote(word);
  return join(words, " ");
}

void check_word(const std::string& flag,
                const std::string& word,
                const std::vector<std::string>& allowed) {
  if (contains(allowed, word)) return;
  fail(Exit::kUsage,
       "{} {}: allowed: {}{}",
       flag,
       word,
       join(allowed, ", "),
       did_you_mean(word, allowed));
}

int64_t parse_integer(const std::string& flag, const std::string& text, const Check& allowed) {
  const auto value = parse_int(text);
  if (!value || !in_range(allowed, static_cast<double>(*value)))
    fail(Exit::kUsage, "{} {}: allowed: {}", flag, text, allowed.words);
  return *value;
}

double parse_number(const std::string& flag, const std::string& text, const Check& allowed) {
  const auto value = parse_double(text);
  if (!value || !std::isfinite(*value) || !in_range(allowed, *value))
    fail(Exit::kUsage, "{} {}: allowed: {}", flag, text, allowed.words);
  return *value;
}

void parse_said(const std::string& flag, const std::string& text, Size& size) {
  constexpr int64_t kLargestSide = 4096;
  const std::optional<Size> parsed = parse_size(text);
  if (!parsed || parsed->shorter() < 4 || parsed->longer() > kLargestSide) {
    fail(Exit::kUsage,
         "{} {}: pixels a side, or width x height, from 4 to {}: 256, 256x128",
         flag,
         text,
         kLargestSide);
  }
  size = *parsed;
}

void check_film(const std::string& flag, const std::string& file) {
  const bool mp4 = ends_with(lower(file), ".mp4");
  if (!mp4 && !ends_with(lower(file), ".webp"))
    fail(Exit::kUsage, "{} {}: give a name ending in .webp or .mp4", flag, file);
  if (mp4 && find_program("ffmpeg").empty()) {
    fail(Exit::kEnvironment,
         "{} {}: MP4 needs ffmpeg, which is not on PATH; {} {}.webp needs nothing",
         flag,
         file,
         flag,
         file.substr(0, file.size() - 4));
  }
  check_folder_of(flag, file);
}

void check_folder_of(const std::string& flag, const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    fail(Exit::kDisk, "{} {}: there is no folder {}", flag, file, folder.string());
  if (std::filesystem::is_directory(file, error))
    fail(Exit::kUsage, "{} {}: a folder; name a file", flag, file);
  const std::string there = folder.empty() ? "." : folder.string();
  if (!is_written_in_place(file) && ::access(there.c_str(), W_OK | X_OK) != 0)
    fail(Exit::kDisk, "{} {}: {} cannot be written: {}", flag, file, there, errno_text());
}

// An option whose text is no value yet.
struct Options::Text {
  std::string flag;  // its first name
  std::string text;
  const CLI::Option* option;
  std::function<void(const std::string& flag, const std::string& text)> read;
};

Options::Options(const std::string& about, const std::string& title)
    : app_(std::make_unique<CLI::App>(about, title)) {
  app_->allow_extras();
}

Options::~Options() = default;

std::string Options::option_names(std::string_view name, const Said& said) {
  if (*said.names != 0) return said.names;
  std::string flag = "--" + std::string(name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

void Options::add_native(const OptionLine& line, Native member) {
  std::visit([&](auto* to) { add_one(*app_, line, *to); }, member);
}

void Options::add_text(const OptionLine& line,
                       std::function<void(const std::string& flag, const std::string& text)> read) {
  texts_.push_back(std::make_unique<Text>());
  Text& text = *texts_.back();
  text.flag = split(line.names, ',')[0];
  text.option = add_to(*app_, line, text.text);
  text.read = std::move(read);
}

void Options::add_common() {
  // Taken already where it was given.
  if (app_->get_option_no_throw("--color") == nullptr)
    app_->add_option("--color", color_, kColorHelp)->type_name("WHEN");
  if (app_->get_option_no_throw("--quiet") == nullptr)
    app_->add_flag("-q,--quiet", quiet_, "warnings and errors only");
}

// CLI11 would take "--seed" for the value of "--run-dir --seed 3".
void Options::refuse_flags_as_values(const std::vector<std::string>& arguments) const {
  for (size_t i = 0; i + 1 < arguments.size() && arguments[i] != "--"; ++i) {
    const CLI::Option* option = app_->get_option_no_throw(arguments[i]);
    const std::string& next = arguments[i + 1];
    if (option == nullptr || option->get_expected_min() == 0 || !starts_with(next, "--")) continue;
    if (app_->get_option_no_throw(next.substr(0, next.find('='))) != nullptr)
      fail(Exit::kUsage, "{} needs a value, and {} is a flag", arguments[i], next);
  }
}

bool Options::read_arguments(std::vector<std::string> arguments) {
  add_common();
  refuse_flags_as_values(arguments);
  std::ranges::reverse(arguments);  // CLI11 takes them from the back
  try {
    app_->parse(arguments);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app_->help());
    return false;
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string text = e.what();  // "--force: 1 required TEXT missing"
    const std::string flag = text.substr(0, text.find(':'));
    if (text.find("At Most 1") != std::string::npos)
      fail(Exit::kUsage, "{}: may be given once", flag);
    fail(Exit::kUsage, "{} needs a value; {} help flags says which", flag, program());
  } catch (const CLI::ParseError& e) {
    std::string reason = e.what();
    std::ranges::replace(reason, '\n', ' ');
    fail(Exit::kUsage, "{}", reason);
  }
  if (quiet_) {
    ::setenv(kQuietVariable, "1", 1);  // the trainer library has a log of its own
    set_log({Level::kWarning, Level::kInfo, {}, ""});
  }
  return true;
}

bool Options::parse(std::vector<std::string> arguments, std::vector<std::string>* unknown) {
  if (!read_arguments(std::move(arguments))) return false;
  const std::vector<std::string> rest = app_->remaining();
  if (unknown != nullptr) {
    *unknown = rest;
  } else if (!rest.empty()) {
    refuse(rest.front());
  }
  for (const auto& text : texts_) {
    if (text->option->count() > 0) text->read(text->flag, text->text);
  }
  return true;
}

void Options::refuse(const std::string& argument) const {
  const std::string word = argument.substr(0, argument.find('='));
  // "gantrain data pack" is started by `program() data pack`; the training's verb may be left out.
  const std::string title = app_->get_name(), verb = title.substr(title.find(' ') + 1);
  const bool training = verb == "[train]";
  const std::string help = fmt::format("{}{} --help", program(), training ? "" : " " + verb);
  if (!starts_with(word, "-")) {
    const bool is_address = argument.find("://") != std::string::npos;
    fail(Exit::kUsage,
         "unexpected argument {}; {} shows what can be said",
         is_address ? argument : word,
         help);
  }
  const std::vector<std::string> of_training = training_flag_names();
  const bool known_there = word == "-v" || contains(of_training, word);
  if (!training && known_there)
    fail(Exit::kUsage,
         "{} is a flag of the training, not of {}; {} shows its flags",
         word,
         verb,
         help);
  const std::string hint = did_you_mean(word, flag_names());
  fail(Exit::kUsage,
       "unknown flag {}{}",
       word,
       !hint.empty() ? hint
       : training    ? fmt::format("; {} help flags lists all", program())
                     : fmt::format("; {} lists all", help));
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
  add_common();
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
