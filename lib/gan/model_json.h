// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "config/schema.h"
#include "core/safetensors.h"

namespace gantrain {

// A model file's content.
struct ModelContent {
  Json model;                                 // "gantrain.model"
  std::map<std::string, at::Tensor> tensors;  // the generator's (EMA); "G." and "D.": the players'
};

// "gantrain.model" of a network whose sizes are a struct with fields(): {"recipe": name, fields}.
template <class Shape>
Json model_json(const std::string& recipe, Shape shape) {
  Json model = {{"recipe", recipe}};
  Schema schema;
  fields(shape, detail::Collector{schema, ""});
  for (const Key& key : schema) model[key.path] = key.value;
  return model;
}

// Takes the fields that `model` has into `shape`; nulls and other members are passed over. Throws
// UserError(kInput) naming `source` and the field that is not what it must be.
template <class Shape>
void read_model(const Json& model, const std::string& source, Shape& shape) {
  Schema schema;
  fields(shape, detail::Collector{schema, ""});
  Json values = Json::object();
  for (const Key& key : schema) {
    if (!model.is_object() || !model.contains(key.path) || model[key.path].is_null()) continue;
    const auto value = key.normalise(model[key.path]);
    if (!value) {
      fail(Exit::kInput,
           "{}: {} = {} in the network's configuration; {} is needed",
           source,
           key.path,
           model[key.path].dump(),
           key.allowed());
    }
    values[key.path] = *value;
  }
  const std::function<const Json*(const std::string&)> find =
      [&](const std::string& path) -> const Json* {
    return values.contains(path) ? &values[path] : nullptr;
  };
  fields(shape, detail::Reader{find, ""});
}

// Arguments of an official generator's constructor, in the header of a file with its weights:
// "config", members of "G" before those that both networks have. Empty without a header. Throws
// UserError(kInput) naming `source` where it is not JSON.
Json official_arguments(const TensorFile& file, const std::string& source);

}  // namespace gantrain
