// SPDX-License-Identifier: Apache-2.0
// bench ops, data and save, whose command lines are short.
#include <CLI/CLI.hpp>

#include "auto_values.h"
#include "bench_requests.h"
#include "bench_verbs.h"
#include "cli.h"
#include "config/message.h"
#include "device_choice.h"
#include "drawing_flags.h"
#include "launch/devices.h"
#include "launch/environment.h"
#include "resolve.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/log.h"

namespace gantrain {

namespace {

const CLI::Range kCounts(1, 10000);
constexpr const char* kJson = "one JSON line, last on standard output";
constexpr const char* kRounds = "measurements of each, in turns";

int64_t default_threads() { return threads_per_rank({}, current_environment(), 1); }

// A GPU needs more work at a time to be busy, and more bytes than its cache holds.
constexpr int64_t kGpuBatch = 32, kGpuChannels = 128, kGpuPixels = 128;

void check_ops(const BenchOpsRequest& request) {
  check_word("--dtype", request.dtype, {"float32", "float16", "bfloat16"});
  check_word("--layout", request.layout, {"contiguous", "channels-last"});
  if (!request.cuda && request.dtype != "float32") {
    fail(Exit::kUsage,
         "--dtype {}: on a CPU the operators have kernels for float32 alone; give --device cuda",
         request.dtype);
  }
}

}  // namespace

int bench_ops_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Times operators that move memory: gantrain's, the same composed of LibTorch's, and what the "
      "machine needs to copy as many bytes.",
      "gantrain bench ops");
  BenchOpsRequest request;
  std::string device = "cpu";
  request.threads = default_threads();
  app.add_option("--rounds", request.rounds, kRounds)->check(kCounts);
  app.add_option("--threads", request.threads, "threads that compute")->check(CLI::Range(1, 1024));
  const CLI::Option* batch =
      app.add_option("--batch", request.batch, "pictures of a tensor (GPU: 32)")->check(kCounts);
  const CLI::Option* channels =
      app.add_option("--channels", request.channels, "its channels (GPU: 128)")->check(kCounts);
  const CLI::Option* pixels =
      app.add_option("--pixels", request.pixels, "its height and width, even (GPU: 128)")
          ->check(CLI::Range(4, 4096));
  app.add_option("--device", device, "cpu, cuda, or auto: a GPU where one is")->take_last();
  app.add_option("--dtype", request.dtype, "float32; on a GPU float16 and bfloat16 too")
      ->take_last();
  app.add_option("--layout", request.layout, "contiguous or channels-last")->take_last();
  app.add_flag("--json", request.json, kJson);
  if (!parse(app, arguments)) return 0;
  request.cuda = computes_on_gpu(device);
  check_ops(request);
  if (request.cuda && batch->count() == 0) request.batch = kGpuBatch;
  if (request.cuda && channels->count() == 0) request.channels = kGpuChannels;
  if (request.cuda && pixels->count() == 0) request.pixels = kGpuPixels;
  return call_trainer("bench ops", message_of(request).dump(), request.cuda);
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
      "Times the state and the model that a run writes, beside writing and flushing as many bytes "
      "to the same disk, and what training sees of it: the pause for a copy, beside a memcpy, and "
      "iterations beside the writing. StyleGAN2 of 64 pixels, or a preset.",
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
  choose_auto_values(config, Site{});
  request.config = config.to_json();
  return call_trainer("bench save", message_of(request).dump(), /*cuda=*/false);
}

}  // namespace gantrain
