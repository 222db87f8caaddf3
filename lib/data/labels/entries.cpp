// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/labels/labels.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

using Kind = PictureLabel::Kind;

constexpr int64_t kMostNumbers = 4096;  // of a vector
constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
constexpr std::string_view kNoNumber = "\x01";  // what the mark of a number begins with

// A float, unless it is none or becomes infinite as one.
std::optional<float> finite_float(double value) {
  const auto number = static_cast<float>(value);
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

// Whether JSON of Python's has one of its own numbers at that place, and how many characters.
size_t own_number_at(std::string_view json, size_t at) {
  for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
    if (json.substr(at, word.size()) == word) return word.size();
  }
  return 0;
}

// Puts those numbers in quotes, with the mark.
std::string with_marks(std::string_view json) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const size_t length = quoted ? 0 : own_number_at(json, i);
    if (length > 0) {
      out += fmt::format("\"\\u0001{}\"", json.substr(i, length));
      i += length - 1;
      continue;
    }
    out += json[i];
    if (quoted && json[i] == '\\' && i + 1 < json.size()) {
      out += json[++i];
    } else if (json[i] == '"') {
      quoted = !quoted;
    }
  }
  return out;
}

std::string marked(const nlohmann::json& value) {
  if (!value.is_string()) return "";
  const auto& text = value.get_ref<const std::string&>();
  return starts_with(text, kNoNumber) ? text.substr(kNoNumber.size()) : "";
}

// A number of a vector. Throws std::string, what is wrong with it.
float number_in_json(const nlohmann::json& value, const std::string& entry) {
  if (value.is_null()) return kMissing;
  if (const std::string word = marked(value); !word.empty())
    throw fmt::format("{} is {}", entry, word);
  if (!value.is_number()) throw fmt::format("{} is no number", entry);
  const auto number = finite_float(value.get<double>());
  if (!number) throw fmt::format("{} is too large", entry);
  return *number;
}

std::string text_of_numbers(const std::vector<float>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

PictureLabel list_in_json(const nlohmann::json& list) {
  if (list.empty()) throw std::string("it has no number");
  const auto is_name = [](const nlohmann::json& one) {
    return one.is_string() && marked(one).empty();
  };
  PictureLabel label;
  if (std::ranges::all_of(list, is_name)) {
    label.kind = Kind::kNames;
    for (const nlohmann::json& one : list) label.names.push_back(one.get<std::string>());
    label.text = join(label.names, "|");
    return label;
  }
  label.kind = Kind::kVector;
  for (size_t i = 0; i < list.size(); ++i)
    label.numbers.push_back(number_in_json(list[i], fmt::format("its number {}", i)));
  label.text = text_of_numbers(label.numbers);
  return label;
}

PictureLabel object_in_json(const nlohmann::json& object) {
  PictureLabel label;
  label.kind = Kind::kNamed;
  for (const auto& [key, value] : object.items()) {
    label.names.push_back(key);
    label.numbers.push_back(number_in_json(value, fmt::format("its \"{}\"", key)));
    label.text += fmt::format("{}{}={}", label.text.empty() ? "" : ",", key, label.numbers.back());
  }
  return label;
}

// "a list of 3 numbers", for a message about two kinds of labels.
std::string described(const PictureLabel& label) {
  switch (label.kind) {
    case Kind::kNames:
      return "names of classes in a list";
    case Kind::kNamed:
      return "numbers by name";
    case Kind::kVector:
      return counted(static_cast<int64_t>(label.numbers.size()), "number");
    default:
      return fmt::format("the class {}", label.text);
  }
}

bool is_missing(const PictureLabel& label) { return label.kind == Kind::kMissing; }

// The place of the only 1 among zeros; nothing for other vectors.
std::optional<int64_t> one_hot(const std::vector<float>& numbers) {
  std::optional<int64_t> place;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == 0) continue;
    if (numbers[i] != 1 || place) return std::nullopt;
    place = static_cast<int64_t>(i);
  }
  return place;
}

// All labels of a data set, which are of one kind.
class Entries {
 public:
  Entries(const std::vector<PictureLabel>& labels,
          const std::string& name,
          const std::vector<std::string>& pictures,
          const std::vector<std::string>& attributes)
      : labels_(labels), name_(name), pictures_(pictures), attributes_(attributes) {}

  Labels all() const {
    const auto first =
        std::ranges::find_if(labels_, [](const auto& label) { return !is_missing(label); });
    if (first == labels_.end()) fail(Exit::kInput, "{}: none of the pictures has a label", name_);
    for (const PictureLabel& label : labels_) check_alike(label, *first);
    if (first->kind == Kind::kClass || are_one_hot()) return classes();
    Labels labels;
    labels.vectors = first->kind == Kind::kVector ? vectors() : by_name();
    complete(labels.vectors);
    return labels;
  }

