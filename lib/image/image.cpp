// SPDX-License-Identifier: Apache-2.0
#include "image/image.h"

#include <algorithm>
#include <stdexcept>

#include "image/codec.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

enum class Format { kPng, kJpeg, kWebp };

Format recognise(std::string_view bytes, const std::string& name) {
  if (starts_with(bytes, "\x89PNG\r\n\x1a\n")) return Format::kPng;
  if (starts_with(bytes, "\xff\xd8\xff")) return Format::kJpeg;
  if (starts_with(bytes, "RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP") {
    return Format::kWebp;
  }
  if (bytes.empty()) fail(Exit::kInput, "{}: empty file", name);
  fail(Exit::kInput, "{}: not a PNG, JPEG or WebP picture", name);
}

uint32_t byte_at(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

// Numbers of a TIFF block in its own byte order; 0 behind its end.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), big_(starts_with(bytes, "MM")) {}

  uint32_t u16(size_t at) const { return number(at, 2); }
  uint32_t u32(size_t at) const { return number(at, 4); }

 private:
  uint32_t number(size_t at, size_t count) const {
    if (bytes_.size() < count || at > bytes_.size() - count) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      value = value << 8 | byte_at(bytes_, at + (big_ ? i : count - 1 - i));
    }
    return value;
  }

  std::string_view bytes_;
  bool big_;
};

// Exif 2.3, sec. 4.6.4: tag 0x0112 of the first directory.
int orientation_of(std::string_view block) {
  const Tiff tiff(block);
  const size_t directory = tiff.u32(4);
  const size_t entries = tiff.u16(directory);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (entry >= block.size()) break;
    if (tiff.u16(entry) != 0x0112) continue;
    const auto value = static_cast<int>(tiff.u16(entry + 8));
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

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

Image blank(int64_t width, int64_t height, int64_t channels) {
  Image image{.width = width, .height = height, .channels = channels};
  image.pixels.resize(static_cast<size_t>(width * height * channels));
  return image;
}

// length * factor, rounded, from 1 to `most`.
int64_t in_proportion(int64_t length, double factor, int64_t most) {
  const auto exact = static_cast<double>(length) * factor;
  return std::clamp(static_cast<int64_t>(exact + 0.5), int64_t{1}, most);
}

}  // namespace

void decode_image(std::string_view bytes,
                  const std::string& name,
                  const NeededSize& needed,
                  Image& image) {
  switch (recognise(bytes, name)) {
    case Format::kPng:
      return decode_png(bytes, name, image);
    case Format::kJpeg:
      return decode_jpeg(bytes, name, needed, image);
    default:
      return decode_webp(bytes, name, image);
  }
}

Image decode_image(std::string_view bytes, const std::string& name) {
  Image image;
  decode_image(bytes, name, {}, image);
  return image;
}

void verify_image(std::string_view bytes, const std::string& name) {
  switch (recognise(bytes, name)) {
    case Format::kPng:
      return verify_png(bytes, name);
    case Format::kJpeg:
      return verify_jpeg(bytes, name);
    default:
      decode_image(bytes, name);
  }
}

ImageInfo image_info(std::string_view bytes, const std::string& name) {
  switch (recognise(bytes, name)) {
    case Format::kPng:
      return info_of_png(bytes, name);
    case Format::kJpeg:
      return info_of_jpeg(bytes, name);
    default:
      return info_of_webp(bytes, name);
  }
}

bool is_image_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  const std::string ending = lower(name.substr(dot + 1));
  return ending == "png" || ending == "jpg" || ending == "jpeg" || ending == "webp";
}

void check_size(const ImageInfo& info, const std::string& name, std::string_view format) {
  const auto [width, height, channels] = info;
  if (width < 1 || height < 1) fail(Exit::kInput, "{}: broken {}: no pixels", name, format);
  const bool fits = width <= kMaxImageSide && height <= kMaxImageSide &&
                    width * height * channels <= kMaxImageBytes;
  if (!fits) {
    fail(Exit::kInput,
         "{}: {} of {}x{} pixels is too large (at most {} a side, and {} MB decoded)",
         name,
         format,
         width,
         height,
         kMaxImageSide,
         kMaxImageBytes / 1'000'000);
  }
}

void check_packing(const ImageInfo& info,
                   const Packing& packing,
                   const std::string& name,
                   std::string_view format) {
  constexpr int64_t kSmall = int64_t{1} << 20;
  const int64_t most = static_cast<int64_t>(packing.bytes) * packing.pixels_per_byte;
  if (info.width * info.height <= std::max(most, kSmall)) return;
  fail(Exit::kInput,
       "{}: broken {}: {} bytes cannot hold the {}x{} pixels that its header announces",
       name,
       format,
       packing.bytes,
       info.width,
       info.height);
}

void set_size(Image& image, const ImageInfo& info) {
  image.width = info.width;
  image.height = info.height;
  image.channels = info.channels;
  image.pixels.resize(static_cast<size_t>(info.width * info.height * info.channels));
}

void check_image(const Image& image) {
  const bool sound =
      image.width > 0 && image.height > 0 && image.channels >= 1 && image.channels <= 4 &&
      image.pixels.size() == static_cast<size_t>(image.width * image.height * image.channels);
  if (!sound) throw std::invalid_argument("image: size and pixels contradict each other");
}

int jpeg_orientation(std::string_view bytes) {
  // Segments: 0xff, marker, length of two bytes (itself included), content.
  for (size_t at = 2; at + 4 <= bytes.size() && byte_at(bytes, at) == 0xff;) {
    const uint32_t marker = byte_at(bytes, at + 1);
    if (marker == 0xff) {  // fill byte
      ++at;
      continue;
    }
    if (marker == 0xda) break;  // the pixels start
    const size_t length = byte_at(bytes, at + 2) << 8 | byte_at(bytes, at + 3);
    if (length < 2) break;
    const std::string_view content = bytes.substr(at + 4, length - 2);
    if (marker == 0xe1 && starts_with(content, std::string_view("Exif\0\0", 6))) {
      return orientation_of(content.substr(6));
    }
    at += 2 + length;
  }
  return 1;
}

Image with_channels(Image image, int64_t channels) {
  check_image(image);
  if (channels < 1 || channels > 4) throw std::invalid_argument("image: 1 to 4 channels");
  if (image.channels == channels) return image;
  Image out = blank(image.width, image.height, channels);
  with_constant(image.channels, [&](auto from) {
    with_constant(channels, [&](auto to) { convert<from, to>(image, out); });
  });
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
