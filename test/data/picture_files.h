// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/pictures/dataset.h"
#include "data/scratch.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/tar_writer.h"
#include "support/zip_writer.h"

namespace gantrain {

using Files = std::vector<std::pair<std::string, std::string>>;  // name, content

inline DataOptions at(const std::string& path, int64_t resolution = 16) {
  DataOptions options;
  options.path = path;
  options.resolution = square_of(resolution);
  return options;
}

inline std::string png(int64_t width, int64_t height, int64_t channels) {
  return encode_png(test_picture(width, height, channels));
}

inline std::string one_color(uint8_t value) {
  return encode_png({16, 16, 1, std::vector<uint8_t>(256, value)});
}

// The grey value of each picture of a set of one_color() pictures.
inline std::vector<int> values(const Dataset& dataset) {
  std::vector<int> all;
  for (int64_t i = 0; i < dataset.size(); ++i) all.push_back(dataset.load(i).pixels[0]);
  return all;
}

// Writes the files as a folder, a stored or deflated zip or a tar; the path to open.
inline std::string lay_out(const Scratch& scratch, const Files& files, const std::string& kind) {
  if (kind == "folder") {
    for (const auto& [name, content] : files) scratch.write("set/" + name, content);
    return scratch.path("set");
  }
  if (kind == "tar" || kind == "tar.gz") {
    scratch.write("set." + kind, write_tar(files, {.filter = kind == "tar" ? "none" : "gzip"}));
    return scratch.path("set." + kind);
  }
  scratch.write("set.zip", write_zip(files, kind == "deflated"));
  return scratch.path("set.zip");
}

inline std::string any_kind() { return GENERATE("folder", "stored", "deflated", "tar", "tar.gz"); }

inline std::string open_error(const DataOptions& options) {
  return input_error([&] { open_dataset(options); });
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace gantrain