 private:
  void check_alike(const PictureLabel& label, const PictureLabel& first) const {
    if (is_missing(label)) return;
    const bool alike = label.kind == first.kind && (label.kind != Kind::kVector ||
                                                    label.numbers.size() == first.numbers.size());
    if (alike) return;
    fail(Exit::kInput,
         "{}: {}: {}, and {} has {}; labels of all pictures are of one kind and length",
         name_,
         label.where,
         described(label),
         first.where,
         described(first));
  }

  bool are_one_hot() const {
    return std::ranges::all_of(labels_, [](const PictureLabel& label) {
      return is_missing(label) || (label.kind == Kind::kVector && one_hot(label.numbers));
    });
  }

  // Classes, or where some pictures have none, vectors with a 1 in the place of the class.
  Labels classes() const {
    std::vector<std::string> texts, known;
    size_t length = 0;
    for (size_t i = 0; i < labels_.size(); ++i) {
      const PictureLabel& label = labels_[i];
      if (is_missing(label)) continue;
      const bool list = label.kind == Kind::kVector;
      texts.push_back(list ? std::to_string(*one_hot(label.numbers)) : label.text);
      known.push_back(pictures_[i]);
      length = label.numbers.size();
    }
    Labels labels = labels_of_texts(texts, name_, known);
    // A list of numbers says how many classes there are, also where the last have no picture.
    labels.classes = std::max(labels.classes, static_cast<int64_t>(length));
    if (length > 0 && length == attributes_.size()) labels.names = attributes_;
    if (known.size() == labels_.size()) return labels;
    LabelVectors vectors;
    vectors.names = labels.names.empty() ? attributes_ : labels.names;
    length = std::max(length, static_cast<size_t>(labels.classes));
    for (size_t k = vectors.names.size(); k < length; ++k)
      vectors.names.push_back(std::to_string(k));
    check_length(vectors.names.size());
    size_t next = 0;
    for (const PictureLabel& label : labels_) {
      const size_t begin = vectors.values.size();
      vectors.values.resize(begin + vectors.names.size(), is_missing(label) ? kMissing : 0);
      if (!is_missing(label)) vectors.values[begin + static_cast<size_t>(labels.of[next++])] = 1;
    }
    complete(vectors);
    return {.classes = 0, .of = {}, .names = {}, .vectors = std::move(vectors)};
  }

  LabelVectors vectors() const {
    LabelVectors vectors;
    size_t length = 0;
    for (const PictureLabel& label : labels_) length = std::max(length, label.numbers.size());
    check_names(length);
    check_length(length);
    vectors.names = attributes_;
    for (size_t k = vectors.names.size(); k < length; ++k)
      vectors.names.push_back(std::to_string(k));
    for (const PictureLabel& label : labels_) {
      if (is_missing(label)) {
        vectors.values.resize(vectors.values.size() + length, kMissing);
      } else {
        vectors.values.insert(vectors.values.end(), label.numbers.begin(), label.numbers.end());
      }
    }
    return vectors;
  }

  void check_names(size_t length) const {
    if (attributes_.empty() || attributes_.size() == length) return;
    fail(Exit::kInput,
         "{}: names {}, and the labels have {}",
         name_,
         counted(static_cast<int64_t>(attributes_.size()), "number"),
         length);
  }

  // In the order of `attributes`, else in that of their names.
  LabelVectors by_name() const {
    std::map<std::string, size_t> place;
    for (const PictureLabel& label : labels_) {
      for (const std::string& name : label.names) place[name] = 0;
    }
    LabelVectors vectors;
    vectors.names = attributes_;
    if (attributes_.empty()) {
      for (const auto& [name, unused] : place) vectors.names.push_back(name);
    }
    check_length(vectors.names.size());
    for (size_t k = 0; k < vectors.names.size(); ++k) place[vectors.names[k]] = k;
    for (const PictureLabel& label : labels_) {
      const size_t begin = vectors.values.size();
      const bool absent_is_zero = label.kind == Kind::kNames;
      vectors.values.resize(begin + vectors.names.size(), absent_is_zero ? 0 : kMissing);
      for (size_t i = 0; i < label.names.size(); ++i) {
        check_known(label, label.names[i]);
        vectors.values[begin + place.at(label.names[i])] = absent_is_zero ? 1 : label.numbers[i];
      }
    }
    return vectors;
  }

