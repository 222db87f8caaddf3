// SPDX-License-Identifier: Apache-2.0
#include "drawing_flags.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <limits>

#include "device_choice.h"
#include "util/error.h"
#include "util/program.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr double kAny = std::numeric_limits<double>::max();
constexpr double kCount = 1e6;

}  // namespace

void DrawingFlags::add_to(CLI::App& app) {
  if (model_named_ == Model::kArgument)
    app.add_option("MODEL", positional_, "model file or run folder");
  app.add_option("--model,--network", model_, "model file or run folder");
  app.add_option(
      "--class", class_, "conditional models: names, numbers, ranges or all: circle,3-5 (all)");
  app.add_option("--trunc,--psi",
                 trunc_,
                 "style-based models: truncation psi; 1 none, 0.7 usual, 0 the mean picture");
  app.add_option("--trunc-cutoff", trunc_cutoff_, "layers that --trunc holds for (all)");
  app.add_option(
      "--noise-mode", noise_mode_, "models with noise inputs: const (default), random, none");
  app.add_option("--level", level_, "progressive models: pixels of the stage to draw");
  app.add_option("--alpha", alpha_, "weight of that stage's newest layers, 0 to 1 (1)");
  app.add_option("--device", device_, "auto, cpu or cuda");
}

ModelRequest DrawingFlags::request(const std::string& verb) const {
  const std::string& model = model_.empty() ? positional_ : model_;
  if (model.empty()) fail(Exit::kUsage, "{}: which model? --model FILE or a run folder", verb);
  if (!model_.empty() && !positional_.empty())
    fail(Exit::kUsage, "{}: two models, {} and --model {}; give one", verb, positional_, model_);
  ModelRequest request;
  request.model = model;
  request.classes = class_;
  if (!trunc_.empty())
    request.trunc = parse_number("--trunc", trunc_, {-kAny, kAny, "a number, usually 0 to 1"});
  if (!trunc_cutoff_.empty()) {
    request.trunc_cutoff =
        parse_integer("--trunc-cutoff", trunc_cutoff_, {0, kCount, "a number of layers from 0 on"});
    if (trunc_.empty())
      fail(Exit::kUsage,
           "--trunc-cutoff {}: says for how many layers --trunc PSI holds; give both",
           trunc_cutoff_);
  }
  if (!noise_mode_.empty()) {
    request.noise_mode = parse_word<NoiseMode>("--noise-mode", noise_mode_);
  }
  if (!level_.empty())
    request.level = parse_integer("--level", level_, {1, kCount, "pixels of a stage, like 32"});
  if (!alpha_.empty()) request.alpha = parse_number("--alpha", alpha_, {0, 1, "0 to 1"});
  request.cuda = computes_on_gpu(device_);
  return request;
}

void MoveFlags::add_to(CLI::App& app) {
  const std::string way =
      what_ == Of::kPicture ? "" : "; reached at the last frame, or a way through several: ";
  app.add_option("--rotate",
                 rotate_,
                 "StyleGAN3: degrees by which pictures are turned counter-clockwise" +
                     (way.empty() ? "" : way + "0:90:-90"));
  app.add_option("--translate",
                 translate_,
                 "StyleGAN3: RIGHT,DOWN, picture widths by which they are moved" +
                     (way.empty() ? "" : way + "0,0:0.3,0:0.3,0.2"));
}

std::vector<std::string> MoveFlags::values_of(const std::string& text) const {
  return what_ == Of::kPicture ? std::vector{text} : split(text, ':');
}

PictureMove MoveFlags::move() const {
  PictureMove move;
  if (!rotate_.empty()) {
    move.degrees.clear();
    for (const std::string& value : values_of(rotate_))
      move.degrees.push_back(
          parse_number("--rotate", value, {-kAny, kAny, "degrees, like 30 or -90"}));
  }
  if (!translate_.empty()) {
    const Allowed allowed{-kAny, kAny, "RIGHT,DOWN in picture widths, like 0.25,-0.1"};
    move.right.clear();
    move.down.clear();
    for (const std::string& value : values_of(translate_)) {
      const std::vector<std::string> parts = split(value, ',');
      if (parts.size() != 2) fail(Exit::kUsage, "--translate {}: allowed: {}", value, allowed.text);
      move.right.push_back(parse_number("--translate", parts[0], allowed));
      move.down.push_back(parse_number("--translate", parts[1], allowed));
    }
  }
  if (what_ == Of::kPicture) return move;
  for (std::vector<double>* values : {&move.degrees, &move.right, &move.down}) {
    if (values->size() == 1) values->insert(values->begin(), 0);
  }
  return move;
}

void check_word(const std::string& flag,
                const std::string& word,
                const std::vector<std::string>& allowed) {
  for (const std::string& known : allowed) {
    if (word == known) return;
  }
  fail(Exit::kUsage,
       "{} {}: allowed: {}{}",
       flag,
       word,
       join(allowed, ", "),
       did_you_mean(word, allowed));
}

int64_t parse_integer(const std::string& flag, const std::string& text, const Allowed& allowed) {
  const auto value = parse_int(text);
  if (!value || static_cast<double>(*value) < allowed.min ||
      static_cast<double>(*value) > allowed.max)
    fail(Exit::kUsage, "{} {}: allowed: {}", flag, text, allowed.text);
  return *value;
}

double parse_number(const std::string& flag, const std::string& text, const Allowed& allowed) {
  const auto value = parse_double(text);
  if (!value || !std::isfinite(*value) || *value < allowed.min || *value > allowed.max)
    fail(Exit::kUsage, "{} {}: allowed: {}", flag, text, allowed.text);
  return *value;
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
}

}  // namespace gantrain
