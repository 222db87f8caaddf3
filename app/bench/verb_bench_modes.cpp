// SPDX-License-Identifier: Apache-2.0
// gantrain bench modes: trains presets on stacked pictures, and says how many modes they know.
#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>

#include "bench/bench_command.h"
#include "launch/where/environment.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "train/plan/plan.h"
#include "train/save/run_folder.h"
#include "tune/children.h"
#include "tune/state_file.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// What papers tell of stacked MNIST, 26,000 samples: Huang et al. 2024 (R3GAN), arXiv:2501.05441,
// table of stacked MNIST, which has the others from their own papers.
struct Published {
  const char* name;
  int64_t modes;
  double kl;
};
constexpr std::array<Published, 5> kPublished = {{{"DCGAN", 99, 3.40},
                                                  {"WGAN-GP", 959, 0.73},
                                                  {"PacGAN", 992, 0.28},
                                                  {"StyleGAN2", 940, 0.42},
                                                  {"R3GAN", 1000, 0.029}}};

std::vector<std::string> presets_of(const BenchModesRequest& request) {
  if (request.presets == "none") return {};
  std::vector<std::string> presets = split(request.presets, ',');
  if (contains(presets, ""))
    fail(Exit::kUsage, "--presets {}: an empty name; presets or none", request.presets);
  for (const std::string& preset : presets)
    config_of(preset, request.set, {}, Site{});  // refuses what is unknown
  return presets;
}

// What a child is told of the data, so that it means the same folder.
std::vector<std::string> words_of(const BenchModesRequest& request) {
  return {"bench",
          "modes",
          "--data",
          request.data,
          "--stacked",
          std::to_string(request.stacked),
          "--samples",
          std::to_string(request.samples),
          "--epochs",
          std::to_string(request.epochs),
          "--seed",
          std::to_string(request.seed),
          "--threads",
          std::to_string(request.threads),
          "--device",
          std::string(names(request.device).at(static_cast<size_t>(request.device))),
          "-o",
          request.folder};
}

std::vector<std::string> training_of(const BenchModesRequest& request,
                                     const std::string& preset,
                                     const fs::path& run) {
  std::vector<std::string> words = {
      "train",
      "--preset",
      preset,
      "--data",
      (fs::path(request.folder) / kStackedFile).string(),
      "--resolution",
      std::to_string(kModesPixels),
      "--kimg",
      shortest(request.kimg),
      "--seed",
      std::to_string(request.seed),
      "--metrics",
      "none",
      "--device",
      std::string(names(request.device).at(static_cast<size_t>(request.device))),
      "--run-dir",
      run.string()};
  // Digits are neither mirrored nor augmented: Lin et al. 2018.
  for (const char* pair : {"data.mirror=off", "augment.mode=off", "data.cond=off"})
    words.insert(words.end(), {"--set", pair});
  for (const std::string& pair : request.set) words.insert(words.end(), {"--set", pair});
  return words;
}

// Runs this program as a child. Returns 0 or a stop's code, after which the same command goes on.
int run_child(Children& children, const std::vector<std::string>& words) {
  children.start(0, {.arguments = words});
  const Children::End end = children.wait();
  if (children.stop_signal() != 0) return code_of_stop(children.stop_signal());
  if (end.code == 0 || is_stop_code(end.code)) return end.code;
  fail(static_cast<Exit>(end.code),
       "{} {} ended with exit code {}",
       program(),
       words.front(),
       end.code);
}

void print_row(const std::string& name, int64_t modes, double kl, const std::string& more) {
  fmt::print("{:<24} {:>6} {:>8.3f}  {}\n", name, modes, kl, more);
}

void print_table(const CountedModes& modes) {
  fmt::print(
      "{} modes of {}: {} samples each; the classifier tells {:.1f} % of pictures that it has not "
      "seen\n\n{:<24} {:>6} {:>8}\n",
      modes.all(),
      modes.data,
      modes.samples,
      100 * modes.accuracy,
      "",
      "modes",
      "KL");
  for (const CountedModel& model : modes.models) {
    print_row(model.name,
              model.modes,
              model.kl,
              model.images < 0 ? model.model : fmt::format("at {} kimg", kimg_text(model.images)));
  }
  print_row("real pictures", modes.reals.modes, modes.reals.kl, "as many, by the same classifier");
  // Of even samples, which no model can be expected to beat.
  print_row("even samples",
            modes.all(),
            modes.kl_of_even_samples(),
            "(modes - 1) / (2 samples), what even samples have on average");
  fmt::print("\npublished, of MNIST with 1000 modes (arXiv:2501.05441 and the papers it cites):\n");
  for (const Published& row : kPublished) print_row(row.name, row.modes, row.kl, "");
}

int show(const BenchModesRequest& request) {
  const auto modes = read_state_file<CountedModes>(fs::path(request.folder) / kModesFile);
  if (!modes) fail(Exit::kInput, "{}: holds no {}", request.folder, kModesFile);
  if (log_console_level() != Level::kWarning) print_table(*modes);  // children are quiet
  if (request.json) fmt::print("{}\n", message_of(*modes).dump());
  return 0;
}

// What is given is counted by this process; else everything is done by children, one after another.
int run_modes(BenchModesRequest& request, Options& options) {
  if (!options.given("--threads")) request.threads = threads_per_rank({}, current_environment(), 1);
  const std::vector<std::string> presets = presets_of(request);
  request.cuda = computes_on_gpu(request.device);
  make_writable_folder(request.folder);
  if (!request.models.empty() || presets.empty()) {
    const int code = call_trainer("bench modes", request, request.cuda);
    return code == 0 ? show(request) : code;
  }
  Children children;
  std::vector<std::string> prepare = words_of(request);
  prepare.insert(prepare.end(), {"--presets", "none", "-q"});
  int code = run_child(children, prepare);
  for (auto preset = presets.begin(); code == 0 && preset != presets.end(); ++preset) {
    const fs::path run = fs::path(request.folder) / *preset;
    code = run_child(children, training_of(request, *preset, run));  // which may be done
    std::vector<std::string> count = words_of(request);
    count.insert(count.end(), {"--models", run.string(), "-q"});
    if (code == 0) code = run_child(children, count);
  }
  if (code == 0) return show(request);
  info("next    {}", command_line());
  return code;
}

}  // namespace

Verb bench_modes_verb() {
  return verb_of(
      "bench modes",
      "how many modes of stacked pictures GANs know (stacked MNIST)",
      "Stacks three pictures of one channel into one in colour, so that ten classes make a "
      "thousand "
      "modes, trains presets on them, and counts the modes that a classifier finds in their "
      "pictures, and how unevenly. Stopped at any time, the same command goes on; with a larger "
      "--kimg it trains on.",
      run_modes);
}

}  // namespace gantrain
