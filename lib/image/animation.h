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
  int loops = 0;     // how often it is played; 0: for ever
};

// An animated WebP in memory. Frame i is shown from i / fps on, rounded to a millisecond, so that a
// long animation keeps its time. Of equal frames in a row one is kept, shown for as long as all.
class WebpAnimation {
 public:
  // Sides from 1 to kMaxWebpSide.
  WebpAnimation(int64_t width, int64_t height, const AnimationOptions& options);
  ~WebpAnimation();
  WebpAnimation(const WebpAnimation&) = delete;
  WebpAnimation& operator=(const WebpAnimation&) = delete;

  // A frame of 1 to 4 channels and the animation's size; it is encoded here and now.
  void add(const Image& frame);
  // The whole file; once, after at least one frame.
  std::string finish();

 private:
  struct Encoder;
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace gantrain
