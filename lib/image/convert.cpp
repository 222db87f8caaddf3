// SPDX-License-Identifier: Apache-2.0
#include "image/convert.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "image/codec.h"

namespace gantrain {

namespace {

uint8_t over_white(int value, int alpha) {
  return static_cast<uint8_t>((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

// ITU-R BT.601 in 16-bit fixed point, rounded to nearest; the weights sum to 65536.
uint8_t luma(int r, int g, int b) {
  return static_cast<uint8_t>((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16);
}

// One pixel with From channels to one with To.
template <int kFrom, int kTo>
void convert_pixel(const uint8_t* in, uint8_t* out) {
  constexpr bool kFromAlpha = kFrom % 2 == 0;
  constexpr bool kToAlpha = kTo % 2 == 0;
  constexpr int kFromColors = kFrom - (kFromAlpha ? 1 : 0);
  constexpr int kToColors = kTo - (kToAlpha ? 1 : 0);
  uint8_t color[3] = {in[0], in[kFromColors > 1 ? 1 : 0], in[kFromColors > 1 ? 2 : 0]};
  if (kFromAlpha && !kToAlpha) {
    for (uint8_t& c : color) c = over_white(c, in[kFrom - 1]);
  }
  if (kToColors == 1) {
    out[0] = kFromColors == 1 ? color[0] : luma(color[0], color[1], color[2]);
  } else {
    std::copy_n(color, 3, out);
  }
  if (kToAlpha) out[kTo - 1] = kFromAlpha ? in[kFrom - 1] : 255;
}

template <int kFrom, int kTo>
void convert(const Image& in, Image& out) {
  const int64_t count = in.width * in.height;
  for (int64_t i = 0; i < count; ++i) {
    convert_pixel<kFrom, kTo>(&in.pixels[static_cast<size_t>(kFrom * i)],
                              &out.pixels[static_cast<size_t>(kTo * i)]);
  }
}

template <int kFrom>
void convert_from(const Image& in, Image& out) {
  switch (out.channels) {
    case 1:
      return convert<kFrom, 1>(in, out);
    case 2:
      return convert<kFrom, 2>(in, out);
    case 3:
      return convert<kFrom, 3>(in, out);
    default:
      return convert<kFrom, 4>(in, out);
  }
}

Image blank(int64_t width, int64_t height, int64_t channels) {
  Image image{.width = width, .height = height, .channels = channels};
  image.pixels.resize(static_cast<size_t>(width * height * channels));
  return image;
}

}  // namespace

Image with_channels(Image image, int64_t channels) {
  check_image(image);
  if (channels < 1 || channels > 4) throw std::invalid_argument("image: 1 to 4 channels");
  if (image.channels == channels) return image;
  Image out = blank(image.width, image.height, channels);
  switch (image.channels) {
    case 1:
      convert_from<1>(image, out);
      break;
    case 2:
      convert_from<2>(image, out);
      break;
    case 3:
      convert_from<3>(image, out);
      break;
    default:
      convert_from<4>(image, out);
  }
  return out;
}

// Exif 2.3, sec. 4.6.4, tag Orientation: 2 mirrored, 3 turned by 180 degrees, 4 upside down, 5 to 8
// the same with rows and columns exchanged.
Image oriented(Image image, int orientation) {
  check_image(image);
  if (orientation < 2 || orientation > 8) return image;
  const bool swapped = orientation >= 5;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image out = swapped ? blank(image.height, image.width, image.channels)
                      : blank(image.width, image.height, image.channels);
  auto* to = out.pixels.data();
  for (int64_t row = 0; row < out.height; ++row) {
    for (int64_t column = 0; column < out.width; ++column) {
      int64_t x = swapped ? row : column;
      int64_t y = swapped ? column : row;
      if (from_right) x = image.width - 1 - x;
      if (from_below) y = image.height - 1 - y;
      const auto from = static_cast<size_t>((y * image.width + x) * image.channels);
      to = std::copy_n(&image.pixels[from], image.channels, to);
    }
  }
  return out;
}

Image padded(const Image& image, int64_t width, int64_t height) {
  check_image(image);
  if (width < image.width || height < image.height) {
    throw std::invalid_argument("padded: the canvas is smaller than the picture");
  }
  Image out = blank(width, height, image.channels);
  std::fill(out.pixels.begin(), out.pixels.end(), uint8_t{255});
  if (image.channels % 2 == 0) {
    for (size_t i = static_cast<size_t>(image.channels) - 1; i < out.pixels.size();
         i += static_cast<size_t>(image.channels)) {
      out.pixels[i] = 0;
    }
  }
  const int64_t left = (width - image.width) / 2;
  const int64_t top = (height - image.height) / 2;
  const int64_t row_bytes = image.width * image.channels;
  for (int64_t row = 0; row < image.height; ++row) {
    std::copy_n(&image.pixels[static_cast<size_t>(row * row_bytes)],
                row_bytes,
                &out.pixels[static_cast<size_t>(((top + row) * width + left) * image.channels)]);
  }
  return out;
}

namespace {

// length * factor, rounded, from 1 to `most`.
int64_t in_proportion(int64_t length, double factor, int64_t most) {
  const auto exact = static_cast<double>(length) * factor;
  return std::clamp(static_cast<int64_t>(exact + 0.5), int64_t{1}, most);
}

}  // namespace

Part central_part(const Size& picture, const Size& aspect) {
  const double ratio = static_cast<double>(aspect.width) / static_cast<double>(aspect.height);
  Part part{0, 0, picture};
  if (picture.width * aspect.height >= picture.height * aspect.width) {
    part.size.width = in_proportion(picture.height, ratio, picture.width);
  } else {
    part.size.height = in_proportion(picture.width, 1 / ratio, picture.height);
  }
  part.left = (picture.width - part.size.width) / 2;
  part.top = (picture.height - part.size.height) / 2;
  return part;
}

}  // namespace gantrain
