// SPDX-License-Identifier: Apache-2.0
#include "support/pictures.h"

#include <png.h>
#include <turbojpeg.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <stdexcept>

namespace gantrain {

std::string write_png(const PngSpec& spec) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png,
      &bytes,
      [](png_structp p, png_bytep data, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), count);
      },
      nullptr);
  png_set_IHDR(png,
               info,
               spec.width,
               spec.height,
               spec.bit_depth,
               spec.color_type,
               spec.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               0,
               0);
  if (!spec.palette.empty()) {
    std::vector<png_color> colors;
    for (size_t i = 0; i < spec.palette.size(); i += 3) {
      colors.push_back({spec.palette[i], spec.palette[i + 1], spec.palette[i + 2]});
    }
    png_set_PLTE(png, info, colors.data(), static_cast<int>(colors.size()));
  }
  png_color_16 transparent = {};
  if (spec.transparent_grey >= 0) {
    transparent.gray = static_cast<png_uint_16>(spec.transparent_grey);
    png_set_tRNS(png, info, nullptr, 0, &transparent);
  } else if (!spec.transparent.empty()) {
    png_set_tRNS(
        png, info, spec.transparent.data(), static_cast<int>(spec.transparent.size()), nullptr);
  }
  png_write_info(png, info);
  const size_t row_bytes = png_get_rowbytes(png, info);
  std::vector<uint8_t> data = spec.data;
  std::vector<png_bytep> rows;
  for (size_t row = 0; row < spec.height; ++row) rows.push_back(data.data() + row * row_bytes);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

Image test_picture(int64_t width, int64_t height, int64_t channels) {
  Image image{.width = width, .height = height, .channels = channels};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        const double wave = std::sin(0.21 * static_cast<double>(x + c)) *
                            std::cos(0.17 * static_cast<double>(y - c));
        const double step = x > width / 2 && y > height / 3 ? 40 : 0;
        image.pixels.push_back(static_cast<uint8_t>(100 + 80 * wave + step));
      }
    }
  }
  return image;
}

std::string write_cmyk_jpeg(int64_t width, int64_t height, const std::vector<uint8_t>& cmyk) {
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < width * height; ++i)
    pixels.insert(pixels.end(), cmyk.begin(), cmyk.end());
  tjhandle handle = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  const int result = tjCompress2(handle,
                                 pixels.data(),
                                 static_cast<int>(width),
                                 0,
                                 static_cast<int>(height),
                                 TJPF_CMYK,
                                 &out,
                                 &size,
                                 TJSAMP_444,
                                 95,
                                 0);
  if (result != 0) throw std::runtime_error(tjGetErrorStr2(handle));
  std::string bytes(reinterpret_cast<char*>(out), size);
  tjFree(out);
  tjDestroy(handle);
  return bytes;
}

namespace {

// Its lowest or highest byte first.
std::string number_of_bytes(size_t value, int count, bool big_endian) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text.push_back(static_cast<char>(value >> (8 * (big_endian ? count - 1 - i : i)) & 255));
  return text;
}

}  // namespace

std::string exif_block(int orientation, bool big_endian) {
  const auto number = [&](size_t value, int count) {
    return number_of_bytes(value, count, big_endian);
  };
  std::string block(big_endian ? "MM" : "II");
  block += number(42, 2) + number(8, 4) + number(1, 2);
  block += number(0x0112, 2) + number(3, 2) + number(1, 4);
  return block + number(static_cast<size_t>(orientation), 2) + number(0, 2) + number(0, 4);
}

namespace {

std::string riff_chunk(const std::string& name, const std::string& content) {
  std::string chunk = name + number_of_bytes(content.size(), 4, false) + content;
  if (content.size() % 2 == 1) chunk.push_back('\0');
  return chunk;
}

}  // namespace

std::string png_chunk(const std::string& name, const std::string& content) {
  const std::string summed = name + content;
  const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(summed.data()), summed.size());
  return number_of_bytes(content.size(), 4, true) + summed + number_of_bytes(checksum, 4, true);
}

std::string with_chunk(const std::string& png, const std::string& chunk, bool behind) {
  constexpr size_t kHeader = 8 + 25, kEnd = 12;  // signature and IHDR; IEND
  const size_t at = behind ? png.size() - kEnd : kHeader;
  return png.substr(0, at) + chunk + png.substr(at);
}

std::string with_exif(const std::string& webp, const Size& size, const std::string& content) {
  constexpr size_t kExifFlag = 0x08;
  const auto less_one = [](int64_t side) {
    return number_of_bytes(static_cast<size_t>(side - 1), 3, false);
  };
  const std::string header =
      number_of_bytes(kExifFlag, 4, false) + less_one(size.width) + less_one(size.height);
  const std::string inside =
      "WEBP" + riff_chunk("VP8X", header) + webp.substr(12) + riff_chunk("EXIF", content);
  return riff_chunk("RIFF", inside);
}

std::string with_orientation(const std::string& jpeg, int orientation, bool big_endian) {
  const std::string content = std::string("Exif\0\0", 6) + exif_block(orientation, big_endian);
  const size_t length = content.size() + 2;
  std::string segment("\xff\xe1", 2);
  segment.push_back(static_cast<char>(length >> 8));
  segment.push_back(static_cast<char>(length & 255));
  return jpeg.substr(0, 2) + segment + content + jpeg.substr(2);
}

int largest_difference(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height || a.channels != b.channels) return 256;
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  }
  return largest;
}

std::string user_error(Exit code, const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.code() == code ? error.what() : "";
  }
  return "";
}

std::string input_error(const std::function<void()>& action) {
  return user_error(Exit::kInput, action);
}

size_t accepted_beginnings(std::string_view bytes,
                           const std::function<void(std::string_view)>& decode) {
  size_t accepted = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string part(bytes.substr(0, size));  // its own memory, so that sanitizers see more
    if (input_error([&] { decode(part); }).empty()) ++accepted;
  }
  return accepted;
}

size_t accepted_damage(std::string_view bytes,
                       int count,
                       const std::function<void(std::string_view)>& decode) {
  std::mt19937 random(1);
  size_t accepted = 0;
  for (int i = 0; i < count; ++i) {
    std::string damaged(bytes);
    for (unsigned k = 1 + random() % 4; k > 0; --k) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    if (input_error([&] { decode(damaged); }).empty()) ++accepted;
  }
  return accepted;
}

}  // namespace gantrain
