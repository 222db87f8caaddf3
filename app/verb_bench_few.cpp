// SPDX-License-Identifier: Apache-2.0
// bench ops, data and save, whose command lines are short.
#include <CLI/CLI.hpp>

#include "auto_values.h"
#include "bench_requests.h"
#include "bench_verbs.h"
#include "cli.h"
#include "config/message.h"
#include "launch/devices.h"
#include "launch/environment.h"
#include "resolve.h"
#include "trainer_library.h"
#include "util/log.h"

namespace gantrain {

namespace {

const CLI::Range kCounts(1, 10000);
constexpr const char* kJson = "one JSON line, last on standard output";
constexpr const char* kRounds = "measurements of each, in turns";

int64_t default_threads() { return threads_per_rank({}, current_environment(), 1); }

}  // namespace

int bench_ops_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Times operators that move memory: gantrain's, the same composed of LibTorch's, and what the "
      "machine needs to copy as many bytes.",
      "gantrain bench ops");
  BenchOpsRequest request;
  request.threads = default_threads();
  app.add_option("--rounds", request.rounds, kRounds)->check(kCounts);
  app.add_option("--threads", request.threads, "threads that compute")->check(CLI::Range(1, 1024));
  app.add_option("--batch", request.batch, "pictures of a tensor")->check(kCounts);
  app.add_option("--channels", request.channels, "its channels")->check(kCounts);
  app.add_option("--pixels", request.pixels, "its height and width, even")
      ->check(CLI::Range(4, 4096));
  app.add_flag("--json", request.json, kJson);
  if (!parse(app, arguments)) return 0;
  return call_trainer("bench ops", message_of(request).dump(), /*cuda=*/false);
}

int bench_data_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Times the loader with one thread on JPEG and PNG pictures that it makes, in a folder and in "
      "a zip, beside the decoder alone on the same bytes and beside Pillow with zipfile.",
      "gantrain bench data");
  BenchDataRequest request;
  request.python = default_python();
  request.scripts = peer_scripts();
  app.add_option("--rounds", request.rounds, kRounds)->check(kCounts);
  app.add_option("--pictures", request.pictures, "pictures of each format")->check(kCounts);
  app.add_option("--size", request.size, "pixels a side, as stored")->check(CLI::Range(8, 4096));
  app.add_option("--resolution", request.resolution, "pixels a side, as loaded")
      ->check(CLI::Range(8, 4096));
  app.add_option(
         "--python", request.python, "that has Pillow, for the peer (GANTRAIN_PYTHON); \"\": none")
      ->take_last();
  app.add_flag("--json", request.json, kJson);
  if (!parse(app, arguments)) return 0;
  set_log({Level::kWarning, Level::kInfo, {}, ""});
  return call_trainer("bench data", message_of(request).dump(), /*cuda=*/false);
}

int bench_save_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Times the state and the model that a run writes, during which the step waits, beside "
      "writing and flushing as many bytes to the same disk. StyleGAN2 of 64 pixels, or a preset.",
      "gantrain bench save");
  BenchSaveRequest request;
  request.threads = default_threads();
  request.folder = ".";
  std::string preset;
  std::vector<std::string> set;
  app.add_option("--preset", preset, "instead of StyleGAN2")->take_last();
  app.add_option("--set", set, "key=value, any key of gantrain help keys");
  app.add_option("--rounds", request.rounds, kRounds)->check(kCounts);
  app.add_option("--threads", request.threads, "threads that compute")->check(CLI::Range(1, 1024));
  app.add_option("--folder", request.folder, "a folder on the disk to be measured")->take_last();
  app.add_flag("--json", request.json, kJson);
  if (!parse(app, arguments)) return 0;
  set_log({Level::kWarning, Level::kInfo, {}, ""});
  ConfigSources sources;
  sources.preset = preset.empty() ? "stylegan2" : preset;
  request.about = preset.empty() ? "StyleGAN2, 64 pixels" : preset;
  if (preset.empty()) {
    for (const char* pair : {"data.resolution=64", "train.batch=8", "train.micro_batch=8"})
      sources.flags.emplace_back("--set", pair);
  }
  for (const std::string& pair : set) sources.flags.emplace_back("--set", pair);
  Config config = resolve(sources, {});
  choose_auto_values(config, /*ranks=*/1);
  request.config = config.to_json();
  return call_trainer("bench save", message_of(request).dump(), /*cuda=*/false);
}

}  // namespace gantrain
