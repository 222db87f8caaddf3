// SPDX-License-Identifier: Apache-2.0
#include "image/resize.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "image/codec.h"
#include "image/weighted_sums.h"

namespace gantrain {

namespace {

double support_of(Filter filter) {
  switch (filter) {
    case Filter::kLanczos:
      return 3;
    case Filter::kBicubic:
      return 2;
    case Filter::kBilinear:
      return 1;
    default:
      return 0.5;
  }
}

double sinc(double x) { return x == 0 ? 1 : std::sin(M_PI * x) / (M_PI * x); }

double filter_at(Filter filter, double x) {
  const double d = std::abs(x);
  switch (filter) {
    case Filter::kLanczos:
      return d < 3 ? sinc(x) * sinc(x / 3) : 0;
    case Filter::kBicubic: {  // Keys 1981, a = -0.5
      constexpr double a = -0.5;
      if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
      return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
    }
    case Filter::kBilinear:
      return d < 1 ? 1 - d : 0;
    default:
      return x > -0.5 && x <= 0.5 ? 1 : 0;
  }
}

// Part [start, start + length) of an axis, brought to `count` pixels.
struct Axis {
  double start = 0;
  double length = 0;
  int64_t count = 0;
  int64_t limit = 0;  // pixels of the input
};

// Pillow's precompute_coeffs: the filter widens with the scale, and is cut at the borders.
Taps taps_of(const Axis& axis, Filter filter) {
  const double scale = axis.length / static_cast<double>(axis.count);
  const double widen = std::max(scale, 1.0);
  const double support = support_of(filter) * widen;
  const auto lowest = static_cast<int64_t>(std::floor(axis.start));
  const auto highest =
      std::min(static_cast<int64_t>(std::ceil(axis.start + axis.length)), axis.limit);
  Taps taps;
  taps.most = static_cast<int64_t>(std::ceil(2 * support)) + 1;
  taps.weights.resize(static_cast<size_t>(axis.count * taps.most));
  std::vector<double> weights(static_cast<size_t>(taps.most));
  for (int64_t i = 0; i < axis.count; ++i) {
    const double center = axis.start + (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max(static_cast<int64_t>(center - support + 0.5), lowest);
    const int64_t last = std::min(static_cast<int64_t>(center + support + 0.5), highest);
    const int64_t count = std::min(std::max<int64_t>(last - first, 0), taps.most);
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      double& weight = weights[static_cast<size_t>(k)];
      weight = filter_at(filter, (static_cast<double>(first + k) - center + 0.5) / widen);
      sum += weight;
    }
    taps.first.push_back(first);
    taps.count.push_back(count);
    for (int64_t k = 0; k < count; ++k) {
      taps.weights[static_cast<size_t>(i * taps.most + k)] =
          static_cast<float>(weights[static_cast<size_t>(k)] / sum);
    }
  }
  return taps;
}

// The pixels from `first` up to `last` that the taps of an axis touch; the taps then count from 0.
struct Touched {
  int64_t first = 0;
  int64_t last = 0;
};

Touched move_to_start(Taps& taps) {
  Touched touched{taps.first.front(), 0};
  for (const int64_t first : taps.first) touched.first = std::min(touched.first, first);
  for (size_t i = 0; i < taps.first.size(); ++i) {
    touched.last = std::max(touched.last, taps.first[i] + taps.count[i]);
    taps.first[i] -= touched.first;
  }
  return touched;
}

// Numbers of [pixels, kChannels] with an alpha channel as float, the colours times alpha.
template <int kChannels>
void premultiply(const uint8_t* in, int64_t pixels, float* out) {
  for (int64_t i = 0; i < pixels; ++i, in += kChannels, out += kChannels) {
    const float alpha = static_cast<float>(in[kChannels - 1]) / 255;
    for (int c = 0; c < kChannels - 1; ++c) out[c] = static_cast<float>(in[c]) * alpha;
    out[kChannels - 1] = static_cast<float>(in[kChannels - 1]);
  }
}

uint8_t to_byte(float value) {
  return static_cast<uint8_t>(std::min(std::max(value, 0.0f), 255.0f) + 0.5f);
}

template <int kChannels>
void to_bytes(const float* in, int64_t count, uint8_t* out) {
  constexpr int kColors = kChannels % 2 == 0 ? kChannels - 1 : kChannels;
  for (int64_t i = 0; i < count; ++i, in += kChannels, out += kChannels) {
    float factor = 1;
    if (kColors < kChannels) {
      const float alpha = in[kChannels - 1];
      factor = alpha > 0 ? 255 / alpha : 0;
      out[kChannels - 1] = to_byte(alpha);
    }
    for (int c = 0; c < kColors; ++c) out[c] = to_byte(in[c] * factor);
  }
}

// Down first, then across: sums of whole rows run at the speed of memory, and few rows are left
// for the slower sums within a row.
template <int kChannels>
void resample(const ImageView& image, Taps columns, Taps rows, Image& out) {
  const Touched x = move_to_start(columns);
  const Touched y = move_to_start(rows);
  const int64_t width = (x.last - x.first) * kChannels;
  const int64_t stride = image.width * kChannels;
  const uint8_t* corner = image.pixels + y.first * stride + x.first * kChannels;
  std::vector<float> premultiplied;
  if constexpr (kChannels % 2 == 0) {
    premultiplied.resize(static_cast<size_t>((y.last - y.first) * width));
    for (int64_t row = 0; row < y.last - y.first; ++row) {
      premultiply<kChannels>(
          corner + row * stride, width / kChannels, premultiplied.data() + row * width);
    }
  }
  std::vector<float> line(static_cast<size_t>(width) + 4);
  std::vector<float> result(static_cast<size_t>(out.width * kChannels));
  for (int64_t row = 0; row < out.height; ++row) {
    const int64_t first = rows.first[static_cast<size_t>(row)];
    const int64_t count = rows.count[static_cast<size_t>(row)];
    const float* weights = rows.weights_of(row);
    if constexpr (kChannels % 2 == 0) {
      sum_rows(premultiplied.data() + first * width, width, weights, count, width, line.data());
    } else {
      sum_rows(corner + first * stride, stride, weights, count, width, line.data());
    }
    sum_columns(line.data(), kChannels, columns, result.data());
    to_bytes<kChannels>(result.data(), out.width, out.pixels.data() + row * out.width * kChannels);
  }
}

}  // namespace

Image resize(const ImageView& image, const Box& box, Size size, Filter filter) {
  const bool inside = box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0 &&
                      box.left + box.width <= static_cast<double>(image.width) &&
                      box.top + box.height <= static_cast<double>(image.height);
  if (!inside || size.width < 1 || size.height < 1) throw std::invalid_argument("resize: bad box");
  Taps columns = taps_of({box.left, box.width, size.width, image.width}, filter);
  Taps rows = taps_of({box.top, box.height, size.height, image.height}, filter);
  Image out;
  set_size(out, {size.width, size.height, image.channels});
  switch (image.channels) {
    case 1:
      resample<1>(image, std::move(columns), std::move(rows), out);
      break;
    case 2:
      resample<2>(image, std::move(columns), std::move(rows), out);
      break;
    case 3:
      resample<3>(image, std::move(columns), std::move(rows), out);
      break;
    default:
      resample<4>(image, std::move(columns), std::move(rows), out);
  }
  return out;
}

Image resize(const ImageView& image, Size size, Filter filter) {
  const Box whole = {0, 0, static_cast<double>(image.width), static_cast<double>(image.height)};
  return resize(image, whole, size, filter);
}

Image resize(const Image& image, const Box& box, Size size, Filter filter) {
  check_image(image);
  return resize(view_of(image), box, size, filter);
}

Image resize(const Image& image, Size size, Filter filter) {
  check_image(image);
  return resize(view_of(image), size, filter);
}

}  // namespace gantrain
