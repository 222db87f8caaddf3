// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <regex>
#include <stdexcept>

#include "image/codec.h"
#include "image/image.h"
#include "util/error.h"
#include "util/text.h"

// numpy's arrays as pictures (NEP 1, the .npy format).

namespace gantrain {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostNpyHeader = 4096;  // bytes; numpy's own are of 118
constexpr const char* kTypes = "uint8, uint16 or floating point from 0 to 1";
static_assert(std::endian::native == std::endian::little, "npy: values are copied as they lie");

// Where the header begins and how long it is. Version 1 has two bytes for it, later ones four.
struct HeaderPlace {
  size_t start = 0;
  size_t length = 0;
};

HeaderPlace header_place(std::string_view bytes, const std::string& name) {
  if (!starts_with(bytes, kMagic) || bytes.size() < 12)
    fail(Exit::kInput, "{}: broken .npy: the file ends too early", name);
  const auto byte = [&](size_t at) { return size_t{static_cast<uint8_t>(bytes[at])}; };
  const bool first = byte(6) == 1;
  HeaderPlace place{first ? size_t{10} : size_t{12}, byte(8) | byte(9) << 8};
  if (!first) place.length |= byte(10) << 16 | byte(11) << 24;
  if (byte(6) < 1 || byte(6) > 3) fail(Exit::kInput, "{}: .npy of an unknown version", name);
  if (place.length > kMostNpyHeader)
    fail(Exit::kInput, "{}: broken .npy: a header of {} bytes", name, place.length);
  if (bytes.size() < place.start + place.length)
    fail(Exit::kInput, "{}: broken .npy: the file ends too early", name);
  return place;
}

// Bytes of a value; 0 for types that no picture has.
int64_t bytes_of_type(const std::string& type) {
  if (type == "|u1" || type == "<u1" || type == "u1") return 1;
  if (type == "<u2" || type == ">u2" || type == "<f2") return 2;
  if (type == "<f4" || type == ">f4") return 4;
  if (type == "<f8" || type == ">f8") return 8;
  return 0;
}

// A picture's axes, in values from one place to the next.
struct Axes {
  int64_t height = 0, width = 0, channels = 0;
  int64_t down = 0, across = 0, between = 0;
};

Axes axes_of(const NpyForm& form, const std::string& name) {
  const std::vector<int64_t>& shape = form.shape;
  const std::string text = fmt::format("{}", fmt::join(shape, ", "));
  if (shape.size() != 2 && shape.size() != 3) {
    fail(Exit::kInput,
         "{}: shape ({}): a picture is [H, W], [H, W, C] or [C, H, W]{}",
         name,
         text,
         shape.size() == 4 ? "; several pictures in one file are given as --data FILE.npy" : "");
  }
  const auto rank = shape.size();
  std::vector<int64_t> strides(rank, 1);
  for (size_t i = 1; i < rank; ++i) {
    const size_t at = form.by_columns ? i : rank - 1 - i;
    const size_t inner = form.by_columns ? at - 1 : at + 1;
    strides[at] = strides[inner] * shape[inner];
  }
  if (rank == 2) return {shape[0], shape[1], 1, strides[0], strides[1], 0};
  const bool first = shape[0] < shape[2];
  const size_t c = first ? 0 : 2, h = first ? 1 : 0, w = first ? 2 : 1;
  const Axes axes{shape[h], shape[w], shape[c], strides[h], strides[w], strides[c]};
  if (axes.channels > kMaxChannels) {
    fail(Exit::kInput,
         "{}: shape ({}): {} channels, 1 to {} are taken",
         name,
         text,
         axes.channels,
         kMaxChannels);
  }
  return axes;
}

ImageInfo info_of(const NpyForm& form, const Axes& axes, const std::string& name) {
  const ImageInfo info{axes.width,
                       axes.height,
                       axes.channels,
                       form.value_bytes == 1 ? 8 : 16,
                       is_stack(axes.channels)};
  check_size(info, name, ".npy");
  return info;
}

template <class Number>
Number number_at(const char* at, bool swapped) {
  char bytes[sizeof(Number)];
  std::copy_n(at, sizeof(Number), bytes);
  if (swapped) std::reverse(bytes, bytes + sizeof(Number));
  Number number;
  std::memcpy(&number, bytes, sizeof(Number));
  return number;
}

// IEEE 754 binary16.
double half_at(const char* at) {
  const auto bits = number_at<uint16_t>(at, false);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// The values in the picture's order: pixel by pixel, the channels side by side.
template <class Put>
void each_value(const Axes& axes, const Put& put) {
  int64_t index = 0;
  for (int64_t y = 0; y < axes.height; ++y) {
    for (int64_t x = 0; x < axes.width; ++x) {
      for (int64_t c = 0; c < axes.channels; ++c)
        put(y * axes.down + x * axes.across + c * axes.between, index++);
    }
  }
}

std::string type_of(const Image& image) { return image.depth == 8 ? "|u1" : "<u2"; }

void append_pixels(const Image& image, std::string& bytes) {
  check_image(image);
  bytes.append(reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size());
}

}  // namespace

// Filled up to a multiple of 64 bytes, as numpy does.
std::string npy_header(const std::string& type, const std::vector<int64_t>& shape) {
  std::string head = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, fmt::join(shape, ", "));
  const size_t whole = (10 + head.size() + 1 + 63) / 64 * 64;
  head.resize(whole - 10 - 1, ' ');
  head += '\n';
  std::string bytes(kMagic);
  bytes += '\1';
  bytes += '\0';
  bytes += static_cast<char>(head.size() & 0xff);
  bytes += static_cast<char>(head.size() >> 8);
  return bytes + head;
}

