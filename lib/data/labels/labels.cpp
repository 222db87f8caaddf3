// SPDX-License-Identifier: Apache-2.0
#include "data/labels/labels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr int64_t kMaxClasses = 1 << 20;

std::string base_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string without_ending(const std::string& path) {
  const size_t dot = path.rfind('.');
  const size_t slash = path.rfind('/');
  const bool ending = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return ending ? path.substr(0, dot) : path;
}

// Paths in lists may be written as on Windows, or begin with "./".
std::string plain_path(std::string path) {
  std::replace(path.begin(), path.end(), '\\', '/');
  while (starts_with(path, "./")) path.erase(0, 2);
  return path;
}

// "3 files have two labels (a.png, b.png, ...)".
std::string counted_with(const std::vector<std::string>& names,
                         const std::string& what,
                         const std::string& have) {
  constexpr size_t kShown = 3;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<long>(std::min(names.size(), kShown)));
  return fmt::format("{} {} {} ({}{})",
                     names.size(),
                     names.size() == 1 ? what + " has" : what + "s have",
                     have,
                     join(first, ", "),
                     names.size() > kShown ? ", ..." : "");
}

// The label of each file that a list names.
class LabelList {
 public:
  explicit LabelList(std::string name) : name_(std::move(name)) {}

  // A later label of a file replaces an earlier one, as in the reference's loader.
  void add(const std::string& path, PictureLabel label) {
    const auto [found, added] = label_of_.try_emplace(plain_path(path), label);
    if (added) return;
    if (found->second.text != label.text)
      replaced_.push_back(
          fmt::format("{} ({} and {})", found->first, found->second.text, label.text));
    found->second = std::move(label);
  }

  // Does the same where two labels of one file must be equal.
  void add_once(const std::string& path, const PictureLabel& label) {
    const auto [found, added] = label_of_.try_emplace(plain_path(path), label);
    if (added || found->second.text == label.text) return;
    wrong(fmt::format(
        "{}: two labels for {}: {} and {}", name_, found->first, found->second.text, label.text));
  }

  // Remembers what is wrong with the list, which of() says: a list about something else may be.
  void wrong(std::string message) {
    if (wrong_.empty()) wrong_ = std::move(message);
  }

  // Whether it names one of the pictures.
  bool is_about(const std::vector<std::string>& pictures) const {
    return std::ranges::any_of(
        pictures, [&](const std::string& picture) { return find(picture) != nullptr; });
  }

  Labels of(const std::vector<std::string>& pictures,
            Unlabelled unlabelled,
            const std::vector<std::string>& attributes) const {
    if (!wrong_.empty()) fail(Exit::kInput, "{}", wrong_);
    if (!replaced_.empty())
      warn("{}: {}: the last label counts", name_, counted_with(replaced_, "file", "two labels"));
    std::vector<PictureLabel> labels;
    std::vector<std::string> missing, empty;
    std::unordered_map<const PictureLabel*, const std::string*> user;  // the first picture of each
    std::vector<std::string> shared;
    for (const std::string& picture : pictures) {
      const PictureLabel* label = find(picture);
      if (label == nullptr) {
        missing.push_back(picture);
        labels.emplace_back();
        continue;
      }
      const auto [first, alone] = user.try_emplace(label, &picture);
      if (!alone) shared.push_back(fmt::format("{} and {}", *first->second, picture));
      if (label->kind == PictureLabel::Kind::kMissing) empty.push_back(picture);
      labels.push_back(*label);
    }
    if (!shared.empty()) {
      warn("{}: {}: give their paths with folders and endings",
           name_,
           counted_with(shared, "more picture", "the label of another one of the same name"));
    }
    refuse_missing(labels, missing, empty, unlabelled);
    if (label_of_.size() > pictures.size()) {
      info("{}: {} of its labels are of files that are not there",
           name_,
           label_of_.size() - pictures.size());
    }
    return labels_of_entries(labels, name_, pictures, attributes);
  }

 private:
  // A list of classes that leaves pictures out is taken for one that is not complete.
  void refuse_missing(const std::vector<PictureLabel>& labels,
                      const std::vector<std::string>& missing,
                      const std::vector<std::string>& empty,
                      Unlabelled unlabelled) const {
    using enum PictureLabel::Kind;
    const bool vectors = std::ranges::any_of(labels, [](const PictureLabel& label) {
      return label.kind == kNames || label.kind == kNamed || label.kind == kVector;
    });
    if (unlabelled == Unlabelled::kKeep) return;
    if (unlabelled == Unlabelled::kRefuse && !empty.empty())
      fail(Exit::kInput, "{}: the label of {} is empty (data.unlabelled)", name_, empty.front());
    if (missing.empty() || (vectors && unlabelled == Unlabelled::kAuto)) return;
    fail(Exit::kInput,
         "{}: no label for {}{}; complete it, or {}, and --set data.unlabelled=keep (--unlabelled "
         "keep) takes such pictures as they are",
         name_,
         missing.front(),
         missing.size() > 1 ? fmt::format(" and {} more pictures", missing.size() - 1) : "",
         kWithoutLabels);
  }