  void check_known(const PictureLabel& label, const std::string& name) const {
    if (attributes_.empty() || contains(attributes_, name)) return;
    fail(Exit::kInput, "{}: {}: \"{}\" is none of its names", name_, label.where, name);
  }

  // Asked before they take memory: numbers of all pictures.
  void check_length(size_t length) const {
    if (length > static_cast<size_t>(kMostNumbers))
      fail(Exit::kInput, "{}: labels of {} numbers; at most {}", name_, length, kMostNumbers);
  }

  // Replaces what is missing, and says so.
  void complete(LabelVectors& vectors) const {
    const int64_t length = vectors.length(), pictures = static_cast<int64_t>(pictures_.size());
    const auto at = [&](int64_t i, int64_t k) -> float& {
      return vectors.values[static_cast<size_t>(i * length + k)];
    };
    const bool whole =
        std::ranges::none_of(vectors.values, [](float value) { return std::isnan(value); });
    if (whole) return;
    int64_t numbers = 0;
    vectors.given.assign(vectors.values.size(), true);
    for (int64_t k = 0; k < length; ++k) {
      double sum = 0;
      int64_t count = 0;
      bool yes_or_no = true;
      for (int64_t i = 0; i < pictures; ++i) {
        const float value = at(i, k);
        if (std::isnan(value)) continue;
        sum += value;
        count += 1;
        yes_or_no &= value == 0 || value == 1;
      }
      const double fill = yes_or_no || count == 0 ? 0 : sum / static_cast<double>(count);
      for (int64_t i = 0; i < pictures; ++i) {
        if (!std::isnan(at(i, k))) continue;
        vectors.given[static_cast<size_t>(i * length + k)] = false;
        at(i, k) = static_cast<float>(fill);
        numbers += 1;
      }
    }
    const int64_t none = vectors.unlabelled();
    warn(
        "{}: {} without a label, and {} missing in those of others: 0 for classes, the mean of the "
        "others for values",
        name_,
        counted(none, "picture"),
        counted(numbers - none * length, "number"));
  }

  const std::vector<PictureLabel>& labels_;
  const std::string& name_;
  const std::vector<std::string>& pictures_;
  const std::vector<std::string>& attributes_;
};

// A field of a column of numbers. Throws std::string, what is wrong with it.
float number_in_field(const std::string& field, const std::string& column) {
  if (field.empty()) return kMissing;
  const auto number = parse_double(field);
  if (!number) throw fmt::format("{} is {}, no number", column, printable(field));
  const auto value = finite_float(*number);
  if (!value) throw fmt::format("{} is {}", column, field);
  return *value;
}

PictureLabel vector_in_row(const std::vector<std::string>& row,
                           const std::vector<std::string>& header,
                           const LabelColumns& columns) {
  PictureLabel label;
  bool some = false;
  for (const size_t column : columns.numbers) {
    if (column >= row.size()) continue;  // the caller names the line
    const std::string name = columns.header && column < header.size()
                                 ? header[column]
                                 : fmt::format("column {}", column + 1);
    label.numbers.push_back(number_in_field(row[column], name));
    some |= !std::isnan(label.numbers.back());
  }
  if (!some) return {};
  label.kind = Kind::kVector;
  label.text = text_of_numbers(label.numbers);
  return label;
}

// Several classes have bars between them.
PictureLabel class_in_field(const std::string& field, bool several) {
  PictureLabel label;
  if (field.empty()) return label;
  label.kind = several ? Kind::kNames : Kind::kClass;
  label.text = field;
  if (!several) return label;
  for (const std::string& part : split(field, '|')) label.names.push_back(trim(part));
  return label;
}

// Whether the column is called "labels" and some field has a bar.
bool has_several(const std::vector<std::vector<std::string>>& rows, const LabelColumns& columns) {
  if (!columns.header || lower(rows.front().at(columns.label)) != "labels") return false;
  return std::ranges::any_of(rows, [&](const auto& row) {
    return columns.label < row.size() && row[columns.label].find('|') != std::string::npos;
  });
}

// The folders whose names one folder's name joins; empty where they are not all folders.
std::vector<std::string> joined(const std::string& folder, const std::set<std::string>& folders) {
  const std::vector<std::string> parts = split(folder, '+');
  const bool all = std::ranges::all_of(
      parts, [&](const std::string& part) { return !part.empty() && folders.contains(part); });
  return parts.size() > 1 && all ? parts : std::vector<std::string>{};
}

PictureLabel label_of_folder(const std::string& folder, const std::set<std::string>& folders) {
  PictureLabel label{.kind = Kind::kNames, .text = folder, .where = folder + "/"};
  label.names = joined(folder, folders);
  if (label.names.empty()) label.names = {folder};
  return label;
}

