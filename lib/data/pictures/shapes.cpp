// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/random.h"
#include "data/labels/labels.h"
#include "data/pictures/dataset.h"
#include "image/image.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr int64_t kClasses = 10;
constexpr std::string_view kNames =
    "disc ring square triangle star cross heart crescent hexagon diamond";

// Signed distances to outlines of about radius 1 around the origin, negative inside; y points
// down. Exact near edges, which is all that antialiasing needs.

// Distance to the k-th of n lines at distance `apothem` around the origin, the first above it.
struct Line {
  float x, y;
};
template <int kCount>
std::array<Line, kCount> regular() {
  std::array<Line, kCount> lines;
  for (int k = 0; k < kCount; ++k) {
    const double angle = 2 * M_PI * k / kCount + M_PI / 2;
    lines[static_cast<size_t>(k)] = {static_cast<float>(std::cos(angle)),
                                     static_cast<float>(std::sin(angle))};
  }
  return lines;
}

template <int kCount>
float polygon(const std::array<Line, kCount>& lines, float apothem, float x, float y) {
  float d = -2;
  for (const Line& line : lines) d = std::max(d, line.x * x + line.y * y);
  return d - apothem;
}

// A pentagram is what lies outside of at most one of its five lines: the second largest distance.
float pentagram(const std::array<Line, 5>& lines, float apothem, float x, float y) {
  float largest = -2;
  float second = -2;
  for (const Line& line : lines) {
    const float d = line.x * x + line.y * y;
    second = std::max(second, std::min(largest, d));
    largest = std::max(largest, d);
  }
  return second - apothem;
}

float length(float x, float y) { return std::sqrt(x * x + y * y); }

float box(float x, float y, float half_width, float half_height) {
  return std::max(std::abs(x) - half_width, std::abs(y) - half_height);
}

// A square on its corner with a disc on each of its upper sides.
float heart(float x, float y) {
  constexpr float kHalf = 0.57f;  // of the square's side
  const float u = (x + y - 0.16f) * 0.70710678f;
  const float v = (y - x - 0.16f) * 0.70710678f;
  const float square = box(u, v, kHalf, kHalf);
  const float discs = std::min(length(u, v + kHalf), length(u + kHalf, v)) - kHalf;
  return std::min(square, discs);
}

struct Color {
  float r, g, b;
};

// Hue in turns, the rest 0..1; result 0..255.
Color from_hsv(float hue, float saturation, float value) {
  const auto channel = [&](float offset) {
    const float k = std::fmod(offset + hue * 6, 6.0f);
    const float dip = std::clamp(std::min(k, 4 - k), 0.0f, 1.0f);
    return 255 * value * (1 - saturation * dip);
  };
  return {channel(5), channel(3), channel(1)};
}

// Darkened as far as its luma (ITU-R BT.601) asks for: lime and cyan would drown in pale ground.
Color at_most(Color color, float luma) {
  const float own = 0.299f * color.r + 0.587f * color.g + 0.114f * color.b;
  const float factor = std::min(luma / own, 1.0f);
  return {factor * color.r, factor * color.g, factor * color.b};
}

enum class Texture { kPlain, kStripes, kDots, kShaded };

// Everything that is drawn by lot, in units of the picture's shorter side. Squares are drawn from
// (0, 0) to (1, 1); a longer side reaches beyond both ends.
struct Scene {
  int shape;
  float center_x, center_y, radius, cosine, sine;
  Color top, bottom;  // background
  float slope_x, slope_y;
  Color paint, accent;
  Texture texture;
  float frequency, wave_x, wave_y;
};

// How far a side of a picture reaches beyond each end of the square in its middle.
float beyond_square(int64_t side, int64_t shorter) {
  return 0.5f * (static_cast<float>(side) / static_cast<float>(shorter) - 1);
}

