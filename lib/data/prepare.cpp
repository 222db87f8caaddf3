// SPDX-License-Identifier: Apache-2.0
#include "data/prepare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "image/central_part.h"
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
  const Size& wanted = options.resolution;
  if (options.fit == Fit::kStretch) return resize(image, wanted, options.filter);
  if (options.fit == Fit::kCrop) {
    const Part part = central_part({image.width, image.height}, wanted);
    const Box box = {.left = static_cast<double>(part.left),
                     .top = static_cast<double>(part.top),
                     .width = static_cast<double>(part.size.width),
                     .height = static_cast<double>(part.size.height)};
    return resize(image, box, wanted, options.filter);
  }
  const double scale =
      std::min(static_cast<double>(wanted.width) / static_cast<double>(image.width),
               static_cast<double>(wanted.height) / static_cast<double>(image.height));
  const auto scaled = [&](int64_t length, int64_t most) {
    return std::clamp<int64_t>(std::llround(scale * static_cast<double>(length)), 1, most);
  };
  const Size size = {scaled(image.width, wanted.width), scaled(image.height, wanted.height)};
  return padded(resize(image, size, options.filter), wanted.width, wanted.height);
}

bool has_size(const Image& image, const Size& size) {
  return image.width == size.width && image.height == size.height;
}

}  // namespace

NeededSize needed_size(const DataOptions& options) {
  if (options.scaled_jpeg == ScaledJpeg::kOff) return {};
  const Size twice{2 * options.resolution.width, 2 * options.resolution.height};
  if (options.fit == Fit::kPad) return {.least = twice, .both = false};
  return {.least = twice, .crop = options.fit == Fit::kCrop ? options.resolution : Size{}};
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
