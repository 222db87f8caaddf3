// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "image/image.h"

namespace gantrain {

inline constexpr int64_t kMaxWebpSide = 16383;  // pixels

struct AnimationOptions {
  double fps = 30;   // frames a second, at most 1000
  int quality = 90;  // 1 to 100; lossless at 100
  int loops = 0;     // how often the animation is played; 0: for ever
};

// Makes an animated WebP in memory. Frame i is shown from i / fps seconds on, rounded to a
// millisecond, so that rounding errors do not add up. Equal frames in a row are stored once and
// shown for the time of all.
class WebpAnimation {
 public:
  // Both sides are 1 to kMaxWebpSide pixels.
  WebpAnimation(int64_t width, int64_t height, const AnimationOptions& options);
  ~WebpAnimation();
  WebpAnimation(const WebpAnimation&) = delete;
  WebpAnimation& operator=(const WebpAnimation&) = delete;

  // Encodes a frame at once. It has 1 to 4 channels and the animation's size.
  void add(const Image& frame);
  // Returns the whole file. It is called once, after at least one frame.
  std::string finish();

 private:
  struct Encoder;
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace gantrain
