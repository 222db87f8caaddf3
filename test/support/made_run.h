// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "image/image.h"

namespace gantrain {

// What a fabricated run folder tells.
struct MadeRun {
  std::string status = "done 200 kimg";
  int ticks = 50;  // of 4 kimg
  double g_loss = 1.5;
  double distinctness = 0.6;
  std::string last_rows = {};  // more lines of stats.jsonl
};

// Writes the files of a run: STATUS, config.json, command.txt, env.json, log.txt, stats.jsonl,
// metric-swd.jsonl and samples.
void make_run(const std::filesystem::path& folder, const MadeRun& made = {});

// A picture of one grey, and one that cannot be compressed.
Image grey_picture(int64_t side);
Image noise_picture(int64_t width, int64_t height, uint32_t seed);

bool contains(const std::string& text, const std::string& part);

}  // namespace gantrain