  const PictureLabel* find(const std::string& picture) const {
    const std::string base = base_of(picture);
    for (const std::string& key : {picture, without_ending(picture), base, without_ending(base)}) {
      const auto found = label_of_.find(key);
      if (found != label_of_.end()) return &found->second;
    }
    return nullptr;
  }

  std::string name_;
  std::string wrong_;                  // the first fault
  std::vector<std::string> replaced_;  // "a.png (0 and 1)"
  std::unordered_map<std::string, PictureLabel> label_of_;
};

LabelList read_pairs(const nlohmann::json& pairs, const std::string& name) {
  LabelList list(name);
  for (const nlohmann::json& pair : pairs) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) {
      list.wrong(fmt::format("{}: each of \"labels\" must be [\"path\", class]", name));
      continue;
    }
    const auto path = pair[0].get<std::string>();
    PictureLabel label;
    try {
      label = label_in_json(pair[1], name, path);
    } catch (const UserError& error) {
      list.wrong(error.what());
    }
    list.add(path, std::move(label));
  }
  return list;
}

std::vector<std::string> names_in_json(const nlohmann::json& content, const std::string& name) {
  for (const char* key : {"classes", "class_names"}) {
    if (!content.contains(key) || content[key].is_null()) continue;
    std::vector<std::string> names;
    const nlohmann::json& list = content[key];  // a copy of a deep one would overflow the stack
    for (const nlohmann::json& one : list) {
      if (one.is_string()) names.push_back(one.get<std::string>());
    }
    if (!list.is_array() || names.size() != list.size()) {
      fail(Exit::kInput, "{}: \"{}\" must be a list of the classes' names", name, key);
    }
    return names;
  }
  return {};
}

// Names of the numbers of vectors. Files of other programs may have something else there.
std::vector<std::string> attributes_in_json(const nlohmann::json& content) {
  const auto is_text = [](const nlohmann::json& one) { return one.is_string(); };
  for (const char* key : {"attributes", "label_names"}) {
    if (!content.contains(key) || !content[key].is_array()) continue;
    if (!std::ranges::all_of(content[key], is_text)) continue;
    return content[key].get<std::vector<std::string>>();
  }
  return {};
}

// A whole number, also one that a table of floats has made "3.0".
std::optional<int64_t> whole_number(const std::string& text) {
  if (const auto number = parse_int(text)) return number;
  const auto number = parse_double(text);
  const bool whole = number && std::floor(*number) == *number && std::abs(*number) < kMaxClasses;
  return whole ? std::optional(static_cast<int64_t>(*number)) : std::nullopt;
}

// The labels in a list, with the names that the file has for the classes.
Labels labels_and_names(const LabelList& list,
                        const nlohmann::json& content,
                        const std::string& name,
                        const std::vector<std::string>& pictures,
                        Unlabelled unlabelled) {
  std::vector<std::string> names = names_in_json(content, name);
  const std::vector<std::string> attributes = attributes_in_json(content);
  Labels labels = list.of(pictures, unlabelled, attributes.empty() ? names : attributes);
  if (names.empty() || !labels.names.empty() || labels.classes == 0) return labels;
  const auto known = static_cast<int64_t>(names.size());
  const int64_t largest = *std::ranges::max_element(labels.of);
  if (known <= largest) {
    fail(Exit::kInput,
         "{}: names {}, and the labels go up to {}",
         name,
         counted(known, "class"),
         largest);
  }
  labels.classes = std::min(labels.classes, known);
  names.resize(static_cast<size_t>(labels.classes));
  labels.names = std::move(names);
  return labels;
}

LabelList read_rows(const std::vector<std::vector<std::string>>& rows,
                    const LabelColumns& columns,
                    const std::string& name,
                    const std::vector<int64_t>& lines) {
  LabelList list(name);
  const std::vector<PictureLabel> labels = labels_in_rows(rows, columns, lines);
  for (size_t i = columns.header ? 1 : 0; i < rows.size(); ++i) {
    if (columns.numbers.empty() && rows[i].size() <= std::max(columns.file, columns.label)) {
      const auto fields = static_cast<int64_t>(rows[i].size());
      list.wrong(fmt::format("{}: {}: {} only", name, labels[i].where, counted(fields, "field")));
      continue;
    }
    const PictureLabel& label = labels[i];
    if (columns.numbers.empty() || rows[i].size() == rows.front().size()) {
      if (!label.wrong.empty())
        list.wrong(fmt::format("{}: {}: {}", name, label.where, label.wrong));
      list.add_once(rows[i][columns.file], label);
      continue;
    }
    list.wrong(fmt::format("{}: {}: {} fields, the first row has {}",
                           name,
                           label.where,
                           rows[i].size(),
                           rows.front().size()));
  }
  return list;
}

