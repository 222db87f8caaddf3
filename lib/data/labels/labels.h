// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/options.h"
#include "util/csv.h"

namespace gantrain {

class Source;

// What a message about labels that do not fit ends with: training, and verbs with flags of their
// own.
inline constexpr const char* kWithoutLabels =
    "--set data.labels=none (data inspect and data pack: --labels none) does without";

// Labels that are several numbers a picture: several classes at once (ones and zeros), measured
// values, or both. A number that the data does not give is 0 where all that it gives are zeros and
// ones (no class), else the mean of what it gives (nothing special).
struct LabelVectors {
  std::vector<std::string> names = {};  // of the numbers of a vector, as many as it has
  std::vector<float> values = {};       // [pictures, names.size()], all finite
  std::vector<bool> given = {};         // which of the values the data gives; empty: all

  int64_t length() const { return static_cast<int64_t>(names.size()); }
  const float* of(int64_t picture) const { return values.data() + picture * length(); }
  bool is_given(int64_t picture, int64_t k) const {
    return given.empty() || given[static_cast<size_t>(picture * length() + k)];
  }
  // Returns the vectors of some pictures, in that order.
  LabelVectors of_pictures(const std::vector<int64_t>& pictures) const;
  // Returns how many pictures have no number that the data gives.
  int64_t unlabelled() const;
};

// The class of each picture, or its vector. Without labels, all is empty and `classes` is 0.
struct Labels {
  int64_t classes = 0;
  std::vector<int64_t> of;
  std::vector<std::string> names;  // of the classes; empty where they have numbers alone
  LabelVectors vectors = {};       // where a label is no single class

  bool none() const { return classes == 0 && vectors.length() == 0; }
  // Returns a number that tells the labels of a data set apart: the class, or a hash of the vector;
  // -1 without labels.
  int64_t number_of(int64_t picture) const;
  // Returns the labels of some pictures, in that order.
  Labels of_pictures(const std::vector<int64_t>& pictures) const;
};

// What is done about pictures that a list of labels does not name (data.unlabelled), and which line
// of a CSV file each row begins in, for messages.
struct ListReading {
  Unlabelled unlabelled = Unlabelled::kAuto;
  std::vector<int64_t> lines = {};
};

// Takes the first-level folders, in the order of their names, as classes, if all pictures lie in
// them and there are at least two. A folder that holds all pictures does not count as a level. A
// folder whose name joins those of others by '+' ("red+large") stands for all of these classes, and
// folders that are all called like "size=0.3,angle=1" for numbers. With Unlabelled::kKeep pictures
// beside the folders have no label.
Labels labels_of_folders(const std::vector<std::string>& pictures,
                         Unlabelled unlabelled = Unlabelled::kAuto);

// Returns the length of the leading folders, with their '/', that all paths (at least one) share.
size_t common_folders(const std::vector<std::string>& paths);

// Reads labels in the form of StyleGAN2-ADA's data sets: {"labels": [["path", k], ...]} or null. A
// class is a whole number, a name, or a list of numbers with a single 1, whose length is the number
// of classes; a list "classes" or "class_names" names the numbers. Or all labels are vectors: lists
// of numbers of one length, which a list "attributes" may name, objects of numbers by name, or
// lists of names of classes. Where a label or a number is null, it is missing. Throws
// UserError(kInput) that names `name` and the entry that does not fit the others, or the picture
// without a label.
Labels labels_of_json(std::string_view json,
                      const std::string& name,
                      const std::vector<std::string>& pictures,
                      const ListReading& reading = {});

// Which columns of a CSV file hold what.
struct LabelColumns {
  size_t file = 0;
  size_t label = 1;
  bool header = false;               // the first row has the names of the columns
  std::vector<size_t> numbers = {};  // columns of a vector; then there is no `label`
};

// Finds the columns by their names, or takes the two that there are; else returns nothing.
std::optional<LabelColumns> label_columns(const std::vector<std::vector<std::string>>& rows);

// Finds the columns of files and numbers where a label has several columns: all but that of the
// files, which is known by its name, or the first one without a header. Returns nothing where the
// first row with values has a text where a number should be.
std::optional<LabelColumns> vector_columns(const std::vector<std::vector<std::string>>& rows);

// Reads labels from rows of a CSV file: a picture's path, or its name without folder or without
// ending, and its class, a number or a name, or in a column "labels" several with bars between
// them, or the columns of its vector. Names are numbered in bytewise order. An empty field is a
// label that is missing. Throws UserError(kInput) that names `name` and the line, or the picture
// without a label.
Labels labels_of_rows(const std::vector<std::vector<std::string>>& rows,
                      const LabelColumns& columns,
                      const std::string& name,
                      const std::vector<std::string>& pictures,
                      const ListReading& reading = {});

// Do the same with a list that nobody has named: they return nothing, with a message, where it
// names none of the pictures. A dataset.json that says "labels": null is an answer.
std::optional<Labels> found_labels_of_json(std::string_view json,
                                           const std::string& name,
                                           const std::vector<std::string>& pictures,
                                           const ListReading& reading = {});
std::optional<Labels> found_labels_of_rows(const std::vector<std::vector<std::string>>& rows,
                                           const LabelColumns& columns,
                                           const std::string& name,
                                           const std::vector<std::string>& pictures,
                                           const ListReading& reading = {});

// Makes labels of one text a picture: whole numbers, or names, numbered in bytewise order. Throws
// UserError(kInput) that names `name` and the picture whose text is neither, or the picture that
// makes thousands of classes without pictures, or the names among numbers.
Labels labels_of_texts(const std::vector<std::string>& texts,
                       const std::string& name,
                       const std::vector<std::string>& pictures);

// Returns a name as it can stand in JSON: bytes that are not UTF-8 are replaced.
std::string valid_text(const std::string& name);

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

// Labels one by one, as lists and folders say them, and what is made of all of them together.

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
// classes, as many as they are long. `attributes`: names of the numbers; empty: they have none.
// Throws UserError(kInput) that names `name` and the first entry of another kind or length.
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
