// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "image/image.h"
#include "launch/unique_fd.h"

namespace gantrain {

// An MP4 that an ffmpeg process makes of raw frames sent to its standard input. The file grows in
// memory, so that nothing is left half-written whatever ends this process; ffmpeg ends with it.
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

  // A frame of 1 to 4 channels, alpha over white. Throws UserError(kEnvironment) with ffmpeg's last
  // line if it has ended.
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

}  // namespace gantrain
