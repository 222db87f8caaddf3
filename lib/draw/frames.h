// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "image/image.h"
#include "launch/where/network.h"
#include "util/size.h"

namespace gantrain {

// A path through key latents. It meets the keys exactly, at frames 0, frames, 2*frames, ... An open
// path ends with the last key's own frame, a closed one just before the first key's frame would
// come again.
struct Walk {
  int64_t keys = 2;     // at least 2
  int64_t frames = 60;  // from one key to the next, at least 1
  bool loop = false;    // closed: from the last key back to the first
};

// A frame between two keys: (1 - t) of `from` and t of `to`.
struct Step {
  int64_t from = 0;
  int64_t to = 0;
  double t = 0;  // [0, 1]; 1 in an open path's last frame alone
};

int64_t frame_count(const Walk& walk);
Step step_of(const Walk& walk, int64_t frame);

// "frame0007": four digits, or as many as the last of `count` frames needs.
std::string frame_name(int64_t frame, int64_t count);

// An MP4 that an ffmpeg process makes of raw frames. The file grows in memory, so that nothing is
// left half-written whatever ends this process; ffmpeg ends with it.
class Mp4Encoder {
 public:
  struct Format {
    int64_t width = 0;
    int64_t height = 0;
    double fps = 30;
  };
  Mp4Encoder(const std::filesystem::path& ffmpeg, const Format& format);
  ~Mp4Encoder();  // ends an ffmpeg that has not finished
  Mp4Encoder(const Mp4Encoder&) = delete;
  Mp4Encoder& operator=(const Mp4Encoder&) = delete;

  // A frame, alpha over white. Throws UserError(kEnvironment) with ffmpeg's last line if it ended.
  void add(const Image& frame);
  // The whole file; once. Throws UserError(kEnvironment) with ffmpeg's last line if it failed.
  std::string finish();

 private:
  [[noreturn]] void fail_ffmpeg(int status);
  int wait();

  Format format_;
  std::string program_;
  UniqueFd frames_;  // ffmpeg's standard input
  UniqueFd video_;   // the file, and ...
  UniqueFd words_;   // ... ffmpeg's standard error: files in memory without a name
  pid_t pid_ = -1;
};

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

// Throws UserError(kUsage) where a film of that name cannot have such frames; `flag` has the name,
// and `mend` says what else would do: "use .mp4 or ...".
void check_frame_size(const std::string& flag,
                      const std::filesystem::path& file,
                      Size frame,
                      const std::string& mend);

// NAME.webp or NAME.mp4. Throws UserError(kUsage) when a frame is too large for WebP.
std::unique_ptr<FrameSink> film_sink(const std::filesystem::path& file, const FilmOptions& options);

// Warns where a folder also holds files of an earlier command: STEM, digits, ".png", but none of
// the `count` that `name` gives names to, without their ends.
void warn_of_earlier(const std::filesystem::path& folder,
                     const std::string& stem,
                     int64_t count,
                     const std::function<std::string(int64_t)>& name);

// frame0000.png, ... in a folder, which is made; `count` frames are to come.
std::unique_ptr<FrameSink> folder_sink(const std::filesystem::path& folder, int64_t count);

}  // namespace gantrain
