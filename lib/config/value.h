// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "util/field.h"
#include "util/size.h"

namespace gantrain {

using Json = nlohmann::ordered_json;

// Returns whether a text, if it is JSON, is nested at most 64 levels deep, has at most 2^20 values,
// and in each object at most that many names: else walking it may overflow the stack or take hours.
bool is_bounded_json(std::string_view text, int64_t names);

// Parses JSON, with comments, of a file that may be a stranger's. The result is_discarded() where
// the text is not JSON or not bounded.
template <class AnyJson = Json>
AnyJson parse_foreign(std::string_view text) {
  // Json looks through all names of an object for each one that it adds.
  const int64_t names = std::is_same_v<AnyJson, Json> ? 1024 : 1 << 20;
  if (!is_bounded_json(text, names)) return AnyJson(AnyJson::value_t::discarded);
  return AnyJson::parse(text, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/true);
}

// JSON as one line of text. Bytes that are not UTF-8, as names of files may have, are replaced.
std::string json_line(const Json& json);

// Value<T> turns text into a T and a T into JSON, for every type that an options struct may hold.
// JSON that is not a string is read through its text, so 25000, "25000" and "25M" are one Kimg.
//   type()        what help prints
//   from_text(s)  nothing if s is not a T
//   to_json(v)    canonical form, as config.json holds it
template <class T, class = void>
struct Value;

template <>
struct Value<bool> {
  static std::string type() { return "on|off"; }
  static std::optional<bool> from_text(std::string_view text);
  static Json to_json(bool value) { return value; }
};

template <>
struct Value<int64_t> {
  static std::string type() { return "integer"; }
  static std::optional<int64_t> from_text(std::string_view text);
  static Json to_json(int64_t value) { return value; }
};

template <>
struct Value<double> {
  static std::string type() { return "number"; }
  static std::optional<double> from_text(std::string_view text);
  static Json to_json(double value);
};

template <>
struct Value<std::string> {
  static std::string type() { return "text"; }
  static std::optional<std::string> from_text(std::string_view text) { return std::string(text); }
  static Json to_json(const std::string& value) { return value; }
};

template <>
struct Value<Kimg> {
  static std::string type() { return "kimg (0.5, 200k, 25M)"; }
  static std::optional<Kimg> from_text(std::string_view text);
  static Json to_json(Kimg value);
};

template <>
struct Value<Duration> {
  static std::string type() { return "duration (90s, 23h30m)"; }
  static std::optional<Duration> from_text(std::string_view text);
  static Json to_json(Duration value);
};

template <>
struct Value<Size> {
  static std::string type() { return "pixels (64) or WIDTHxHEIGHT (256x128)"; }
  static std::optional<Size> from_text(std::string_view text) { return parse_size(text); }
  // A number where the picture is square, else text.
  static Json to_json(const Size& value) {
    return value.is_square() ? Json(value.width) : Json(to_text(value));
  }
};

// Enums: their names stand beside them, as constexpr std::array<std::string_view, N> names(Enum).
template <class Enum>
struct Value<Enum, std::enable_if_t<std::is_enum_v<Enum>>> {
  static std::string type() {
    std::string all;
    for (const std::string_view name : names(Enum{}))
      all += (all.empty() ? "" : "|") + std::string(name);
    return all;
  }
  static std::optional<Enum> from_text(std::string_view text) {
    int index = 0;
    for (const std::string_view name : names(Enum{})) {
      if (name == text) return static_cast<Enum>(index);
      ++index;
    }
    return std::nullopt;
  }
  static Json to_json(Enum value) { return std::string(names(value)[static_cast<size_t>(value)]); }
};

template <class T>
struct Value<std::optional<T>> {
  static std::string type() { return Value<T>::type() + "|auto"; }
  static std::optional<std::optional<T>> from_text(std::string_view text) {
    if (text == "auto") return std::optional<T>();
    if (const auto value = Value<T>::from_text(text)) return std::optional<T>(*value);
    return std::nullopt;
  }
  static Json to_json(const std::optional<T>& value) {
    return value ? Value<T>::to_json(*value) : Json("auto");
  }
};

// Returns the text of a JSON value that from_text() reads: strings as they are, everything else as
// JSON text.
std::string text_of(const Json& value);

enum class RampShape { kLinear, kCosine, kStep };
constexpr std::array<std::string_view, 3> names(RampShape) { return {"linear", "cosine", "step"}; }

// A hyperparameter that may change with the images seen: a constant number, or a ramp from one
// number to another over the first `length` images. In text it is 0.002, or {"from": a, "to": b,
// "kimg": k, "shape": "linear"|"cosine"|"step"}, where `kimg` is a Kimg above 0 and the ramp is
// linear without `shape`.
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

  bool operator==(const Scheduled&) const = default;
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
