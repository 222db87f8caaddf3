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

bool has_size(const Image& image, int64_t side) {
  return image.width == side && image.height == side;
}

}  // namespace

NeededSize needed_size(const DataOptions& options) {
  if (options.scaled_jpeg == ScaledJpeg::kOff) return {};
  const int64_t side = 2 * options.resolution;
  if (options.fit == Fit::kPad) return {.shorter = 1, .longer = side};
  return {.shorter = side, .longer = side, .square = options.fit == Fit::kCrop};
}

bool is_prepared(const Image& image, int64_t channels, const DataOptions& options) {
  return image.channels == channels && has_size(image, options.resolution);
}

Image prepare(const Image& image, int64_t channels, const DataOptions& options) {
  const bool resized = !has_size(image, options.resolution);
  const int64_t common = common_channels(image.channels, channels);
  if (image.channels == common && resized) return with_channels(fitted(image, options), channels);
  Image same = with_channels(image, common);
  if (resized) same = fitted(same, options);
  return with_channels(std::move(same), channels);
}

}  // namespace gantrain