// Saturated and rather dark shapes on pale ground: contrast that survives 16 pixels.
Scene scene_of(int64_t index, const Size& size) {
  std::array<float, 20> u;
  Stream(0, "synth/shapes").uniform(u.data(), u.size(), static_cast<uint64_t>(index));
  Scene s;
  s.shape = static_cast<int>(index % kClasses);
  s.radius = 0.28f + 0.13f * u[0];
  const float play = std::min(0.48f - 1.08f * s.radius, 0.1f);
  s.center_x = 0.5f + (play + beyond_square(size.width, size.shorter())) * (2 * u[1] - 1);
  s.center_y = 0.5f + (play + beyond_square(size.height, size.shorter())) * (2 * u[2] - 1);
  const float turn = 0.5f * (u[3] - 0.5f);
  s.cosine = std::cos(turn);
  s.sine = std::sin(turn);
  s.top = from_hsv(u[4], 0.16f * u[5], 0.86f + 0.14f * u[6]);
  s.bottom = from_hsv(u[4] + 0.08f, 0.10f + 0.14f * u[7], 0.82f + 0.12f * u[8]);
  const float slope = static_cast<float>(2 * M_PI) * u[9];
  s.slope_x = std::cos(slope);
  s.slope_y = std::sin(slope);
  const float value = 0.55f + 0.25f * u[11];
  s.paint = at_most(from_hsv(u[10], 0.75f + 0.2f * u[12], value), 140);
  const bool lighter = u[13] < 0.5f;
  const Color accent = from_hsv(u[10] + 0.12f * (u[14] - 0.5f),
                                lighter ? 0.45f : 0.9f,
                                lighter ? std::min(value + 0.2f, 1.0f) : 0.45f * value);
  s.accent = at_most(accent, 175);
  s.texture = static_cast<Texture>(std::max(static_cast<int>(5 * u[15]) - 1, 0));  // 2 in 5 plain
  s.frequency = 1.3f + 0.6f * u[16];
  const float wave = static_cast<float>(M_PI) * u[17];
  s.wave_x = std::cos(wave);
  s.wave_y = std::sin(wave);
  return s;
}

// Share of a pixel that lies inside, for a distance in pixels.
float coverage(float distance) { return std::clamp(0.5f - distance, 0.0f, 1.0f); }

// How much of the accent shows at (x, y) in units of the radius; `pixels` is the radius in pixels.
float accent_at(const Scene& s, float x, float y, float pixels) {
  const float u = s.wave_x * x + s.wave_y * y;
  const float v = s.wave_x * y - s.wave_y * x;
  const float step = pixels / s.frequency;
  const auto wrapped = [&](float t) {
    return t * s.frequency - std::floor(t * s.frequency) - 0.5f;
  };
  switch (s.texture) {
    case Texture::kStripes:
      return coverage((std::abs(wrapped(u)) - 0.25f) * step);
    case Texture::kDots:
      return coverage((length(wrapped(u), wrapped(v)) - 0.27f) * step);
    case Texture::kShaded:
      return std::clamp(0.5f + 0.5f * u, 0.0f, 1.0f);
    default:
      return 0;
  }
}

uint8_t to_byte(float value) {
  return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f) + 0.5f);
}

uint8_t* put(const Scene& s, float ground, float cover, float accent, uint8_t* out) {
  const auto mix = [&](float top, float bottom, float paint, float other) {
    const float back = top + ground * (bottom - top);
    const float front = paint + accent * (other - paint);
    return to_byte(back + cover * (front - back));
  };
  out[0] = mix(s.top.r, s.bottom.r, s.paint.r, s.accent.r);
  out[1] = mix(s.top.g, s.bottom.g, s.paint.g, s.accent.g);
  out[2] = mix(s.top.b, s.bottom.b, s.paint.b, s.accent.b);
  return out + 3;
}

template <class Distance>
void draw(const Scene& s, Image& image, const Distance& distance) {
  const int64_t shorter = std::min(image.width, image.height);
  const float pixel = 1 / static_cast<float>(shorter);
  const float left = beyond_square(image.width, shorter),
              above = beyond_square(image.height, shorter);
  const float pixels = s.radius / pixel;
  uint8_t* out = image.pixels.data();
  for (int64_t row = 0; row < image.height; ++row) {
    const float py = (static_cast<float>(row) + 0.5f) * pixel - above;
    for (int64_t column = 0; column < image.width; ++column) {
      const float px = (static_cast<float>(column) + 0.5f) * pixel - left;
      const float dx = (px - s.center_x) / s.radius;
      const float dy = (py - s.center_y) / s.radius;
      const float x = s.cosine * dx + s.sine * dy;
      const float y = s.cosine * dy - s.sine * dx;
      const float cover = coverage(distance(x, y) * pixels);
      const float accent = cover > 0 ? accent_at(s, x, y, pixels) : 0;
      const float ground =
          std::clamp(0.5f + 0.7f * ((px - 0.5f) * s.slope_x + (py - 0.5f) * s.slope_y), 0.0f, 1.0f);
      out = put(s, ground, cover, accent, out);
    }
  }
}

