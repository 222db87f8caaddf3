// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "image/image.h"

namespace gantrain {

// Where the frames of an animation go, one after the other, all of one size.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual void add(const Image& frame) = 0;
  // Writes the file, whole or not at all; once, at the end.
  virtual void finish() = 0;
};

struct FilmOptions {
  double fps = 30;
  int quality = 90;  // of WebP: 1 to 100, lossless at 100
};

// NAME.webp or NAME.mp4. Throws UserError(kUsage) when a frame is larger than WebP can hold, and
// what Mp4Encoder throws.
std::unique_ptr<FrameSink> film_sink(const std::filesystem::path& file, const FilmOptions& options);

// frame0000.png, ... in a folder, which is made; `count` frames are to come.
std::unique_ptr<FrameSink> folder_sink(const std::filesystem::path& folder, int64_t count);

}  // namespace gantrain
