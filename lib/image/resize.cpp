// SPDX-License-Identifier: Apache-2.0
#include "image/resize.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "image/codec.h"

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

// One output pixel is the sum of weights[k] * input[first + k].
struct Taps {
  int64_t first = 0;
  std::vector<float> weights;
};

// Part [start, start + length) of an axis, brought to `count` pixels.
struct Axis {
  double start = 0;
  double length = 0;
  int64_t count = 0;
  int64_t limit = 0;  // pixels of the input
};

// Pillow's precompute_coeffs: the filter widens with the scale, and is cut at the borders.
std::vector<Taps> taps_of(const Axis& axis, Filter filter) {
  const double scale = axis.length / static_cast<double>(axis.count);
  const double widen = std::max(scale, 1.0);
  const double support = support_of(filter) * widen;
  const auto lowest = static_cast<int64_t>(std::floor(axis.start));
  const auto highest =
      std::min(static_cast<int64_t>(std::ceil(axis.start + axis.length)), axis.limit);
  std::vector<Taps> taps(static_cast<size_t>(axis.count));
  for (int64_t i = 0; i < axis.count; ++i) {
    const double center = axis.start + (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max(static_cast<int64_t>(center - support + 0.5), lowest);
    const int64_t last = std::min(static_cast<int64_t>(center + support + 0.5), highest);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t k = first; k < last; ++k) {
      weights.push_back(filter_at(filter, (static_cast<double>(k) - center + 0.5) / widen));
      sum += weights.back();
    }
    Taps& tap = taps[static_cast<size_t>(i)];
    tap.first = first;
    for (const double weight : weights) tap.weights.push_back(static_cast<float>(weight / sum));
  }
  return taps;
}

// Rows as float, colours times alpha where there is alpha.
template <int kChannels>
void to_float(const uint8_t* in, int64_t count, float* out) {
  constexpr int kColors = kChannels % 2 == 0 ? kChannels - 1 : kChannels;
  for (int64_t i = 0; i < count; ++i, in += kChannels, out += kChannels) {
    const float alpha = kColors < kChannels ? static_cast<float>(in[kChannels - 1]) / 255 : 1;
    for (int c = 0; c < kColors; ++c) out[c] = static_cast<float>(in[c]) * alpha;
    if (kColors < kChannels) out[kChannels - 1] = static_cast<float>(in[kChannels - 1]);
  }
}

template <int kChannels>
void across(const float* in, const std::vector<Taps>& taps, float* out) {
  for (const Taps& tap : taps) {
    float sum[kChannels] = {};
    const float* from = in + tap.first * kChannels;
    for (const float weight : tap.weights) {
      for (int c = 0; c < kChannels; ++c) sum[c] += weight * from[c];
      from += kChannels;
    }
    out = std::copy_n(sum, kChannels, out);
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

void add_scaled(const float* in, float weight, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] += weight * in[i];
}

// Down first, then across: sums of whole rows run at the speed of memory, and few rows are left
// for the slower sums within a row. Each input row is read once and added to the rows it touches.
template <int kChannels>
void resample(const Image& image,
              const std::vector<Taps>& columns,
              const std::vector<Taps>& rows,
              Image& out) {
  const int64_t width = image.width * kChannels;
  std::vector<float> line(static_cast<size_t>(width));
  std::vector<float> sums(static_cast<size_t>(width * out.height));
  size_t touched = 0;  // rows before it are complete, since taps only move on
  for (int64_t y = rows.front().first; y < image.height && touched < rows.size(); ++y) {
    to_float<kChannels>(&image.pixels[static_cast<size_t>(y * width)], image.width, line.data());
    for (size_t row = touched; row < rows.size() && rows[row].first <= y; ++row) {
      const auto tap = static_cast<size_t>(y - rows[row].first);
      if (tap < rows[row].weights.size()) {
        add_scaled(
            line.data(), rows[row].weights[tap], width, &sums[row * static_cast<size_t>(width)]);
      } else if (row == touched) {
        ++touched;
      }
    }
  }
  std::vector<float> result(static_cast<size_t>(out.width * kChannels));
  for (int64_t y = 0; y < out.height; ++y) {
    across<kChannels>(&sums[static_cast<size_t>(y * width)], columns, result.data());
    to_bytes<kChannels>(
        result.data(), out.width, &out.pixels[static_cast<size_t>(y * out.width * kChannels)]);
  }
}

}  // namespace

Image resize(const Image& image, const Box& box, Size size, Filter filter) {
  check_image(image);
  const bool inside = box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0 &&
                      box.left + box.width <= static_cast<double>(image.width) &&
                      box.top + box.height <= static_cast<double>(image.height);
  if (!inside || size.width < 1 || size.height < 1) throw std::invalid_argument("resize: bad box");
  const auto columns = taps_of({box.left, box.width, size.width, image.width}, filter);
  const auto rows = taps_of({box.top, box.height, size.height, image.height}, filter);
  Image out{.width = size.width, .height = size.height, .channels = image.channels};
  out.pixels.resize(static_cast<size_t>(size.width * size.height * image.channels));
  switch (image.channels) {
    case 1:
      resample<1>(image, columns, rows, out);
      break;
    case 2:
      resample<2>(image, columns, rows, out);
      break;
    case 3:
      resample<3>(image, columns, rows, out);
      break;
    default:
      resample<4>(image, columns, rows, out);
  }
  return out;
}

Image resize(const Image& image, Size size, Filter filter) {
  const Box whole = {0, 0, static_cast<double>(image.width), static_cast<double>(image.height)};
  return resize(image, whole, size, filter);
}

}  // namespace gantrain
