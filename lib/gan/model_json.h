// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "config/schema.h"
#include "core/safetensors.h"

namespace gantrain {

// A model file's content.
struct ModelContent {
  Json model;                                 // "gantrain.model"
  std::map<std::string, at::Tensor> tensors;  // the generator's (EMA); "G." and "D.": the players'
};

namespace detail {

// A field called "group.key" stands in the object `group`; where it is not there, or null, it may
// stand beside the group as "key". Null where it is neither. Throws UserError(kInput) where the
// group is not an object.
const Json* model_entry(const Json& model, const std::string& source, const std::string& path);
Json& new_model_entry(Json& model, const std::string& path);

[[noreturn]] void refuse_model_entry(const std::string& source,
                                     const std::string& path,
                                     const Json& given,
                                     const std::string& allowed);

template <class T>
struct OptionalOf {
  using Inner = T;
  static constexpr bool is = false;
};
template <class T>
struct OptionalOf<std::optional<T>> {
  using Inner = T;
  static constexpr bool is = true;
};

// Nothing if `json` is not of the JSON type that a T is written in: a number in quotes is no
// number.
template <class T>
std::optional<T> model_value(const Json& json) {
  constexpr bool number = std::is_same_v<T, int64_t> || std::is_same_v<T, double>;
  const bool fits = std::is_same_v<T, bool> ? json.is_boolean()
                    : number                ? json.is_number()
                                            : json.is_string();
  return fits ? Value<T>::from_text(text_of(json)) : std::nullopt;
}

// Calls one(path, member, check) for each member that is no struct with fields of its own.
template <class One>
struct EachEntry {
  One& one;
  std::string prefix;

  template <class T>
  void operator()(std::string_view name, T& member, std::string_view help) const {
    (*this)(name, member, Check{}, help);
  }
  template <class T>
  void operator()(std::string_view name, T& member, const Check& check, std::string_view) const {
    const std::string path = prefix + std::string(name);
    if constexpr (HasFields<T>) {
      fields(member, EachEntry{one, path + "."});
    } else {
      one(path, member, check);
    }
  }
};

}  // namespace detail

// "gantrain.model" of a network whose sizes are a struct with fields(): {"recipe": name, fields}. A
// field whose name has a dot, "mapping_kwargs.num_layers", stands in an object of that name. An
// optional without a value is null.
template <class Shape>
Json model_json(const std::string& recipe, Shape shape) {
  Json model = {{"recipe", recipe}};
  const auto write = [&]<class T>(const std::string& path, const T& member, const Check&) {
    Json& entry = detail::new_model_entry(model, path);
    if constexpr (detail::OptionalOf<T>::is) {
      using Inner = typename detail::OptionalOf<T>::Inner;
      entry = member ? Value<Inner>::to_json(*member) : Json();
    } else {
      entry = Value<T>::to_json(member);
    }
  };
  fields(shape, detail::EachEntry<decltype(write)>{write, ""});
  return model;
}

// Takes the fields that `model` has into `shape`. What is absent or null stays as it is; other
// members are passed over; a field "group.key" may also stand outside its group. `model` may be
// null. Throws UserError(kInput) naming `source` and the field that is not what it must be.
template <class Shape>
void read_model(const Json& model, const std::string& source, Shape& shape) {
  if (model.is_null()) return;
  if (!model.is_object()) fail(Exit::kInput, "{}: gantrain.model: not a JSON object", source);
  const auto read = [&]<class T>(const std::string& path, T& member, const Check& check) {
    using Inner = typename detail::OptionalOf<T>::Inner;
    const Json* given = detail::model_entry(model, source, path);
    if (given == nullptr) return;
    const std::optional<Inner> value = detail::model_value<Inner>(*given);
    if (!value || !detail::passes(check, *value)) {
      const std::string range = range_text(check);
      detail::refuse_model_entry(
          source, path, *given, Value<Inner>::type() + (range.empty() ? "" : ", " + range));
    }
    member = *value;
  };
  fields(shape, detail::EachEntry<decltype(read)>{read, ""});
}

// Arguments of an official generator's constructor, in the header of a file with its weights:
// "config", members of "G" before those that both networks have. Empty without a header. Throws
// UserError(kInput) naming `source` where it is not JSON.
Json official_arguments(const TensorFile& file, const std::string& source);

}  // namespace gantrain
