// SPDX-License-Identifier: Apache-2.0
#include "image/image.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "image/codec.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

enum class Format { kPng, kJpeg, kWebp, kNpy, kTiff };

Format recognise(std::string_view bytes, const std::string& name) {
  if (starts_with(bytes, "\x89PNG\r\n\x1a\n")) return Format::kPng;
  if (starts_with(bytes, "\xff\xd8\xff")) return Format::kJpeg;
  if (starts_with(bytes, "RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP") {
    return Format::kWebp;
  }
  if (starts_with(bytes, "\x93NUMPY")) return Format::kNpy;
  if (starts_with(bytes, std::string_view("II*\0", 4)) ||
      starts_with(bytes, std::string_view("MM\0*", 4)))
    return Format::kTiff;
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

constexpr std::string_view kExifMark("Exif\0\0", 6);

}  // namespace

// Exif 2.3, sec. 4.6.4: tag 0x0112 of the first directory.
int exif_orientation(std::string_view block) {
  if (starts_with(block, kExifMark)) block.remove_prefix(kExifMark.size());
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

namespace {

// Values of 8 or 16 bits.
template <class Value>
constexpr int64_t kLargest = std::numeric_limits<Value>::max();

template <class Value>
Value over_white(int64_t value, int64_t alpha) {
  constexpr int64_t most = kLargest<Value>;
  return static_cast<Value>((value * alpha + most * (most - alpha) + most / 2) / most);
}

// ITU-R BT.601 in 16-bit fixed point, rounded to nearest; the weights sum to 65536.
template <class Value>
Value luma(int64_t r, int64_t g, int64_t b) {
  return static_cast<Value>((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16);
}

// One pixel with From channels to one with To.
template <int kFrom, int kTo, class Value>
void convert_pixel(const Value* in, Value* out) {
  constexpr bool kFromAlpha = kFrom % 2 == 0;
  constexpr bool kToAlpha = kTo % 2 == 0;
  constexpr int kFromColors = kFrom - (kFromAlpha ? 1 : 0);
  constexpr int kToColors = kTo - (kToAlpha ? 1 : 0);
  Value color[3] = {in[0], in[kFromColors > 1 ? 1 : 0], in[kFromColors > 1 ? 2 : 0]};
  if (kFromAlpha && !kToAlpha) {
    for (Value& c : color) c = over_white<Value>(c, in[kFrom - 1]);
  }
  if (kToColors == 1) {
    out[0] = kFromColors == 1 ? color[0] : luma<Value>(color[0], color[1], color[2]);
  } else {
    std::copy_n(color, 3, out);
  }
  if (kToAlpha) out[kTo - 1] = kFromAlpha ? in[kFrom - 1] : static_cast<Value>(kLargest<Value>);
}

template <int kFrom, int kTo, class Value>
void convert(const Value* in, int64_t count, Value* out) {
  for (int64_t i = 0; i < count; ++i)
    convert_pixel<kFrom, kTo, Value>(in + kFrom * i, out + kTo * i);
}

template <int kFrom, int kTo>
void convert(Image& in, Image& out) {
  const int64_t count = in.width * in.height;
  if (in.depth == 16) {
    convert<kFrom, kTo>(
        static_cast<const uint16_t*>(words_of(in.pixels)), count, words_of(out.pixels));
  } else {
    convert<kFrom, kTo>(static_cast<const uint8_t*>(in.pixels.data()), count, out.pixels.data());
  }
}

// A picture of that size and as many bits as `like`.
Image blank(int64_t width, int64_t height, int64_t channels, const Image& like) {
  Image image;
  set_size(image, {width, height, channels, like.depth, like.stack});
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
      decode_png(bytes, name, needed.depth, image);
      break;
    case Format::kJpeg:
      decode_jpeg(bytes, name, needed, image);
      break;
    case Format::kWebp:
      decode_webp(bytes, name, image);
      break;
    case Format::kNpy:
      decode_npy(bytes, name, image);
      break;
    case Format::kTiff:
      decode_tiff(bytes, name, image);
      break;
  }
  if (image.depth != needed.depth) image = in_depth(std::move(image), needed.depth);
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
    case Format::kNpy:
      return info_of_npy(bytes, name);
    case Format::kTiff:
      return info_of_tiff(bytes, name);
    default:
      return info_of_webp(bytes, name);
  }
}

ImageInfo image_info(std::string_view start, const ReadEnd& last, const std::string& name) {
  if (recognise(start, name) == Format::kPng) return info_of_png(start, name, last);
  return image_info(start, name);
}

namespace {

std::string ending_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? "" : lower(name.substr(dot + 1));
}

}  // namespace

bool is_stack_name(std::string_view name) {
  const std::string ending = ending_of(name);
  return ending == "npy" || ending == "tif" || ending == "tiff";
}

bool is_image_name(std::string_view name) {
  const std::string ending = ending_of(name);
  return ending == "png" || ending == "jpg" || ending == "jpeg" || ending == "webp";
}

void check_size(const ImageInfo& info, const std::string& name, std::string_view format) {
  const auto [width, height, channels, depth, stack] = info;
  if (width < 1 || height < 1) fail(Exit::kInput, "{}: broken {}: no pixels", name, format);
  const bool fits = width <= kMaxImageSide && height <= kMaxImageSide &&
                    width * height * channels * (depth / 8) <= kMaxImageBytes;
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
  image.depth = info.depth;
  image.stack = info.stack;
  image.pixels.resize(static_cast<size_t>(view_of(image).bytes()));
}

void check_image(const Image& image) {
  const bool sound = image.width > 0 && image.height > 0 && image.channels >= 1 &&
                     image.channels <= (image.stack ? kMaxChannels : kMostColors) &&
                     (image.depth == 8 || image.depth == 16) &&
                     image.pixels.size() == static_cast<size_t>(view_of(image).bytes());
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
    if (marker == 0xe1 && starts_with(content, kExifMark)) return exif_orientation(content);
    at += 2 + length;
  }
  return 1;
}

