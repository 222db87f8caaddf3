// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include "config/schema.h"
#include "core/tensor_files.h"
#include "util/error.h"

namespace gantrain {

// Throws UserError(kInput) that begins with the file, `source`.
template <class... Args>
[[noreturn]] void refuse_file(const std::string& source,
                              fmt::format_string<Args...> format,
                              Args&&... args) {
  fail(Exit::kInput, "{}: {}", source, fmt::format(format, std::forward<Args>(args)...));
}

// A model file's content.
struct ModelContent {
  Json model;                                 // "gantrain.model"
  std::map<std::string, at::Tensor> tensors;  // generator's average; "G.", "D.": raw networks
};

namespace detail {

// Returns the value of a field, or null where it is absent or null. A field called "group.key" is
// read from the object `group`; where it is not there it may stand outside the group as "key",
// unless that is one of the `outside` fields itself. Throws UserError(kInput) where the group is
// not an object.
const Json* model_entry(const Json& model,
                        const std::string& source,
                        const std::string& path,
                        const std::set<std::string>& outside);
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

// Reads a T. Returns nothing if `json` does not have the JSON type of a T: a number in quotes is no
// number.
template <class T>
std::optional<T> model_value(const Json& json) {
  constexpr bool number = std::is_same_v<T, int64_t> || std::is_same_v<T, double>;
  const bool fits = std::is_same_v<T, bool>   ? json.is_boolean()
                    : number                  ? json.is_number()
                    : std::is_same_v<T, Size> ? json.is_number_integer() || json.is_string()
                                              : json.is_string();
  return fits ? Value<T>::from_text(text_of(json)) : std::nullopt;
}

// Calls one(path, member, check) for each member, at any depth, that is not itself a struct with
// fields().
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

// Makes the "gantrain.model" of a network whose sizes are a struct with fields(): {"recipe": name,
// fields}. A field whose name has a dot, as "mapping_kwargs.num_layers", is written into an object
// named by the part before the dot. An optional without a value becomes null.
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

// Reads into `shape` the fields that `model` has. Fields that are absent or null keep their value,
// and unknown members are ignored; a field "group.key" may also stand outside its group as "key"
// where no other field has that name.
// `model` may be null. Throws UserError(kInput) that names `source` and the field whose type or
// range is wrong.
template <class Shape>
void read_model(const Json& model, const std::string& source, Shape& shape) {
  if (model.is_null()) return;
  if (!model.is_object()) refuse_file(source, "gantrain.model: not a JSON object");
  std::set<std::string> outside;
  const auto note = [&](const std::string& path, const auto&, const Check&) {
    if (path.find('.') == std::string::npos) outside.insert(path);
  };
  fields(shape, detail::EachEntry<decltype(note)>{note, ""});
  const auto read = [&]<class T>(const std::string& path, T& member, const Check& check) {
    using Inner = typename detail::OptionalOf<T>::Inner;
    const Json* given = detail::model_entry(model, source, path, outside);
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

// The tensors of a file that must be those of a generator, asked for by name and number of axes.
// Throws UserError(kInput) that names `source` and the tensor that is missing or does not fit.
struct GeneratorTensors {
  const std::map<std::string, at::Tensor>& tensors;
  const std::string& source;
  std::string kind;  // "a DCGAN generator"

  bool has(const std::string& name) const { return tensors.count(name) != 0; }
  const at::Tensor& get(const std::string& name) const;
  // The tensor must have that many axes, and may not be empty.
  const at::Tensor& get(const std::string& name, int64_t axes) const;
  // Returns the size of the tensor's axis `axis`.
  int64_t size(const std::string& name, int64_t axes, int64_t axis) const;
};

// Returns the arguments of an official generator's constructor, from the header of a file with its
// weights: the members of "config" that both networks share, overridden by the members of its "G".
// Empty without such a header. Throws UserError(kInput) that names `source` where the header is not
// JSON.
Json official_arguments(const TensorFile& file, const std::string& source);

}  // namespace gantrain