std::optional<Labels> not_about(const std::string& name) {
  info("{}: not used as labels: it names none of the pictures", name);
  return std::nullopt;
}

// Refuses numbers that leave most classes without a picture, as one mistyped number does. Lists
// for a part of a large data set have such gaps, too, but not as many.
void check_gaps(const Labels& labels,
                const std::string& name,
                const std::vector<std::string>& pictures) {
  constexpr int64_t kMostEmpty = 1000;
  const std::set<int64_t> used(labels.of.begin(), labels.of.end());
  const auto empty = labels.classes - static_cast<int64_t>(used.size());
  if (empty <= kMostEmpty || empty <= static_cast<int64_t>(used.size())) return;
  const auto largest = std::ranges::max_element(labels.of) - labels.of.begin();
  fail(Exit::kInput,
       "{}: class {} of {} would make {} classes, {} of them without a picture; number the {} "
       "classes that there are from 0, or {}",
       name,
       labels.classes - 1,
       pictures[static_cast<size_t>(largest)],
       labels.classes,
       empty,
       used.size(),
       kWithoutLabels);
}

// Refuses names among numbers that count classes: as names, 10 would stand before 2.
void check_mixture(const std::vector<std::string>& texts,
                   const std::string& name,
                   const std::vector<std::string>& pictures) {
  std::set<int64_t> numbers;
  std::vector<std::string> words;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto number = whole_number(texts[i]);
    if (number && *number >= 0) numbers.insert(*number);
    if (!number) words.push_back(fmt::format("{} of {}", texts[i], pictures[i]));
  }
  const auto count = static_cast<int64_t>(numbers.size());
  if (words.empty() || numbers.empty() || *numbers.rbegin() >= 2 * count) return;
  fail(Exit::kInput,
       "{}: {}, and the other {} have numbers; give all classes numbers, or all names",
       name,
       counted_with(words, "picture", "a class that is no number"),
       texts.size() - words.size());
}

Labels labels_of_names(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> number_of;
  for (const std::string& text : texts) number_of[text] = 0;
  Labels labels;
  for (auto& [name, number] : number_of) {
    number = labels.classes++;
    labels.names.push_back(name);
  }
  for (const std::string& text : texts) labels.of.push_back(number_of.at(text));
  return labels;
}

}  // namespace

size_t common_folders(const std::vector<std::string>& paths) {
  const auto [low, high] = std::minmax_element(paths.begin(), paths.end());
  const auto end = std::mismatch(low->begin(), low->end(), high->begin(), high->end()).first;
  const size_t same = static_cast<size_t>(end - low->begin());
  const size_t slash = low->substr(0, same).rfind('/');
  return slash == std::string::npos ? 0 : slash + 1;
}

Labels labels_of_folders(const std::vector<std::string>& pictures, Unlabelled unlabelled) {
  if (pictures.empty()) return {};
  const size_t skip = common_folders(pictures);
  std::vector<std::string> folders;
  int64_t loose = 0;
  for (const std::string& path : pictures) {
    const size_t slash = path.find('/', skip);
    loose += slash == std::string::npos ? 1 : 0;
    folders.push_back(slash == std::string::npos ? "" : path.substr(skip, slash - skip));
  }
  if (const auto vectors = vectors_of_folders(folders, pictures, unlabelled)) return *vectors;
  if (loose > 0) return {};
  Labels labels = labels_of_names(folders);
  return labels.classes < 2 ? Labels{} : labels;
}

Labels labels_of_texts(const std::vector<std::string>& texts,
                       const std::string& name,
                       const std::vector<std::string>& pictures) {
  const bool numbers = std::ranges::all_of(
      texts, [](const std::string& text) { return parse_double(text).has_value(); });
  Labels labels;
  if (numbers) {
    for (size_t i = 0; i < texts.size(); ++i) {
      const int64_t label = whole_number(texts[i]).value_or(-1);
      if (label < 0 || label >= kMaxClasses) {
        fail(Exit::kInput,
             "{}: the class of {} is {}; it must be a whole number from 0 up, or a name",
             name,
             pictures[i],
             texts[i]);
      }
      labels.of.push_back(label);
      labels.classes = std::max(labels.classes, label + 1);
    }
    check_gaps(labels, name, pictures);
    return labels;
  }
  const auto none = std::ranges::find(texts, "");
  if (none != texts.end()) {
    fail(Exit::kInput,
         "{}: the class of {} is empty",
         name,
         pictures[static_cast<size_t>(none - texts.begin())]);
  }
  check_mixture(texts, name, pictures);
  return labels_of_names(texts);
}

