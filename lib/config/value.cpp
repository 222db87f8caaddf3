// SPDX-License-Identifier: Apache-2.0
#include "config/value.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// The last character of what begins at `at`, a quotation mark or the slash of a comment, where the
// parser sees it end.
size_t end_of_token(std::string_view text, size_t at) {
  size_t end = at + 1;
  if (text[at] == '"') {
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    return end;
  }
  if (end < text.size() && text[end] == '*')
    return std::min(text.find("*/", end + 1), text.size()) + 1;
  using namespace std::string_view_literals;
  return std::min(text.find_first_of("\n\r\0"sv, end), text.size());
}

}  // namespace

bool is_bounded_json(std::string_view text, int64_t most_names) {
  constexpr size_t kDeepest = 64;
  constexpr int64_t kMostValues = 1 << 20;
  std::array<int64_t, kDeepest + 1> names{};
  size_t depth = 0;
  int64_t values = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || c == '/') {
      at = end_of_token(text, at);
    } else if (c == '[' || c == '{') {
      if (depth == kDeepest) return false;
      names[++depth] = 0;
      if (++values > kMostValues) return false;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return true;  // no JSON
      --depth;
    } else if (c == ':') {
      if (++names[depth] > most_names) return false;
    } else if (c == ',' && ++values > kMostValues) {
      return false;
    }
  }
  return true;
}

std::string json_line(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::optional<bool> Value<bool>::from_text(std::string_view text) {
  const std::string word = lower(text);
  if (word == "on" || word == "true" || word == "yes" || word == "1") return true;
  if (word == "off" || word == "false" || word == "no" || word == "0") return false;
  return std::nullopt;
}

std::optional<int64_t> Value<int64_t>::from_text(std::string_view text) { return parse_int(text); }

std::optional<double> Value<double>::from_text(std::string_view text) {
  const auto value = parse_double(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

Json Value<double>::to_json(double value) {
  return std::isfinite(value) ? Json::parse(shortest(value)) : Json(value);
}

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
  return Value<double>::to_json(static_cast<double>(value.images) / 1e3);
}

std::optional<Duration> Value<Duration>::from_text(std::string_view text) {
  const auto seconds = parse_duration(text);
  if (!seconds) return std::nullopt;
  return Duration{*seconds};
}

Json Value<Duration>::to_json(Duration value) { return Value<double>::to_json(value.seconds); }

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

double Scheduled::at(int64_t images_seen) const {
  if (is_constant() || images_seen <= 0) return from;
  if (images_seen >= length.images) return to;
  const double share = static_cast<double>(images_seen) / static_cast<double>(length.images);
  if (shape == RampShape::kLinear) return from + share * (to - from);
  if (shape == RampShape::kStep) return from;
  return from + (1 - std::cos(M_PI * share)) / 2 * (to - from);
}

Scheduled scaled(const Scheduled& schedule, double factor) {
  return {schedule.from * factor, schedule.to * factor, schedule.length, schedule.shape};
}

std::string ramp_text(const Scheduled& schedule) {
  if (schedule.is_constant()) return shortest(schedule.from);
  const bool step = schedule.shape == RampShape::kStep;
  const auto text = [](double value) { return text_of(Value<double>::to_json(value)); };
  return text(schedule.from) + " to " + text(schedule.to) + (step ? " at " : " over ") +
         shortest(static_cast<double>(schedule.length.images) / 1e3) + " kimg, " +
         std::string(names(schedule.shape)[static_cast<size_t>(schedule.shape)]);
}

namespace {

using EndReader = std::function<std::optional<double>(std::string_view)>;

// An object's members, or null where the text is not JSON, not an object, or names one twice.
Json parsed_object(std::string_view text) {
  std::set<std::string> names;
  bool twice = false;
  const auto watch = [&](int, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::key)
      twice = !names.insert(parsed.get<std::string>()).second || twice;
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object() || twice) return nullptr;
  return json;
}

// {"from": a, "to": b, "kimg": k, "shape": s} with ends that `read_end` reads.
std::optional<Scheduled> ramp_from_text(std::string_view text, const EndReader& read_end) {
  const Json json = parsed_object(text);
  if (json.is_null()) return std::nullopt;
  for (const auto& [name, value] : json.items()) {
    const bool known = name == "from" || name == "to" || name == "kimg" || name == "shape";
    if (!known || value.is_structured()) return std::nullopt;
  }
  for (const char* needed : {"from", "to", "kimg"}) {
    if (!json.contains(needed)) return std::nullopt;
  }
  const auto from = read_end(text_of(json["from"]));
  const auto to = read_end(text_of(json["to"]));
  const auto length = Value<Kimg>::from_text(text_of(json["kimg"]));
  const auto shape = json.contains("shape") ? Value<RampShape>::from_text(text_of(json["shape"]))
                                            : RampShape::kLinear;
  if (!from || !to || !length || length->images == 0 || !shape) return std::nullopt;
  return Scheduled(*from, *to, *length, *shape);
}

// `unit`: what one of the numbers in text counts.
Json to_json_in(double unit, const Scheduled& value) {
  const auto end = [&](double x) { return Value<double>::to_json(x / unit); };
  if (value.is_constant()) return end(value.from);
  return {{"from", end(value.from)},
          {"to", end(value.to)},
          {"kimg", Value<Kimg>::to_json(value.length)},
          {"shape", Value<RampShape>::to_json(value.shape)}};
}

std::optional<double> images_from_text(std::string_view text) {
  const auto kimg = Value<Kimg>::from_text(text);
  if (!kimg) return std::nullopt;
  return static_cast<double>(kimg->images);
}

std::optional<Scheduled> from_text_with(std::string_view text, const EndReader& read_end) {
  if (starts_with(trim(text), "{")) return ramp_from_text(text, read_end);
  const auto constant = read_end(text);
  if (!constant) return std::nullopt;
  return Scheduled(*constant);
}

}  // namespace

std::optional<Scheduled> Value<Scheduled>::from_text(std::string_view text) {
  return from_text_with(text, Value<double>::from_text);
}

Json Value<Scheduled>::to_json(const Scheduled& value) { return to_json_in(1, value); }

std::optional<ScheduledKimg> Value<ScheduledKimg>::from_text(std::string_view text) {
  const auto images = from_text_with(text, images_from_text);
  if (!images) return std::nullopt;
  return ScheduledKimg(*images);
}

Json Value<ScheduledKimg>::to_json(const ScheduledKimg& value) {
  return to_json_in(1e3, value.images);
}

}  // namespace gantrain