int64_t NpyForm::values() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

NpyForm npy_form(std::string_view bytes, const std::string& name) {
  const HeaderPlace place = header_place(bytes, name);
  const std::string header(bytes.substr(place.start, place.length));
  static const std::regex pattern(
      "'descr': *'([^']*)'.*'fortran_order': *(True|False).*'shape': *\\(([^)]*)\\)");
  std::smatch match;
  if (!std::regex_search(header, match, pattern))
    fail(Exit::kInput, "{}: broken .npy: a header that is not understood", name);
  NpyForm form{.type = match[1].str(),
               .by_columns = match[2] == "True",
               .shape = {},
               .start = place.start + place.length,
               .value_bytes = bytes_of_type(match[1].str())};
  if (form.value_bytes == 0)
    fail(Exit::kInput, "{}: dtype {}; pictures are {}", name, form.type, kTypes);
  double values = 1;
  for (const std::string& part : split(match[3].str(), ',')) {
    if (trim(part).empty()) continue;
    const auto extent = parse_int(trim(part));
    if (!extent || *extent < 1)
      fail(Exit::kInput, "{}: shape ({}) holds no picture", name, match[3].str());
    form.shape.push_back(*extent);
    values *= static_cast<double>(*extent);
  }
  if (values > 1e15) fail(Exit::kInput, "{}: shape ({}) is too large", name, match[3].str());
  return form;
}

ImageInfo info_of_npy(std::string_view bytes, const std::string& name) {
  const NpyForm form = npy_form(bytes, name);
  return info_of(form, axes_of(form, name), name);
}

void put_fraction(double value, int64_t index, const std::string& name, uint16_t& out) {
  if (!(value >= 0 && value <= 1)) {
    fail(Exit::kInput,
         "{}: value {} is {}; floating-point pictures have values from 0 to 1",
         name,
         index,
         std::isnan(value) ? "NaN" : fmt::format("{:g}", value));
  }
  out = static_cast<uint16_t>(std::lround(value * 65535));
}

void decode_npy(std::string_view bytes, const std::string& name, Image& image) {
  const NpyForm form = npy_form(bytes, name);
  const Axes axes = axes_of(form, name);
  const ImageInfo info = info_of(form, axes, name);
  // Compared before any memory is taken: a broken shape may be of any size.
  const auto there = static_cast<int64_t>(bytes.size() - form.start);
  if (there != form.values() * form.value_bytes) {
    fail(Exit::kInput,
         "{}: broken .npy: {} bytes of values, shape ({}) needs {}",
         name,
         there,
         fmt::join(form.shape, ", "),
         form.values() * form.value_bytes);
  }
  set_size(image, info);
  const char* values = bytes.data() + form.start;
  const bool swapped = form.type[0] == '>';
  uint16_t* words = words_of(image.pixels);
  if (form.value_bytes == 1) {
    each_value(axes, [&](int64_t from, int64_t to) {
      image.pixels[static_cast<size_t>(to)] = static_cast<uint8_t>(values[from]);
    });
  } else if (form.type[1] == 'u') {
    each_value(axes, [&](int64_t from, int64_t to) {
      words[to] = number_at<uint16_t>(values + 2 * from, swapped);
    });
  } else {
    each_value(axes, [&](int64_t from, int64_t to) {
      const char* at = values + from * form.value_bytes;
      const double value = form.value_bytes == 2   ? half_at(at)
                           : form.value_bytes == 4 ? double{number_at<float>(at, swapped)}
                                                   : number_at<double>(at, swapped);
      put_fraction(value, from, name, words[to]);
    });
  }
}

std::string encode_npy(const Image& image) {
  std::string bytes = npy_header(type_of(image), {image.height, image.width, image.channels});
  append_pixels(image, bytes);
  return bytes;
}

std::string encode_npy(const std::vector<Image>& images) {
  const Image& first = images.at(0);
  std::string bytes =
      npy_header(type_of(first),
                 {static_cast<int64_t>(images.size()), first.height, first.width, first.channels});
  for (const Image& image : images) {
    if (image.pixels.size() != first.pixels.size())
      throw std::invalid_argument("encode_npy: pictures of two sizes");
    append_pixels(image, bytes);
  }
  return bytes;
}

}  // namespace gantrain