Labels labels_of_json(std::string_view json,
                      const std::string& name,
                      const std::vector<std::string>& pictures,
                      const ListReading& reading) {
  const nlohmann::json content = parse_list(json);
  if (!content.is_object()) fail(Exit::kInput, "{}: not a JSON object", name);
  if (!content.contains("labels") || content["labels"].is_null()) return {};
  if (!content["labels"].is_array()) {
    fail(Exit::kInput, "{}: \"labels\" must be null or a list of [\"path\", class]", name);
  }
  return labels_and_names(
      read_pairs(content["labels"], name), content, name, pictures, reading.unlabelled);
}

std::optional<Labels> found_labels_of_json(std::string_view json,
                                           const std::string& name,
                                           const std::vector<std::string>& pictures,
                                           const ListReading& reading) {
  const nlohmann::json content = parse_list(json);
  if (content.is_discarded()) {
    fail(Exit::kInput, "{}: not JSON; complete it, or {}", name, kWithoutLabels);
  }
  if (!content.is_object() || !content.contains("labels")) return not_about(name);
  if (content["labels"].is_null()) return Labels{};
  if (!content["labels"].is_array()) return not_about(name);
  const LabelList list = read_pairs(content["labels"], name);
  if (!list.is_about(pictures)) return not_about(name);
  return labels_and_names(list, content, name, pictures, reading.unlabelled);
}

namespace {

// The column that has the first of these names that there is.
std::optional<size_t> column_named(const std::vector<std::string>& first, std::string_view names) {
  for (const std::string& name : split(names, ' ')) {  // the likelier ones first
    for (size_t i = 0; i < first.size(); ++i) {
      if (lower(first[i]) == name) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<size_t> file_column(const std::vector<std::string>& header) {
  return column_named(header,
                      "file_name filename file file_path filepath path image_path image image_name "
                      "img picture image_id name id");
}

std::optional<LabelColumns> label_columns(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return std::nullopt;
  const auto file = file_column(rows.front());
  const auto label = column_named(
      rows.front(), "label class class_name label_name class_id labels category target y");
  if (file && label) return LabelColumns{.file = *file, .label = *label, .header = true};
  const auto two = [](const std::vector<std::string>& row) { return row.size() == 2; };
  if (file || label || !std::ranges::all_of(rows, two)) return std::nullopt;
  return LabelColumns{};
}

std::optional<LabelColumns> vector_columns(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return std::nullopt;
  const std::vector<std::string>& first = rows.front();
  const auto is_number = [](const std::string& field) {
    return field.empty() || parse_double(field).has_value();
  };
  LabelColumns columns;
  columns.header = !std::all_of(first.begin() + 1, first.end(), is_number);
  if (const auto file = file_column(first)) {
    columns.file = *file;
    columns.header = true;
  }
  const size_t values = columns.header ? 1 : 0;
  for (size_t i = 0; i < first.size(); ++i) {
    if (i != columns.file) columns.numbers.push_back(i);
  }
  if (columns.numbers.empty() || rows.size() <= values) return std::nullopt;
  const std::vector<std::string>& row = rows[values];
  const bool fits = std::ranges::any_of(columns.numbers, [&](size_t column) {
    return column < row.size() && is_number(row[column]);
  });
  return fits ? std::optional(columns) : std::nullopt;
}

Labels labels_of_rows(const std::vector<std::vector<std::string>>& rows,
                      const LabelColumns& columns,
                      const std::string& name,
                      const std::vector<std::string>& pictures,
                      const ListReading& reading) {
  return read_rows(rows, columns, name, reading.lines)
      .of(pictures, reading.unlabelled, attributes_in(rows, columns));
}

std::optional<Labels> found_labels_of_rows(const std::vector<std::vector<std::string>>& rows,
                                           const LabelColumns& columns,
                                           const std::string& name,
                                           const std::vector<std::string>& pictures,
                                           const ListReading& reading) {
  const LabelList list = read_rows(rows, columns, name, reading.lines);
  if (!list.is_about(pictures)) return not_about(name);
  return list.of(pictures, reading.unlabelled, attributes_in(rows, columns));
}

std::string valid_text(const std::string& name) {
  if (std::ranges::all_of(name, [](char c) { return static_cast<signed char>(c) >= 0; }))
    return name;
  return nlohmann::json::parse(
      nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace gantrain
