// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

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
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
bool passes(const Check& check, const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return in_range(check, static_cast<double>(value));
  } else if constexpr (IsOptional<T>::value) {
    return !value || passes(check, *value);
  } else if constexpr (std::is_same_v<T, Kimg>) {
    return in_range(check, static_cast<double>(value.images) / 1e3);
  } else if constexpr (std::is_same_v<T, Duration>) {
    return in_range(check, value.seconds);
  } else if constexpr (std::is_same_v<T, Size>) {
    return in_range(check, static_cast<double>(value.width)) &&
           in_range(check, static_cast<double>(value.height));
  } else if constexpr (std::is_same_v<T, Scheduled>) {
    return in_range(check, value.from) && in_range(check, value.to);
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

  template <class T, class... CheckAndHelp>
  void operator()(std::string_view name, T& member, const CheckAndHelp&...) const {
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

// The section of a struct's keys, "train."; "" where the struct names whole paths.
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

// Messages between processes: structs with fields(), sent as JSON. A member is a bool, a number, a
// string, Json, a type with a Value<T>, a struct with fields(), or a std::optional (null where it
// is empty) or std::vector of any of these. Ranges and help texts are ignored here.

namespace detail {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

// Types that nlohmann turns into JSON by itself; it keeps every bit of a double.
template <class T>
concept PlainJson =
    std::is_arithmetic_v<T> || std::same_as<T, std::string> || std::same_as<T, Json>;

template <class T>
void write_message(Json& json, T& value);

struct MessageWriter {
  Json& object;

  template <class T, class... CheckAndHelp>
  void operator()(std::string_view name, T& member, const CheckAndHelp&...) const {
    write_message(object[std::string(name)], member);
  }
};

template <class T>
void write_message(Json& json, T& value) {
  if constexpr (PlainJson<T>) {
    json = value;
  } else if constexpr (IsOptional<T>::value) {
    json = nullptr;
    if (value) write_message(json, *value);
  } else if constexpr (IsVector<T>::value) {
    json = Json::array();
    for (auto& element : value) write_message(json.emplace_back(), element);
  } else if constexpr (HasFields<T>) {
    // Two structs may be listed under one name; their members then share an object.
    if (!json.is_object()) json = Json::object();
    fields(value, MessageWriter{json});
  } else {
    json = Value<T>::to_json(value);
  }
}

[[noreturn]] inline void refuse_message(const std::string& path, const std::string& reason) {
  throw std::logic_error("message: " + path + ": " + reason);
}

template <class T>
bool holds(const Json& json) {
  if constexpr (std::same_as<T, bool>) {
    return json.is_boolean();
  } else if constexpr (std::integral<T>) {
    if (!json.is_number_integer()) return false;
    return json.is_number_unsigned() ? std::in_range<T>(json.get<uint64_t>())
                                     : std::in_range<T>(json.get<int64_t>());
  } else if constexpr (std::floating_point<T>) {
    return json.is_number();
  } else if constexpr (std::same_as<T, std::string>) {
    return json.is_string();
  } else {
    return true;
  }
}

template <class T>
void read_message(const Json& json, const std::string& path, T& value);

struct MessageReader {
  const Json& object;
  std::string path;  // path of the object: "", or "nets[0]"

  template <class T, class... CheckAndHelp>
  void operator()(std::string_view name, T& member, const CheckAndHelp&...) const {
    const std::string key(name);
    const std::string full = path.empty() ? key : path + "." + key;
    const auto at = object.find(key);
    if (at == object.end()) refuse_message(full, "missing");
    read_message(*at, full, member);
  }
};

template <class T>
void read_message(const Json& json, const std::string& path, T& value) {
  if constexpr (PlainJson<T>) {
    if (!holds<T>(json)) refuse_message(path, "wrong type or range: " + json.dump());
    value = json.get<T>();
  } else if constexpr (IsOptional<T>::value) {
    value.reset();
    if (!json.is_null()) read_message(json, path, value.emplace());
  } else if constexpr (IsVector<T>::value) {
    if (!json.is_array()) refuse_message(path, "an array is needed, not " + json.dump());
    value.clear();
    for (size_t i = 0; i < json.size(); ++i) {
      typename T::value_type element{};
      read_message(json[i], path + "[" + std::to_string(i) + "]", element);
      value.push_back(std::move(element));
    }
  } else if constexpr (HasFields<T>) {
    if (!json.is_object()) refuse_message(path, "an object is needed, not " + json.dump());
    fields(value, MessageReader{json, path});
  } else {
    auto parsed = Value<T>::from_text(text_of(json));
    if (!parsed) refuse_message(path, "no " + Value<T>::type() + ": " + json.dump());
    value = std::move(*parsed);
  }
}

}  // namespace detail

// Returns the message as a JSON object with one member for each of the struct's fields.
template <class T>
Json message_of(T value) {
  Json json;
  detail::write_message(json, value);
  return json;
}

// Returns the struct that message_of() was given. Throws std::logic_error that names a key
// ("nets[0].batch") that is missing or has a value of another type.
template <class T>
T message_from(const Json& json) {
  T value{};
  detail::read_message(json, "", value);
  return value;
}

}  // namespace gantrain