void draw_shape(const Scene& s, Image& image) {
  switch (s.shape) {
    case 0:
      return draw(s, image, [](float x, float y) { return length(x, y) - 0.95f; });
    case 1:
      return draw(
          s, image, [](float x, float y) { return std::abs(length(x, y) - 0.72f) - 0.26f; });
    case 2:
      return draw(s, image, [](float x, float y) { return box(x, y, 0.82f, 0.82f); });
    case 3:
      return draw(s, image, [lines = regular<3>()](float x, float y) {
        return polygon<3>(lines, 0.56f, x, y - 0.2f);
      });
    case 4:
      return draw(s, image, [lines = regular<5>()](float x, float y) {
        return pentagram(lines, 0.34f, x, y - 0.05f);
      });
    case 5:
      return draw(s, image, [](float x, float y) {
        return std::min(box(x, y, 0.98f, 0.33f), box(x, y, 0.33f, 0.98f));
      });
    case 6:
      return draw(s, image, heart);
    case 7:
      return draw(s, image, [](float x, float y) {
        return std::max(length(x, y) - 1, 0.8f - length(x - 0.5f, y));
      });
    case 8:
      return draw(s, image, [lines = regular<6>()](float x, float y) {
        return polygon<6>(lines, 0.85f, x, y);
      });
    default:
      return draw(s, image, [](float x, float y) {
        return (std::abs(x) * 1.6f + std::abs(y) - 1.15f) * 0.53f;  // 1 / sqrt(1.6^2 + 1)
      });
  }
}

class Shapes final : public Dataset {
 public:
  explicit Shapes(const DataOptions& options)
      : size_(options.synth_size),
        resolution_(options.resolution),
        channels_(options.channels.value_or(3)),
        depth_(options.depth == Depth::k16 ? 16 : 8) {}

  int64_t size() const override { return size_; }
  int64_t channels() const override { return channels_; }
  int64_t depth() const override { return depth_; }
  int64_t classes() const override { return kClasses; }
  int64_t label(int64_t index) const override { return index % kClasses; }
  std::string class_name(int64_t label) const override {
    return split(kNames, ' ').at(static_cast<size_t>(label));
  }

  Image load(int64_t index) const override {
    Image image{.width = resolution_.width, .height = resolution_.height, .channels = 3};
    image.pixels.resize(static_cast<size_t>(resolution_.pixels() * 3));
    draw_shape(scene_of(index, resolution_), image);
    if (channels_ > kMostColors)
      image = repeated(image);
    else
      image = with_channels(std::move(image), channels_);
    return in_depth(std::move(image), depth_);
  }

  std::string description() const override {
    return fmt::format("synth:shapes, {} built-in pictures, {}x{}x{}{}, {} classes",
                       size_,
                       resolution_.width,
                       resolution_.height,
                       channels_,
                       depth_ == 16 ? ", 16 bits" : "",
                       kClasses);
  }

 private:
  // Red, green, blue, red, ... of a stack.
  Image repeated(const Image& image) const {
    std::vector<Image> channels;
    for (int64_t c = 0; c < channels_; ++c)
      channels.push_back(only_channels(view_of(image), {c % 3}));
    return stacked(channels);
  }

  int64_t size_;
  Size resolution_;
  int64_t channels_;
  int64_t depth_;
};

