// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

class Source;
struct DataOptions;

// The class of each picture. Without labels, `of` is empty and `classes` is 0.
struct Labels {
  int64_t classes = 0;
  std::vector<int64_t> of;
  std::vector<std::string> names;  // of the classes; empty where they have numbers alone
};

// Takes the first-level folders, in the order of their names, as classes, if all pictures lie in
// them and there are at least two. A folder that holds all pictures does not count as a level.
Labels labels_of_folders(const std::vector<std::string>& pictures);

// Returns the length of the leading folders, with their '/', that all paths (at least one) share.
size_t common_folders(const std::vector<std::string>& paths);

// Reads labels in the form of StyleGAN2-ADA's data sets: {"labels": [["path", k], ...]} or null. A
// class is a whole number, a name, or a list of numbers with a single 1; a list "classes" or
// "class_names" names the numbers. Throws UserError(kInput) that names `name` or the picture
// without a label.
Labels labels_of_json(std::string_view json,
                      const std::string& name,
                      const std::vector<std::string>& pictures);

// Which columns of a CSV file hold what.
struct LabelColumns {
  size_t file = 0;
  size_t label = 1;
  bool header = false;  // the first row has the names of the columns
};

// Finds the columns by their names, or takes the two that there are; else returns nothing.
std::optional<LabelColumns> label_columns(const std::vector<std::vector<std::string>>& rows);

// Reads labels from rows of a CSV file: a picture's path, or its name without folder or without
// ending, and its class, a number or a name. Names are numbered in bytewise order. Throws
// UserError(kInput) that names `name` or the picture without a label.
Labels labels_of_rows(const std::vector<std::vector<std::string>>& rows,
                      const LabelColumns& columns,
                      const std::string& name,
                      const std::vector<std::string>& pictures);

// Do the same with a list that nobody has named: they return nothing, with a message, where it
// names none of the pictures. A dataset.json that says "labels": null is an answer.
std::optional<Labels> found_labels_of_json(std::string_view json,
                                           const std::string& name,
                                           const std::vector<std::string>& pictures);
std::optional<Labels> found_labels_of_rows(const std::vector<std::vector<std::string>>& rows,
                                           const LabelColumns& columns,
                                           const std::string& name,
                                           const std::vector<std::string>& pictures);

// Makes labels of one text a picture: whole numbers, or names, numbered in bytewise order. Throws
// UserError(kInput) that names `name` and the picture whose text is neither, or the picture that
// makes thousands of classes without pictures, or the names among numbers.
Labels labels_of_texts(const std::vector<std::string>& texts,
                       const std::string& name,
                       const std::vector<std::string>& pictures);

// Returns a name as it can stand in JSON: bytes that are not UTF-8 are replaced.
std::string valid_text(const std::string& name);

// Reads rows of fields (RFC 4180), separated by commas, or by the tabs or semicolons of a first
// line that has no commas. Blanks around fields without quotes, empty lines and a byte order mark
// are left out. Throws UserError(kInput) that names `name` and the line where a quote is not
// closed.
std::vector<std::vector<std::string>> read_csv(std::string_view text, const std::string& name);

// The pictures among the files of a source, before any was opened, and their labels.
struct FoundPictures {
  std::vector<size_t> files;  // position in the source of each picture
  Labels labels;
  // Files that are neither pictures nor have their labels, by the ending of their names.
  std::map<std::string, int64_t> others;
};

// Returns what is left out, for a line: "3 .txt ignored", "10 .gif, 2 .bmp ignored: convert them";
// "" where nothing is.
std::string ignored_text(const std::map<std::string, int64_t>& others);

// Finds the pictures and their labels. These come from the first of: the file data.labels; what the
// container itself holds; the outermost dataset.json or else labels.csv, dataset.csv or
// metadata.csv whose folder has all pictures in it, or that stands beside an archive; a file
// NAME.cls or the "label" in NAME.json beside each picture; the folders. Throws UserError(kInput)
// that names the source without pictures, the picture without a label, or a list that is too large.
FoundPictures find_pictures(const Source& source, const DataOptions& options);

}  // namespace gantrain
