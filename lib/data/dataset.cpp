// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "data/cache.h"
#include "data/picture_set.h"
#include "data/shapes.h"
#include "data/source.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

namespace fs = std::filesystem;

bool starts_like_zip(const std::string& path) {
  char start[2] = {};
  std::ifstream(path, std::ios::binary).read(start, sizeof(start));
  return start[0] == 'P' && start[1] == 'K';
}

std::unique_ptr<Source> open_source(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    const bool denied = error == std::errc::permission_denied;
    fail(Exit::kInput,
         "{}: {}; --data wants a folder or zip of pictures, or synth:shapes",
         path,
         denied ? "no permission to look there" : "no such file or folder");
  }
  if (fs::is_directory(status)) return open_folder(path);
  if (fs::is_regular_file(status) && (ends_with(lower(path), ".zip") || starts_like_zip(path))) {
    return open_zip(path);
  }
  if (is_image_name(path)) {
    fail(Exit::kInput, "{}: a single picture; --data wants the folder that holds it", path);
  }
  fail(Exit::kInput,
       "{}: neither a folder nor a zip archive of pictures; --data takes one of them, or "
       "synth:shapes",
       path);
}

}  // namespace

ImageView Dataset::view(int64_t index, LoadBuffers& buffers) const {
  buffers.prepared = load(index);
  return view_of(buffers.prepared);
}

std::shared_ptr<const Dataset> open_dataset(const DataOptions& options,
                                            const StopCheck& stop,
                                            int64_t sharers) {
  if (options.path == "synth:shapes") return make_shapes(options);
  if (starts_with(options.path, "synth:")) {
    fail(Exit::kInput, "{}: no such built-in data; there is synth:shapes", options.path);
  }
  auto pictures = make_picture_set(open_source(options.path), options, stop);
  return cached(std::move(pictures), options.resolution, options.cache_mb * 1000 * 1000, sharers);
}

}  // namespace gantrain
