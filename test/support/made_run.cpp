// SPDX-License-Identifier: Apache-2.0
#include "support/made_run.h"

#include <fmt/format.h>

#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr const char* kConfig = R"({"gantrain": "0.1.0", "values": {
  "preset": {"value": "dcgan-tiny", "origin": "flag --preset"},
  "recipe": {"value": "dcgan", "origin": "preset dcgan-tiny"},
  "dcgan.loss": {"value": "dcgan", "origin": "default"},
  "train.kimg": {"value": 200, "origin": "flag --kimg"},
  "train.batch": {"value": 64, "origin": "default"},
  "data.path": {"value": "<script>alert(1)</script>", "origin": "flag --data"},
  "samples.rows": {"value": 2, "origin": "default"},
  "samples.columns": {"value": 4, "origin": "default"},
  "metrics.collapse_below": {"value": 0.1, "origin": "default"},
  "metrics.collapse_times": {"value": 3, "origin": "default"},
  "metrics.collapse_after": {"value": 20, "origin": "default"}}})";

std::string row(double kimg, double g_loss, double distinctness) {
  return fmt::format(
      R"({{"Progress/kimg":{{"mean":{}}},"Loss/G/loss":{{"mean":{}}},"Loss/D/loss":{{"mean":0.5}},)"
      R"("Progress/distinctness":{{"mean":{}}},"Loss/new_one":{{"mean":{}}},)"
      R"("Timing/sec_per_kimg":{{"mean":2.0}},"Comm/D/bytes":{{"mean":5.0}}}})"
      "\n",
      kimg,
      g_loss,
      distinctness,
      kimg * kimg);
}

}  // namespace

Image grey_picture(int64_t side) {
  return {.width = side,
          .height = side,
          .channels = 1,
          .pixels = std::vector<uint8_t>(static_cast<size_t>(side * side), 77)};
}

Image noise_picture(int64_t width, int64_t height, uint32_t seed) {
  Image image = {.width = width,
                 .height = height,
                 .channels = 3,
                 .pixels = std::vector<uint8_t>(static_cast<size_t>(3 * width * height))};
  for (uint8_t& value : image.pixels)
    value = static_cast<uint8_t>((seed = seed * 1664525u + 1013904223u) >> 24);
  return image;
}

void make_run(const fs::path& folder, const MadeRun& made) {
  fs::create_directories(folder / "samples");
  for (const char* name : {"latest", "reals", "fakes000100", "fakes000200"})
    write_file(folder / "samples" / (std::string(name) + ".png"), encode_png(grey_picture(8)));
  write_file(folder / "samples" / "fakes_init.png", "broken");
  write_file(folder / "STATUS", made.status + "\n");
  write_file(folder / "config.json", kConfig);
  write_file(folder / "command.txt", "gantrain --preset dcgan-tiny --data '<b>'\n");
  write_file(folder / "env.json", R"({"gantrain":"0.1.0","device":"cpu","ranks":2})");
  write_file(folder / "log.txt",
             "2026-01-12 09:00:00 run     /runs/a\n"
             "2026-01-12 09:00:01 resume  at 100 kimg (state-000100.pt)\n"
             "2026-01-12 09:00:02 warning the file <i>x</i> is slow\n"
             "2026-01-12 09:00:03 next    gantrain generate --model /runs/a\n");
  std::string stats;
  for (int i = 1; i <= made.ticks; ++i) stats += row(4 * i, made.g_loss, made.distinctness);
  write_file(folder / "stats.jsonl", stats + made.last_rows + "{half a li");
  write_file(folder / "metric-swd.jsonl", R"({"results":{"swd":50},"kimg":0})");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace gantrain
