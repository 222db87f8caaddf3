// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/scheduled.h"
#include "config/value.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

// One configuration key, made from one line of some options struct's fields().
struct Key {
  std::string path;   // "train.batch"
  std::string type;   // "integer", "on|off", "wrapper|dynamic|flat", ...
  std::string range;  // "at least 1", or ""
  std::string help;
  Json value;  // the default value
  // Returns the canonical form of a value, or nothing if it has the wrong type or is out of range.
  std::function<std::optional<Json>(const Json&)> normalise;

  // Describes the allowed values for errors and help: "integer, at least 1".
  std::string allowed() const { return range.empty() ? type : type + ", " + range; }
};

// All keys of a run, in the order of their structs. Paths are unique.
using Schema = std::vector<Key>;

std::string range_text(const Check& check);
bool in_range(const Check& check, double value);

// True for a struct that lists members by fields().
template <class T>
concept HasFields = requires(T& o) {
  fields(o, [](auto&&...) {});
};

namespace detail {

template <class T>
bool passes(const Check& check, const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return in_range(check, static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, std::optional<int64_t>> ||
                       std::is_same_v<T, std::optional<double>>) {
    return !value || in_range(check, static_cast<double>(*value));
  } else if constexpr (std::is_same_v<T, Kimg>) {
    return in_range(check, static_cast<double>(value.images) / 1e3);
  } else if constexpr (std::is_same_v<T, Duration>) {
    return in_range(check, value.seconds);
  } else if constexpr (std::is_same_v<T, Size>) {
    return in_range(check, static_cast<double>(value.width)) &&
           in_range(check, static_cast<double>(value.height));
  } else if constexpr (std::is_same_v<T, Scheduled>) {
    return in_range(check, value.from) && in_range(check, value.to);
  } else if constexpr (std::is_same_v<T, std::optional<Scheduled>>) {
    return !value || passes(check, *value);
  } else if constexpr (std::is_same_v<T, ScheduledKimg>) {
    return in_range(check, value.images.from / 1e3) && in_range(check, value.images.to / 1e3);
  } else {
    return true;
  }
}

// Appends a Key for each field.
struct Collector {
  Schema& schema;
  std::string prefix;

  template <class T>
  void operator()(std::string_view name, T& member, std::string_view help) const {
    (*this)(name, member, Check{}, help);
  }
  template <class T>
  void operator()(std::string_view name,
                  T& member,
                  const Check& check,
                  std::string_view help) const {
    const std::string path = prefix + std::string(name);
    if constexpr (HasFields<T>) {
      fields(member, Collector{schema, path + "."});
    } else {
      Key key{path,
              Value<T>::type(),
              range_text(check),
              std::string(help),
              Value<T>::to_json(member),
              {}};
      key.normalise = [check](const Json& json) -> std::optional<Json> {
        const auto value = Value<T>::from_text(text_of(json));
        if (!value || !passes(check, *value)) return std::nullopt;
        return Value<T>::to_json(*value);
      };
      schema.push_back(std::move(key));
    }
  }
};

// Fills each field with the value at its path; fields without a value keep their defaults.
struct Reader {
  const std::function<const Json*(const std::string&)>& find;
  std::string prefix;

  template <class T>
  void operator()(std::string_view name, T& member, std::string_view help) const {
    (*this)(name, member, Check{}, help);
  }
  template <class T>
  void operator()(std::string_view name, T& member, const Check&, std::string_view) const {
    const std::string path = prefix + std::string(name);
    if constexpr (HasFields<T>) {
      fields(member, Reader{find, path + "."});
    } else if (const Json* json = find(path)) {
      const auto value = Value<T>::from_text(text_of(*json));
      if (!value) fail(Exit::kUsage, "{} = {}: allowed: {}", path, json->dump(), Value<T>::type());
      member = *value;
    }
  }
};

}  // namespace detail

// The section of a struct's keys: Options::kSection, "train.", or "" where there is none because
// the struct names whole paths.
template <class Options>
constexpr const char* section_of() {
  if constexpr (requires { Options::kSection; }) {
    return Options::kSection;
  } else {
    return "";
  }
}

// Adds the keys of `Options` under its section, or under another prefix.
template <class Options>
void add_keys(Schema& schema, const std::string& prefix = section_of<Options>()) {
  Options defaults;
  fields(defaults, detail::Collector{schema, prefix});
}

}  // namespace gantrain
