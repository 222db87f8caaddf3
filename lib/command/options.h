// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "config/schema.h"
#include "config/value.h"
#include "util/field.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gantrain {

// Throws UserError(kUsage) where an argument or a GANTRAIN_* variable is not UTF-8: it could not be
// written as JSON, in which configurations travel.
void check_text(const std::vector<std::string>& arguments);

// Returns the whole command line, quoted for a shell, for command.txt and the line that says how to
// resume.
std::string command_line();

constexpr const char* kColorHelp =
    "colours of messages: auto (on a terminal, unless NO_COLOR is set), always or never";

// Takes --color WHEN and --no-color, which every command understands, out of the command line and
// obeys it, in the processes that this one starts, too. Throws UserError(kUsage) for another word
// than auto, always or never.
void take_color(std::vector<std::string>& arguments);

// Throws UserError(kUsage) with the allowed words unless `word` is one of them.
void check_word(const std::string& flag,
                const std::string& word,
                const std::vector<std::string>& allowed);

// Returns the enum value that `word` names; throws as check_word() does.
template <class Enum>
Enum parse_word(const std::string& flag, const std::string& word) {
  const auto known = names(Enum{});
  check_word(flag, word, {known.begin(), known.end()});
  return Value<Enum>::from_text(word).value();
}

// Return the number of a flag. Throw UserError(kUsage) that names the flag, the text and the words
// of `allowed`.
int64_t parse_integer(const std::string& flag, const std::string& text, const Check& allowed);
double parse_number(const std::string& flag, const std::string& text, const Check& allowed);

// Reads pixels a side, or width x height. Throws UserError(kUsage) for others than 4 to 4096.
void parse_said(const std::string& flag, const std::string& text, Size& size);

// Throws UserError(kDisk) if the folder for a new file does not exist or cannot be written to,
// UserError(kUsage) if a folder has the file's name, so that the error comes before the work and
// not after it.
void check_folder_of(const std::string& flag, const std::string& file);

// Checks the name of a new animation: NAME.webp, or NAME.mp4 where ffmpeg is. Throws UserError that
// names the flag.
void check_film(const std::string& flag, const std::string& file);

// One flag or argument of a verb, as --help shows it.
struct FlagDescription {
  std::vector<std::string> names;  // "--seeds", "-o"; none if it is an argument alone
  std::string argument;            // "PATH" if it can stand without a flag, too; else ""
  std::string help;
  std::string value;  // what follows the flag: "TEXT", "INT"; "" for a switch
  std::string group;  // heading in --help; "" for most verbs
};

// One option: what a line of fields() says of a member.
struct OptionLine {
  std::string names;
  Said said;
  Check check;
  std::string help;
};

// Reads a value of a type that CLI11 does not know, by its Value<T> or by a parse_said(flag, text,
// member) beside the type. An empty text leaves an optional empty.
template <class T>
void read_said(const std::string& flag, const std::string& text, const Check& check, T& member) {
  if constexpr (detail::IsOptional<T>::value) {
    const bool automatic = std::string_view(check.words).ends_with("or auto") && text == "auto";
    member.reset();
    if (!text.empty() && !automatic) read_said(flag, text, check, member.emplace());
  } else if constexpr (std::same_as<T, int64_t>) {
    member = parse_integer(flag, text, check);
  } else if constexpr (std::same_as<T, double>) {
    member = parse_number(flag, text, check);
  } else if constexpr (std::is_enum_v<T>) {
    member = parse_word<T>(flag, text);
  } else {
    parse_said(flag, text, member);
  }
}

// The command line of one verb, made of the fields() of its request: every member with a help text
// is an option; a request with more than fields() can say has declare(Options&). Bools are
// switches; strings, lists of them and numbers without Check::words are read by CLI11, all else by
// read_said().
class Options {
 public:
  Options(const std::string& about, const std::string& title);  // "gantrain generate"
  ~Options();

  template <class Request>
  void add(Request& request) {
    if constexpr (requires { request.declare(*this); }) {
      request.declare(*this);
    } else {
      fields(request, Adder{*this});
    }
  }
  // Adds one option by hand.
  template <class T>
  void add(const OptionLine& line, T& member) {
    if constexpr (std::constructible_from<Native, T*>) {
      if (*line.check.words == 0) return add_native(line, &member);
    }
    if constexpr (!std::same_as<T, bool> && !std::same_as<T, std::string> &&
                  !std::same_as<T, std::vector<std::string>>) {
      add_text(line,
               [check = line.check, &member](const std::string& flag, const std::string& text) {
                 read_said(flag, text, check, member);
               });
    }
  }