// Of a folder called like "size=0.3,angle=1".
PictureLabel numbers_of_folder(const std::string& folder, const std::string& picture) {
  PictureLabel label{.kind = Kind::kNamed, .text = folder, .where = folder + "/"};
  const auto pairs = parse_assignments(folder);
  for (const auto& [name, value] : *pairs) {
    const auto number = finite_float(value);
    if (!number) fail(Exit::kInput, "{}: the folder {}: {} is {}", picture, folder, name, value);
    label.names.push_back(name);
    label.numbers.push_back(*number);
  }
  return label;
}

}  // namespace

Labels labels_of_entries(const std::vector<PictureLabel>& labels,
                         const std::string& name,
                         const std::vector<std::string>& pictures,
                         const std::vector<std::string>& attributes) {
  return Entries(labels, name, pictures, attributes).all();
}

nlohmann::json parse_list(std::string_view json) {
  nlohmann::json content = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!content.is_discarded()) return content;
  return nlohmann::json::parse(with_marks(json), nullptr, /*allow_exceptions=*/false);
}

PictureLabel label_in_json(const nlohmann::json& value,
                           const std::string& name,
                           const std::string& path) {
  PictureLabel label;
  try {
    if (const std::string word = marked(value); !word.empty()) throw fmt::format("it is {}", word);
    if (value.is_number_integer() && value.get<int64_t>() >= 0) {
      label = {.kind = Kind::kClass, .text = std::to_string(value.get<int64_t>())};
    } else if (value.is_string() && !value.get_ref<const std::string&>().empty()) {
      label = {.kind = Kind::kClass, .text = value.get<std::string>()};
    } else if (value.is_array()) {
      label = list_in_json(value);
    } else if (value.is_object() && !value.empty()) {
      label = object_in_json(value);
    } else if (!value.is_null()) {
      throw std::string(
          "it must be a whole number from 0 up or a name; numbers of other kinds stand in lists");
    }
  } catch (const std::string& wrong) {
    fail(Exit::kInput, "{}: the class of {} or its vector: {}", name, path, wrong);
  }
  label.where = "the label of " + path;
  return label;
}

std::vector<PictureLabel> labels_in_rows(const std::vector<std::vector<std::string>>& rows,
                                         const LabelColumns& columns,
                                         const std::vector<int64_t>& lines) {
  std::vector<PictureLabel> labels(rows.size());
  const bool several = columns.numbers.empty() && !rows.empty() && has_several(rows, columns);
  for (size_t i = columns.header ? 1 : 0; i < rows.size(); ++i) {
    PictureLabel& label = labels[i];
    std::string wrong;
    try {
      if (!columns.numbers.empty()) {
        label = vector_in_row(rows[i], rows.front(), columns);
      } else if (columns.label < rows[i].size()) {
        label = class_in_field(rows[i][columns.label], several);
      }
    } catch (const std::string& what) {
      wrong = what;
    }
    label.wrong = wrong;
    label.where = fmt::format("line {}", i < lines.size() ? lines[i] : static_cast<int64_t>(i + 1));
  }
  return labels;
}

std::vector<std::string> attributes_in(const std::vector<std::vector<std::string>>& rows,
                                       const LabelColumns& columns) {
  std::vector<std::string> names;
  if (!columns.header) return names;
  for (const size_t column : columns.numbers) names.push_back(rows.front()[column]);
  return names;
}

std::optional<Labels> vectors_of_folders(const std::vector<std::string>& folders,
                                         const std::vector<std::string>& pictures,
                                         Unlabelled unlabelled) {
  std::set<std::string> all(folders.begin(), folders.end());
  const bool loose = all.erase("") > 0;
  const bool keep = unlabelled == Unlabelled::kKeep;
  if (all.empty()) return std::nullopt;
  const bool numbers = std::ranges::all_of(
      all, [](const std::string& folder) { return parse_assignments(folder).has_value(); });
  const bool several = std::ranges::any_of(
      all, [&](const std::string& folder) { return !joined(folder, all).empty(); });
  const bool with_loose = loose && (keep || (numbers && unlabelled == Unlabelled::kAuto));
  if (loose && !with_loose) return std::nullopt;
  if (!numbers && !several && (!loose || all.size() < 2)) return std::nullopt;
  std::vector<PictureLabel> labels;
  for (size_t i = 0; i < folders.size(); ++i) {
    const std::string& folder = folders[i];
    labels.push_back(folder.empty() ? PictureLabel{}
                     : numbers      ? numbers_of_folder(folder, pictures[i])
                                    : label_of_folder(folder, all));
  }
  return labels_of_entries(labels, "folders", pictures);
}

}  // namespace gantrain
