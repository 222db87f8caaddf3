// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "config/value.h"

namespace gantrain {

enum class RampShape { kLinear, kCosine, kStep };
constexpr std::array<std::string_view, 3> names(RampShape) { return {"linear", "cosine", "step"}; }

// A hyperparameter that may move with the images seen: a number that stays, or a ramp from one
// number to another over the first `length` images. A pure function of the images seen, so a
// resumed run has the very same numbers. In text: 0.002, or {"from": a, "to": b, "kimg": k,
// "shape": "linear"|"cosine"|"step"}, where `kimg` takes what Kimg takes, more than 0, and `shape`
// may be left out: linear.
struct Scheduled {
  double from = 0;
  double to = 0;
  Kimg length{0};  // 0: the number stays `from`
  RampShape shape = RampShape::kLinear;

  Scheduled() = default;
  Scheduled(double constant) : from(constant), to(constant) {}  // NOLINT: a number is a schedule
  Scheduled(double start, double end, Kimg over, RampShape how)
      : from(start), to(end), length(over), shape(how) {}

  bool is_constant() const { return length.images == 0 || from == to; }
  // The value while the image with that number is trained: `from` at 0, `to` from `length` on;
  // between them along a line or half a cosine; a step jumps at `length`.
  double at(int64_t images_seen) const;

  friend bool operator==(const Scheduled& a, const Scheduled& b) {
    return a.from == b.from && a.to == b.to && a.length.images == b.length.images &&
           a.shape == b.shape;
  }
};

// The same schedule of values that are `factor` times as large.
Scheduled scaled(const Scheduled& schedule, double factor);

// "0.9 to 0.99 over 2000 kimg, cosine", "1 to 0 at 500 kimg, step", or the number that stays.
std::string ramp_text(const Scheduled& schedule);

// A length in images that may move with the images seen, such as a half-life. In text as a
// Scheduled whose ends take what Kimg takes: 10, 200k, {"from": 0, "to": "5M", "kimg": "20M"}.
struct ScheduledKimg {
  Scheduled images;

  ScheduledKimg() = default;
  ScheduledKimg(Kimg constant)
      : images(static_cast<double>(constant.images)) {}  // NOLINT: as above
  explicit ScheduledKimg(const Scheduled& of_images) : images(of_images) {}

  // In images; not rounded to whole ones.
  double at(int64_t images_seen) const { return images.at(images_seen); }
};

template <>
struct Value<Scheduled> {
  static std::string type() { return "number or {from, to, kimg, shape}"; }
  static std::optional<Scheduled> from_text(std::string_view text);
  // A number where it is constant.
  static Json to_json(const Scheduled& value);
};

template <>
struct Value<ScheduledKimg> {
  static std::string type() { return Value<Kimg>::type() + " or {from, to, kimg, shape}"; }
  static std::optional<ScheduledKimg> from_text(std::string_view text);
  static Json to_json(const ScheduledKimg& value);
};

}  // namespace gantrain