  // Reads the arguments into the requests. Returns false if --help was asked for and printed.
  // Throws UserError(kUsage) in one line; for an unknown flag it names the nearest ones. For a verb
  // that passes on what it does not know, these words come back in `unknown`, in their order.
  bool parse(std::vector<std::string> arguments, std::vector<std::string>* unknown = nullptr);

  // Whether an option was given: "--model", "MODEL".
  bool given(const std::string& name) const;
  std::vector<FlagDescription> describe();
  std::vector<std::string> flag_names() const;  // the long ones: "--seeds"
  CLI::App& app() { return *app_; }

 private:
  // A member of a type that CLI11 reads.
  using Native = std::variant<bool*,
                              std::string*,
                              std::vector<std::string>*,
                              int64_t*,
                              double*,
                              std::optional<int64_t>*>;

  struct Adder {
    Options& options;

    template <class T, class... Extra>
    void operator()(std::string_view name, T& member, const Extra&... extra) const {
      if constexpr ((std::convertible_to<Extra, std::string_view> || ...)) {
        OptionLine line;
        (take(line, extra), ...);
        line.names = option_names(name, line.said);
        options.add(line, member);
      }
    }
    static void take(OptionLine& line, const Said& said) { line.said = said; }
    static void take(OptionLine& line, const Check& check) { line.check = check; }
    static void take(OptionLine& line, std::string_view help) { line.help = help; }
  };

  void add_common();
  [[noreturn]] void refuse(const std::string& word) const;
  void refuse_flags_as_values(const std::vector<std::string>& arguments) const;
  bool read_arguments(std::vector<std::string> arguments);
  static std::string option_names(std::string_view name, const Said& said);
  void add_native(const OptionLine& line, Native member);
  void add_text(const OptionLine& line,
                std::function<void(const std::string& flag, const std::string& text)> read);

  struct Text;  // of one option, read when all are known
  std::unique_ptr<CLI::App> app_;
  std::vector<std::unique_ptr<Text>> texts_;
  std::string color_;
  bool quiet_ = false;
};

// Returns the arguments of a verb with flags of other programs' scripts replaced by its own, after
// it has said which (verb_habits.txt). Throws UserError(kUsage) with the spelling to type where the
// meaning is another.
std::vector<std::string> in_own_words(const std::string& verb,
                                      const std::vector<std::string>& arguments,
                                      const Options& options);

// What one verb takes, as its request declares it: completion and manual pages are made of this.
struct VerbDescription {
  std::string name;   // "generate", "data pack"
  std::string about;  // what it does, one or more sentences
  std::vector<FlagDescription> flags;
};

// One verb of the program: `gantrain NAME ...`.
struct Verb {
  std::string name;
  std::string about;  // one line for `gantrain --help`
  std::function<VerbDescription()> describe;
  // Runs the verb with the arguments after its name; returns the exit status.
  std::function<int(const std::vector<std::string>& arguments)> run;
  std::vector<Verb> parts = {};  // those that it consists of, as pack of data
  bool computes = false;         // it may load the trainer library, and LibTorch with it
};

// Describes the verb `title` by the options of its Request.
template <class Request>
VerbDescription description_of(const std::string& title, const std::string& about) {
  Request request;
  Options options(about, "gantrain " + title);
  options.add(request);
  return {title, about, options.describe()};
}

// Returns a verb that reads a Request and runs. `title` is its name with that of the verb that it
// is part of, "data pack"; `line` says in one line and `about` in some sentences what it does.
template <class Request>
Verb verb_of(const std::string& title,
             const std::string& line,
             const std::string& about,
             int (*run)(Request& request, Options& options)) {
  const auto describe = [=] { return description_of<Request>(title, about); };
  const auto run_with = [=](const std::vector<std::string>& arguments) {
    Request request;
    Options options(about, "gantrain " + title);
    options.add(request);
    return options.parse(in_own_words(title, arguments, options)) ? run(request, options) : 0;
  };
  return {title.substr(title.rfind(' ') + 1), line, describe, run_with};
}

// Returns a verb that consists of others: `gantrain NAME PART ...`. It lists them by itself.
Verb verb_of_parts(const std::string& name,
                   const std::string& line,
                   const std::vector<Verb>& parts);

// Returns every verb that takes flags, parts as "data pack", in the order of the help.
std::vector<VerbDescription> describe_verbs(const std::vector<Verb>& verbs);

}  // namespace gantrain
