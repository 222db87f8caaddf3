// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// The class of each picture. Without labels, `of` is empty and `classes` is 0.
struct Labels {
  int64_t classes = 0;
  std::vector<int64_t> of;
  std::vector<std::string> names;  // of the classes; empty where they have numbers alone
};

// Takes the first-level folders, in the order of their names, as classes. There are no labels
// unless all pictures lie in folders and there are at least two of these. A folder that holds all
// pictures does not count as a level.
Labels labels_of_folders(const std::vector<std::string>& pictures);

// Returns the length of the leading folders, with their '/', that all paths (at least one) share.
size_t common_folders(const std::vector<std::string>& paths);

// Reads labels in the form of StyleGAN2-ADA's data sets: {"labels": [["path", k], ...]} or
// {"labels": null}. A class is a whole number, a name, or a list of numbers with a single 1. A list
// "classes" or "class_names" has the names of the numbers. Throws UserError(kInput) that names
// `name` or the picture without a label.
Labels labels_of_json(std::string_view json,
                      const std::string& name,
                      const std::vector<std::string>& pictures);

// Which columns of a CSV file hold what.
struct LabelColumns {
  size_t file = 0;
  size_t label = 1;
  bool header = false;  // the first row has the names of the columns
};

// Finds the columns by their names ("file_name", "path", ..., "label", "class", ...), or takes the
// two that there are. Returns nothing where neither works.
std::optional<LabelColumns> label_columns(const std::vector<std::vector<std::string>>& rows);

// Reads labels from rows of a CSV file: of each picture its path, its name without folder or
// without ending, and its class, a number or a name. Names are numbered in bytewise order. Rows of
// other files are left out with a message. Throws UserError(kInput) that names `name` or the
// picture without a label.
Labels labels_of_rows(const std::vector<std::vector<std::string>>& rows,
                      const LabelColumns& columns,
                      const std::string& name,
                      const std::vector<std::string>& pictures);

// Do the same with a list that nobody has named, which may be about something else: they return
// nothing, with a message, where it names none of the pictures. A dataset.json that says "labels":
// null is an answer.
std::optional<Labels> found_labels_of_json(std::string_view json,
                                           const std::string& name,
                                           const std::vector<std::string>& pictures);
std::optional<Labels> found_labels_of_rows(const std::vector<std::vector<std::string>>& rows,
                                           const LabelColumns& columns,
                                           const std::string& name,
                                           const std::vector<std::string>& pictures);

// Makes labels of one text for each picture: whole numbers, or names, which are numbered in
// bytewise order. Throws UserError(kInput) that names `name` and the picture whose text is neither.
Labels labels_of_texts(const std::vector<std::string>& texts,
                       const std::string& name,
                       const std::vector<std::string>& pictures);

// Returns a file's or class's name as it can stand in JSON, which takes only UTF-8: other bytes are
// replaced.
std::string valid_text(const std::string& name);

}  // namespace gantrain