ImageInfo turned(ImageInfo stored, int orientation) {
  if (orientation >= 5 && orientation <= 8) std::swap(stored.width, stored.height);
  return stored;
}

Image with_channels(Image image, int64_t channels) {
  check_image(image);
  if (image.channels == channels) return image;
  if (channels < 1 || channels > kMostColors || image.stack)
    throw std::invalid_argument("image: 1 to 4 channels");
  Image out = blank(image.width, image.height, channels, image);
  with_constant(image.channels, [&](auto from) {
    with_constant(channels, [&](auto to) { convert<from, to>(image, out); });
  });
  return out;
}

Image in_depth(Image image, int64_t depth) {
  if (image.depth == depth) return image;
  const int64_t count = image.width * image.height * image.channels;
  Image out;
  set_size(out, {image.width, image.height, image.channels, depth, image.stack});
  if (depth == 16) {
    for (int64_t i = 0; i < count; ++i)
      words_of(out.pixels)[i] = static_cast<uint16_t>(257 * image.pixels[static_cast<size_t>(i)]);
  } else {
    const uint16_t* in = words_of(image.pixels);
    for (int64_t i = 0; i < count; ++i)
      out.pixels[static_cast<size_t>(i)] = static_cast<uint8_t>((uint32_t{in[i]} + 128) / 257);
  }
  return out;
}

namespace {

// Copies `bytes` of each pixel.
struct PixelBytes {
  int64_t bytes = 0;  // that are copied
  int64_t in = 0;     // from one pixel to the next, in bytes
  int64_t out = 0;
};

void copy_pixels(const uint8_t* in, int64_t count, const PixelBytes& pixel, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i)
    std::copy_n(in + i * pixel.in, pixel.bytes, out + i * pixel.out);
}

}  // namespace

Image only_channels(const ImageView& image, const std::vector<int64_t>& channels) {
  const auto count = static_cast<int64_t>(channels.size());
  if (count < 1 || count > 3) throw std::invalid_argument("image: 1 to 3 channels are shown");
  Image out;
  set_size(out, {image.width, image.height, count == 1 ? 1 : 3, image.depth, false});
  const int64_t bytes = image.depth / 8;
  const PixelBytes pixel{bytes, image.channels * bytes, out.channels * bytes};
  for (int64_t c = 0; c < count; ++c) {
    const int64_t from = channels[static_cast<size_t>(c)];
    if (from < 0 || from >= image.channels) throw std::invalid_argument("image: no such channel");
    copy_pixels(image.pixels + from * bytes,
                image.width * image.height,
                pixel,
                out.pixels.data() + c * bytes);
  }
  return out;
}

Image to_show(Image image) {
  if (image.stack && is_stack(image.channels)) {
    image = only_channels(
        view_of(image),
        image.channels == 2 ? std::vector<int64_t>{0} : std::vector<int64_t>{0, 1, 2});
  }
  return in_depth(std::move(image), 8);
}

Image stacked(const std::vector<Image>& parts) {
  const Image& first = parts.at(0);
  int64_t channels = 0;
  for (const Image& part : parts) channels += part.channels;
  Image out;
  set_size(out, {first.width, first.height, channels, first.depth, is_stack(channels)});
  const int64_t bytes = first.depth / 8;
  int64_t at = 0;
  for (const Image& part : parts) {
    const PixelBytes pixel{part.channels * bytes, part.channels * bytes, channels * bytes};
    copy_pixels(part.pixels.data(), out.width * out.height, pixel, out.pixels.data() + at * bytes);
    at += part.channels;
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
  Image out = swapped ? blank(image.height, image.width, image.channels, image)
                      : blank(image.width, image.height, image.channels, image);
  const int64_t pixel_bytes = image.channels * (image.depth / 8);
  auto* to = out.pixels.data();
  for (int64_t row = 0; row < out.height; ++row) {
    for (int64_t column = 0; column < out.width; ++column) {
      int64_t x = swapped ? row : column;
      int64_t y = swapped ? column : row;
      if (from_right) x = image.width - 1 - x;
      if (from_below) y = image.height - 1 - y;
      const auto from = static_cast<size_t>((y * image.width + x) * pixel_bytes);
      to = std::copy_n(&image.pixels[from], pixel_bytes, to);
    }
  }
  return out;
}

Image padded(const Image& image, int64_t width, int64_t height) {
  check_image(image);
  if (width < image.width || height < image.height) {
    throw std::invalid_argument("padded: the canvas is smaller than the picture");
  }
  Image out = blank(width, height, image.channels, image);
  std::fill(out.pixels.begin(), out.pixels.end(), uint8_t{255});
  const int64_t value_bytes = image.depth / 8, pixel_bytes = image.channels * value_bytes;
  if (has_alpha(image)) {
    for (int64_t i = 1; i <= width * height; ++i)
      std::fill_n(out.pixels.data() + i * pixel_bytes - value_bytes, value_bytes, uint8_t{0});
  }
  const int64_t left = (width - image.width) / 2;
  const int64_t top = (height - image.height) / 2;
  const int64_t row_bytes = image.width * pixel_bytes;
  for (int64_t row = 0; row < image.height; ++row) {
    std::copy_n(&image.pixels[static_cast<size_t>(row * row_bytes)],
                row_bytes,
                &out.pixels[static_cast<size_t>(((top + row) * width + left) * pixel_bytes)]);
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
