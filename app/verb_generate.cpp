// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>

#include "cli.h"
#include "config/value.h"
#include "launch/devices.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

// "0-3,7" -> 0 1 2 3 7, each as numpy's RandomState takes it.
Json parse_seeds(const std::string& text) {
  constexpr int64_t kMax = 4294967295;
  Json seeds = Json::array();
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-', 1);
    const auto first = parse_int(trim(part.substr(0, dash)));
    const auto last = dash == std::string::npos ? first : parse_int(trim(part.substr(dash + 1)));
    if (!first || !last || *first < 0 || *last > kMax || *last < *first ||
        *last - *first > 1'000'000) {
      fail(Exit::kUsage,
           "--seeds {}: numbers and ranges like 0-63,85 are expected, from 0 to {}",
           text,
           kMax);
    }
    for (int64_t seed = *first; seed <= *last; ++seed) seeds.push_back(seed);
  }
  return seeds;
}

}  // namespace

int generate_verb(const std::vector<std::string>& arguments) {
  CLI::App app("Pictures from a trained generator: a model file, or the newest of a run folder.",
               "gantrain generate");
  std::string model, positional, seeds, z, outdir, grid, format = "png", device = "auto";
  app.add_option("MODEL", positional, "model file or run folder");
  app.add_option("--model", model, "model file or run folder");
  app.add_option("--seeds,--seed", seeds, "numbers and ranges: 0-63,85 (default 0-15)");
  app.add_option("--z", z, "latents instead of seeds: .npy, [N, z_dim] float32");
  app.add_option("--outdir", outdir, "folder for one file a picture: seed0007.png");
  app.add_option("-o,--grid", grid, "one PNG with all pictures");
  app.add_option(
      "--format", format, "png: 8 bit; npy: float32 [C, H, W], the network's own output");
  app.add_option("--device", device, "auto, cpu or cuda");
  std::map<std::string, std::string> special;  // what only some recipes have
  for (const char* flag : {"--class", "--trunc", "--noise-mode", "--level", "--alpha"}) {
    app.add_option(flag, special[flag], "for models that have it: label, truncation, noise, stage");
  }
  if (!parse(app, arguments)) return 0;
  for (const auto& [flag, value] : special) {
    if (!value.empty())
      fail(Exit::kUsage,
           "{} {}: DCGAN generators have no labels, truncation, noise inputs or stages; leave it "
           "out",
           flag,
           value);
  }
  if (model.empty()) model = positional;
  if (model.empty()) fail(Exit::kUsage, "generate: which model? --model FILE or a run folder");
  if (outdir.empty() && grid.empty())
    fail(Exit::kUsage, "generate: where to? --outdir FOLDER or -o GRID.png");
  if (!grid.empty() && !ends_with(lower(grid), ".png"))
    fail(Exit::kUsage, "-o {}: the grid is a PNG; give a name ending in .png", grid);
  if (format != "png" && format != "npy")
    fail(Exit::kUsage, "--format {}: allowed: png, npy", format);
  if (!seeds.empty() && !z.empty()) fail(Exit::kUsage, "--seeds and --z exclude each other");
  const auto wanted = Value<DeviceKind>::from_text(device);
  if (!wanted) fail(Exit::kUsage, "--device {}: allowed: auto, cpu, cuda", device);
  const int64_t gpus = *wanted == DeviceKind::kCpu ? 0 : visible_gpus(current_environment());
  if (*wanted == DeviceKind::kCuda && gpus == 0)
    fail(Exit::kEnvironment, "--device cuda: no GPU is visible");
  if (*wanted == DeviceKind::kCuda && !has_cuda_library()) {
    fail(Exit::kEnvironment, "--device cuda: this build has no CUDA library; use --device cpu");
  }
  Json request = {{"model", model},
                  {"format", format},
                  {"outdir", outdir},
                  {"cuda", gpus > 0 && has_cuda_library()}};
  if (!grid.empty()) request["grid"] = grid;
  if (z.empty()) {
    request["seeds"] = parse_seeds(seeds.empty() ? "0-15" : seeds);
  } else {
    request["z"] = z;
  }
  return call_trainer("generate", request.dump(), request["cuda"].get<bool>());
}

}  // namespace gantrain
