// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/value.h"
#include "util/field.h"

namespace gantrain {

// One class of labelled data: what its pictures are called, and how many there are.
struct ClassRow {
  std::string name;
  int64_t pictures = 0;

  bool operator==(const ClassRow&) const = default;
};

// All classes of the data that a conditional model was trained on; row k is label k. Empty for
// unconditional models and for models from elsewhere.
using ClassTable = std::vector<ClassRow>;

// The form in config.json and in the metadata "gantrain.classes" of a model file:
// [{"name": "circle", "pictures": 500}, ...].
Json to_json(const ClassTable& table);

// Reads that form. Throws UserError(kInput) that names `source`.
ClassTable classes_from_json(const Json& json, const std::string& source);

// Reads what `--class` was given: names, numbers, ranges of numbers and "all", with commas between:
// "circle", "0-2", "all", "circle,5-7". Returns the labels in the order given. A name wins over a
// number that is written alike. `classes` is the number of labels that the model has; the table may
// be empty. Throws UserError(kUsage) with the nearest names.
std::vector<int64_t> parse_classes(const std::string& text,
                                   int64_t classes,
                                   const ClassTable& table);

}  // namespace gantrain
