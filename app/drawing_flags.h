// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/value.h"
#include "draw/requests.h"

namespace CLI {
class App;
}

namespace gantrain {

// The flags of all verbs that draw: which model, which class, how. Conditions that depend on the
// model (whether it has a w space, how many classes) are checked where the model is loaded.
class DrawingFlags {
 public:
  // Where the model is named: as an argument or by --model, or by --model alone where a verb's
  // arguments are something else.
  enum class Model { kArgument, kFlag };
  explicit DrawingFlags(Model model = Model::kArgument) : model_named_(model) {}

  void add_to(CLI::App& app);

  // Returns the part of the request that these flags set. Throws UserError in one line.
  ModelRequest request(const std::string& verb) const;

 private:
  Model model_named_;
  std::string model_, positional_, device_ = "auto";
  std::string class_, trunc_, trunc_cutoff_, noise_mode_, level_, alpha_;
};

// The flags that move pictures of generators with an input that can be moved.
class MoveFlags {
 public:
  // Whether one picture is drawn, or a walk that may pass several values with colons between them;
  // a single one is reached at its end.
  enum class Of { kPicture, kWalk };
  explicit MoveFlags(Of what) : what_(what) {}

  void add_to(CLI::App& app);
  // Throws UserError(kUsage) where a value cannot be read.
  PictureMove move() const;

 private:
  std::vector<std::string> values_of(const std::string& text) const;

  Of what_;
  std::string rotate_, translate_;
};

// Throws UserError(kUsage) with the allowed words and the nearest ones unless `word` is an allowed
// one.
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

// The range of a flag's number. parse_integer() and parse_number() throw UserError(kUsage) that
// names the flag, the value and `allowed`.
struct Allowed {
  double min;
  double max;
  const char* text;  // "0 to 1"
};
int64_t parse_integer(const std::string& flag, const std::string& text, const Allowed& allowed);
double parse_number(const std::string& flag, const std::string& text, const Allowed& allowed);

// Throws UserError(kDisk) if the folder for a new file does not exist, so that the error comes
// before the work and not after it.
void check_folder_of(const std::string& flag, const std::string& file);

// Checks the name of a new animation: NAME.webp, or NAME.mp4 where ffmpeg is. Throws UserError that
// names the flag.
void check_film(const std::string& flag, const std::string& file);

}  // namespace gantrain
