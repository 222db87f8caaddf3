// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "config/value.h"

namespace gantrain {

enum class RampShape { kLinear, kCosine, kStep };
constexpr std::array<std::string_view, 3> names(RampShape) { return {"linear", "cosine", "step"}; }

// A hyperparameter that may change with the images seen: a constant number, or a ramp from one
// number to another over the first `length` images. It is a pure function of the images seen, so a
// resumed run has the same numbers. In text it is 0.002, or {"from": a, "to": b, "kimg": k,
// "shape": "linear"|"cosine"|"step"}. `kimg` is written as a Kimg and must be above 0; without
// `shape` the ramp is linear.
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
  // Returns the value while the image with that number is trained: `from` at 0, `to` from `length`
  // on, and between them a line or half a cosine; a step jumps at `length`.
  double at(int64_t images_seen) const;

  friend bool operator==(const Scheduled& a, const Scheduled& b) {
    return a.from == b.from && a.to == b.to && a.length.images == b.length.images &&
           a.shape == b.shape;
  }
};

// Returns the schedule with all values multiplied by `factor`.
Scheduled scaled(const Scheduled& schedule, double factor);

// Describes the schedule: "0.9 to 0.99 over 2000 kimg, cosine", "1 to 0 at 500 kimg, step", or the
// constant number.
std::string ramp_text(const Scheduled& schedule);

// A length in images that may change with the images seen, such as a half-life. In text it is a
// Scheduled whose ends are written as a Kimg: 10, 200k, {"from": 0, "to": "5M", "kimg": "20M"}.
struct ScheduledKimg {
  Scheduled images;

  ScheduledKimg() = default;
  ScheduledKimg(Kimg constant)  // NOLINT: as above
      : images(static_cast<double>(constant.images)) {}
  explicit ScheduledKimg(const Scheduled& of_images) : images(of_images) {}

  // Returns the length in images, not rounded to a whole number.
  double at(int64_t images_seen) const { return images.at(images_seen); }
};

template <>
struct Value<Scheduled> {
  static std::string type() { return "number or {from, to, kimg, shape}"; }
  static std::optional<Scheduled> from_text(std::string_view text);
  // Returns a plain number for a constant.
  static Json to_json(const Scheduled& value);
};

template <>
struct Value<ScheduledKimg> {
  static std::string type() { return Value<Kimg>::type() + " or {from, to, kimg, shape}"; }
  static std::optional<ScheduledKimg> from_text(std::string_view text);
  static Json to_json(const ScheduledKimg& value);
};

}  // namespace gantrain
