// SPDX-License-Identifier: Apache-2.0
#include "config/value.h"

#include <cmath>

#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

Json json_number(double value) {
  if (!std::isfinite(value)) return value;
  return Json::parse(shortest(value));
}

}  // namespace

std::optional<bool> Value<bool>::from_text(std::string_view text) {
  const std::string word = lower(text);
  for (const char* yes : {"on", "true", "yes", "1"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"off", "false", "no", "0"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

std::optional<int64_t> Value<int64_t>::from_text(std::string_view text) { return parse_int(text); }

std::optional<double> Value<double>::from_text(std::string_view text) {
  const auto value = parse_double(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

Json Value<double>::to_json(double value) { return json_number(value); }

std::optional<Kimg> Value<Kimg>::from_text(std::string_view text) {
  double unit = 1e3;  // a bare number is kimg
  if (ends_with(text, "k") || ends_with(text, "M")) {
    unit = text.back() == 'k' ? 1e3 : 1e6;
    text.remove_suffix(1);
  }
  const auto value = parse_double(text);
  if (!value || !std::isfinite(*value) || *value < 0 || *value * unit > 9e15) return std::nullopt;
  return Kimg{std::llround(*value * unit)};
}

Json Value<Kimg>::to_json(Kimg value) {
  return json_number(static_cast<double>(value.images) / 1e3);
}

std::optional<Duration> Value<Duration>::from_text(std::string_view text) {
  const auto seconds = parse_duration(text);
  if (!seconds) return std::nullopt;
  return Duration{*seconds};
}

Json Value<Duration>::to_json(Duration value) { return json_number(value.seconds); }

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace gantrain