// An ellipse of saturated colour on pale ground, which differs from picture to picture.
Scene scene_of(const ShapeAttributes& shown, int64_t index, const Size& size) {
  std::array<float, 8> u;
  Stream(0, "synth/attributes/scene").uniform(u.data(), u.size(), static_cast<uint64_t>(index));
  const auto ink = [](bool on) { return on ? 200.0f : 25.0f; };
  Scene s = {};
  s.radius = static_cast<float>(ShapeOutline::kSmallest +
                                (ShapeOutline::kLargest - ShapeOutline::kSmallest) *
                                    static_cast<double>(shown.size));
  const float play = std::min(0.46f - s.radius, 0.06f);
  s.center_x = 0.5f + (play + beyond_square(size.width, size.shorter())) * (2 * u[0] - 1);
  s.center_y = 0.5f + (play + beyond_square(size.height, size.shorter())) * (2 * u[1] - 1);
  const float turn = static_cast<float>(ShapeOutline::kMostAngle) * shown.angle;
  s.cosine = std::cos(turn);
  s.sine = -std::sin(turn);  // y points down
  s.top = from_hsv(u[2], 0.08f * u[3], 0.88f + 0.1f * u[4]);
  s.bottom = from_hsv(u[2] + 0.1f, 0.08f * u[5], 0.88f + 0.1f * u[6]);
  const float slope = static_cast<float>(2 * M_PI) * u[7];
  s.slope_x = std::cos(slope);
  s.slope_y = std::sin(slope);
  s.paint = s.accent = {ink(shown.red), ink(shown.green), ink(shown.blue)};
  return s;
}

// Distance to an ellipse with half axes 1 and 1 / kRatio, exact near its edge.
float ellipse(float x, float y) {
  constexpr float kRatio = static_cast<float>(ShapeOutline::kRatio);
  const float level = length(x, kRatio * y);
  const float slope = length(x, kRatio * kRatio * y);
  return slope > 0 ? (level - 1) * level / slope : -1 / kRatio;
}

class AttributeShapes final : public Dataset {
 public:
  explicit AttributeShapes(const DataOptions& options)
      : size_(options.synth_size),
        resolution_(options.resolution),
        channels_(options.channels.value_or(3)) {
    vectors_.names = {"red", "green", "blue", "size", "angle"};
    const auto number = [](bool on) { return on ? 1.0f : 0.0f; };
    for (int64_t i = 0; i < size_; ++i) {
      const ShapeAttributes a = attributes_of_shape(i);
      for (const float value : {number(a.red), number(a.green), number(a.blue), a.size, a.angle})
        vectors_.values.push_back(value);
    }
  }

  int64_t size() const override { return size_; }
  int64_t channels() const override { return channels_; }
  int64_t classes() const override { return 0; }
  int64_t label(int64_t) const override { return 0; }
  const LabelVectors& vectors() const override { return vectors_; }

  Image load(int64_t index) const override {
    Image image{.width = resolution_.width, .height = resolution_.height, .channels = 3};
    image.pixels.resize(static_cast<size_t>(resolution_.pixels() * 3));
    draw(scene_of(attributes_of_shape(index), index, resolution_), image, ellipse);
    return with_channels(std::move(image), channels_);
  }

  std::string description() const override {
    return fmt::format(
        "synth:shapes-attributes, {} built-in pictures, {}x{}x{}, labels of {} numbers",
        size_,
        resolution_.width,
        resolution_.height,
        channels_,
        vectors_.length());
  }

 private:
  int64_t size_;
  Size resolution_;
  int64_t channels_;
  LabelVectors vectors_;
};

}  // namespace

ShapeAttributes attributes_of_shape(int64_t index) {
  std::array<float, 4> u;
  Stream(0, "synth/attributes").uniform(u.data(), u.size(), static_cast<uint64_t>(index));
  const int color = 1 + std::min(static_cast<int>(6 * u[0]), 5);  // neither none nor all
  return {.red = (color & 1) != 0,
          .green = (color & 2) != 0,
          .blue = (color & 4) != 0,
          .size = u[1],
          .angle = 2 * u[2] - 1};
}

std::shared_ptr<const Dataset> make_shapes(const DataOptions& options) {
  if (options.path == kAttributeShapes) return std::make_shared<AttributeShapes>(options);
  return std::make_shared<Shapes>(options);
}

}  // namespace gantrain
