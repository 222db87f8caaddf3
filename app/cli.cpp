// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "color_flag.h"
#include "config/value.h"
#include "launch/environment.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"
#include "verb_description.h"

namespace gantrain {

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table = {
      {"train", "train a GAN on one to many devices (the verb may be left out)", train_verb},
      {"generate", "pictures from a trained generator", generate_verb},
      {"export", "a folder for Python: weights, one PyTorch file, model card", export_verb},
      {"import", "a model file of foreign weights (network pickles)", import_verb},
      {"inspect", "what is in a file or a run; --diff A B: what differs", inspect_file_verb},
      {"interpolate", "an animation from seed to seed: WebP, MP4 or frames", interpolate_verb},
      {"metrics", "FID and others of a model, of pictures or of features", metrics_verb},
      {"nn", "the real pictures nearest to generated ones: is it copying?", nn_verb},
      {"project", "the latents whose pictures are nearest to given pictures", project_verb},
      {"report", "the page of a run; of several runs one that compares them", report_verb},
      {"serve", "the runs of a folder as live pages, and metrics for Prometheus", serve_verb},
      {"slurm", "a batch script that trains, saves, requeues and resumes", slurm_verb},
      {"presets", "list, show and compare the named starting points", presets_verb},
      {"data",
       "what is in a data set; pack one into a zip: gantrain data inspect|pack",
       data_verb,
       data_verbs},
      {"doctor", "what this machine and build can do; --ddp-table", doctor_verb},
      {"bench", "what this machine takes for what: gantrain bench ddp", bench_verb, benchmarks},
      {"help",
       "by topic: start, data, ddp, slurm, amp, resume, metrics, exit, flags, keys",
       help_verb},
  };
  return table;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

namespace {

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

bool parse_known(CLI::App& app,
                 std::vector<std::string> arguments,
                 std::vector<std::string>& unknown) {
  std::string color;  // taken already where it was given
  app.add_option("--color", color, kColorHelp)->type_name("WHEN");
  if (arguments == std::vector<std::string>{kDescribeFlag})
    throw FlagsDescribed{{app.get_name(), app.get_description(), describe_flags(app)}};
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
  unknown = app.remaining();
  return true;
}

bool parse(CLI::App& app, std::vector<std::string> arguments) {
  std::vector<std::string> unknown;
  if (!parse_known(app, std::move(arguments), unknown)) return false;
  if (!unknown.empty()) fail_unknown(app, unknown.front());
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
