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

// What the data gives for one number of labels that are vectors.
struct NumberRange {
  double least = 0, mean = 0, most = 0;
  bool yes_or_no = false;  // zeros and ones: a class that a picture has or has not

  // What stands for this number where nobody gives it.
  double usual() const { return yes_or_no ? 0 : mean; }
};

// All classes of the data that a conditional model was trained on; row k is label k. Empty for
// unconditional models and for models from elsewhere. Where labels are vectors, row k is their k-th
// number, and its pictures are those in which it is not zero.
class ClassTable : public std::vector<ClassRow> {
 public:
  using std::vector<ClassRow>::vector;

  std::vector<NumberRange> ranges = {};           // one a row where labels are vectors; else empty
  std::vector<std::vector<float>> examples = {};  // labels of some real pictures, taken by lot

  bool vectors() const { return !ranges.empty(); }
};

// Whether the classes are called by their places in the table, as where the data gives no names.
bool are_unnamed(const ClassTable& table);

// The form in config.json and in the metadata "gantrain.classes" of a model file:
// [{"name": "circle", "pictures": 500}, ...], or for vectors {"attributes": [{"name": "size",
// "pictures": 500, "least": 0, "mean": 0.5, "most": 1, "yes_or_no": false}, ...], "examples":
// [[0.25, ...], ...]}.
Json to_json(const ClassTable& table);

// Makes one vector out of numbers by name or by place: "red=1,size=0.3". Others are as usual.
// Throws UserError(kUsage) that names `flag` and the nearest names, or the number that is not
// finite.
std::vector<float> vector_of_text(const std::string& flag,
                                  const std::string& text,
                                  int64_t numbers,
                                  const ClassTable& table);

// Returns the form that vector_of_text() reads: "red=1,size=0.3".
std::string text_of_vector(const std::vector<float>& numbers, const ClassTable& table);

// Reads that form. Throws UserError(kInput) that names `source`.
ClassTable classes_from_json(const Json& json, const std::string& source);

// Reads what `--class` was given: names, numbers, ranges of numbers and "all", with commas between:
// "circle", "0-2", "all", "circle,5-7". Returns the labels in the order given. A name wins over a
// number that is written alike; where all names are whole numbers, numbers and ranges go by them,
// and the ends of a range must be names. `classes` is the number of labels that the model has; the
// table may be empty. Throws UserError(kUsage) with the nearest names.
std::vector<int64_t> parse_classes(const std::string& text,
                                   int64_t classes,
                                   const ClassTable& table);

}  // namespace gantrain
