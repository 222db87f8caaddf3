// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/labels/labels.h"

// Labels one by one, as lists and folders say them, and what is made of all of them together.

namespace gantrain {

// What a list or a folder's name says of one picture.
struct PictureLabel {
  // Nothing; a class, by number or name; names of several classes; numbers by name; numbers.
  enum class Kind { kMissing, kClass, kNames, kNamed, kVector };
  Kind kind = Kind::kMissing;
  std::string text = {};                // the class; else the label as it was said
  std::vector<std::string> names = {};  // of kNames and kNamed
  std::vector<float> numbers = {};      // of kNamed and kVector; NaN: missing
  std::string where = {};               // in the list, for messages: "line 3", "the label of a.png"
  std::string wrong = {};               // what is wrong with it; "": nothing
};

// Makes one kind of labels of what was said of each picture. Lists of numbers with a single 1 are
// classes. `attributes`: names of the numbers of vectors; empty: they have none. Throws
// UserError(kInput) that names `name` and the first entry of another kind or length.
Labels labels_of_entries(const std::vector<PictureLabel>& labels,
                         const std::string& name,
                         const std::vector<std::string>& pictures,
                         const std::vector<std::string>& attributes = {});

// Parses the text of a list. Numbers that JSON does not have, as Python writes them (NaN,
// Infinity), become marks that label_in_json() refuses. Returns a discarded value where it is no
// JSON.
nlohmann::json parse_list(std::string_view json);

// Reads what dataset.json says of the picture `path`. Throws UserError(kInput) that names both.
PictureLabel label_in_json(const nlohmann::json& value,
                           const std::string& name,
                           const std::string& path);

// Reads the label of each row of a CSV file, as LabelColumns says; that of a header is empty.
std::vector<PictureLabel> labels_in_rows(const std::vector<std::vector<std::string>>& rows,
                                         const LabelColumns& columns,
                                         const std::vector<int64_t>& lines);
// Returns the names of the columns of numbers; empty without a header.
std::vector<std::string> attributes_in(const std::vector<std::vector<std::string>>& rows,
                                       const LabelColumns& columns);

// Returns the column of a header that has the pictures' files, by its usual names.
std::optional<size_t> file_column(const std::vector<std::string>& header);

// Makes vectors of the folders that pictures lie in, "" for those that lie in none: of folders that
// are called like "size=0.3", of joined names, and where unlabelled pictures are kept. Returns
// nothing where folders are classes or nothing at all. Throws UserError(kInput) that names the
// folder.
std::optional<Labels> vectors_of_folders(const std::vector<std::string>& folders,
                                         const std::vector<std::string>& pictures,
                                         Unlabelled unlabelled);

}  // namespace gantrain
