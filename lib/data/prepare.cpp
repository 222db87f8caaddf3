// SPDX-License-Identifier: Apache-2.0
#include "data/prepare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "image/convert.h"

namespace gantrain {

namespace {

// Channels that both the picture and the result have: resampling more would be wasted work.
int64_t common_channels(int64_t a, int64_t b) {
  const int64_t colors = std::min(a, b) >= 3 ? 3 : 1;
  const bool alpha = a % 2 == 0 && b % 2 == 0;
  return colors + (alpha ? 1 : 0);
}

Image fitted(const Image& image, const DataOptions& options) {
  const int64_t side = options.resolution;
  if (options.fit == Fit::kStretch) return resize(image, {side, side}, options.filter);
  if (options.fit == Fit::kCrop) {
    const int64_t part = std::min(image.width, image.height);
    const int64_t left = (image.width - part) / 2;
    const int64_t top = (image.height - part) / 2;
    const Box box = {.left = static_cast<double>(left),
                     .top = static_cast<double>(top),
                     .width = static_cast<double>(part),
                     .height = static_cast<double>(part)};
    return resize(image, box, {side, side}, options.filter);
  }
  const double scale =
      static_cast<double>(side) / static_cast<double>(std::max(image.width, image.height));
  const auto scaled = [&](int64_t length) {
    return std::clamp<int64_t>(std::llround(scale * static_cast<double>(length)), 1, side);
  };
  const Size size = {scaled(image.width), scaled(image.height)};
  return padded(resize(image, size, options.filter), side, side);
}

}  // namespace

Image prepare(Image image, int64_t channels, const DataOptions& options) {
  const int64_t common = common_channels(image.channels, channels);
  image = with_channels(std::move(image), common);
  if (image.width != options.resolution || image.height != options.resolution) {
    image = fitted(image, options);
  }
  return with_channels(std::move(image), channels);
}

}  // namespace gantrain
