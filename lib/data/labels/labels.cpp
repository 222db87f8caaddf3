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

// The class of each file that a list names, as a text.
class LabelList {
 public:
  explicit LabelList(std::string name) : name_(std::move(name)) {}

  // A later label of a file replaces an earlier one, as in the reference's loader.
  void add(const std::string& path, std::string label) {
    const auto [found, added] = label_of_.try_emplace(plain_path(path), label);
    if (added) return;
    if (found->second != label)
      replaced_.push_back(fmt::format("{} ({} and {})", found->first, found->second, label));
    found->second = std::move(label);
  }

  // Does the same where two labels of one file must be equal.
  void add_once(const std::string& path, const std::string& label) {
    const auto [found, added] = label_of_.try_emplace(plain_path(path), label);
    if (added || found->second == label) return;
    wrong(
        fmt::format("{}: two labels for {}: {} and {}", name_, found->first, found->second, label));
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

  Labels of(const std::vector<std::string>& pictures) const {
    if (!wrong_.empty()) fail(Exit::kInput, "{}", wrong_);
    if (!replaced_.empty())
      warn("{}: {}: the last label counts", name_, counted_with(replaced_, "file", "two labels"));
    std::vector<std::string> texts;
    std::vector<std::string> missing;
    std::unordered_map<const std::string*, const std::string*> user;  // the first picture of each
    std::vector<std::string> shared;
    for (const std::string& picture : pictures) {
      const std::string* label = find(picture);
      if (label == nullptr) {
        missing.push_back(picture);
        continue;
      }
      const auto [first, alone] = user.try_emplace(label, &picture);
      if (!alone) shared.push_back(fmt::format("{} and {}", *first->second, picture));
      texts.push_back(*label);
    }
    if (!shared.empty()) {
      warn("{}: {}: give their paths with folders and endings",
           name_,
           counted_with(shared, "more picture", "the label of another one of the same name"));
    }
    if (!missing.empty()) {
      fail(Exit::kInput,
           "{}: no label for {}{}; complete it, or --set data.labels=none does without",
           name_,
           missing.front(),
           missing.size() > 1 ? fmt::format(" and {} more pictures", missing.size() - 1) : "");
    }
    if (label_of_.size() > pictures.size()) {
      info("{}: {} of its labels are of files that are not there",
           name_,
           label_of_.size() - pictures.size());
    }
    return labels_of_texts(texts, name_, pictures);
  }

 private:
  const std::string* find(const std::string& picture) const {
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
  std::unordered_map<std::string, std::string> label_of_;
};

// The place of the only 1 among zeros; nothing for other lists.
std::optional<int64_t> one_hot(const nlohmann::json& list) {
  std::optional<int64_t> place;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_number()) return std::nullopt;
    const double value = list[i].get<double>();
    if (value == 0) continue;
    if (value != 1 || place) return std::nullopt;
    place = static_cast<int64_t>(i);
  }
  return place;
}

std::string text_of_class(const nlohmann::json& value,
                          const std::string& name,
                          const std::string& path) {
  if (value.is_number_integer() && value.get<int64_t>() >= 0) {
    return std::to_string(value.get<int64_t>());
  }
  if (value.is_string() && !value.get<std::string>().empty()) return value.get<std::string>();
  if (value.is_array()) {
    if (const auto place = one_hot(value)) return std::to_string(*place);
    fail(Exit::kInput,
         "{}: the class of {} is a list that is not a single 1 among zeros; networks here are "
         "conditional on one class, not on vectors",
         name,
         path);
  }
  fail(Exit::kInput, "{}: the class of {} must be a whole number from 0 up or a name", name, path);
}

LabelList read_pairs(const nlohmann::json& pairs, const std::string& name) {
  LabelList list(name);
  for (const nlohmann::json& pair : pairs) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) {
      list.wrong(fmt::format("{}: each of \"labels\" must be [\"path\", class]", name));
      continue;
    }
    const auto path = pair[0].get<std::string>();
    std::string label;
    try {
      label = text_of_class(pair[1], name, path);
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
                        const std::vector<std::string>& pictures) {
  Labels labels = list.of(pictures);
  std::vector<std::string> names = names_in_json(content, name);
  if (names.empty() || !labels.names.empty()) return labels;
  if (static_cast<int64_t>(names.size()) < labels.classes) {
    fail(Exit::kInput,
         "{}: names {}, and the labels go up to {}",
         name,
         counted(static_cast<int64_t>(names.size()), "class"),
         labels.classes - 1);
  }
  names.resize(static_cast<size_t>(labels.classes));
  labels.names = std::move(names);
  return labels;
}

LabelList read_rows(const std::vector<std::vector<std::string>>& rows,
                    const LabelColumns& columns,
                    const std::string& name) {
  LabelList list(name);
  for (size_t i = columns.header ? 1 : 0; i < rows.size(); ++i) {
    if (rows[i].size() <= std::max(columns.file, columns.label)) {
      list.wrong(fmt::format("{}: row {} has {} fields only", name, i + 1, rows[i].size()));
      continue;
    }
    list.add_once(rows[i][columns.file], rows[i][columns.label]);
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
       "classes that there are from 0, or --set data.labels=none does without",
       name,
       labels.classes - 1,
       pictures[static_cast<size_t>(largest)],
       labels.classes,
       empty,
       used.size());
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

Labels labels_of_folders(const std::vector<std::string>& pictures) {
  if (pictures.empty()) return {};
  const size_t skip = common_folders(pictures);
  std::vector<std::string> folders;
  for (const std::string& path : pictures) {
    const size_t slash = path.find('/', skip);
    if (slash == std::string::npos) return {};
    folders.push_back(path.substr(skip, slash - skip));
  }
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
                      const std::vector<std::string>& pictures) {
  const nlohmann::json content = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!content.is_object()) fail(Exit::kInput, "{}: not a JSON object", name);
  if (!content.contains("labels") || content["labels"].is_null()) return {};
  if (!content["labels"].is_array()) {
    fail(Exit::kInput, "{}: \"labels\" must be null or a list of [\"path\", class]", name);
  }
  return labels_and_names(read_pairs(content["labels"], name), content, name, pictures);
}

std::optional<Labels> found_labels_of_json(std::string_view json,
                                           const std::string& name,
                                           const std::vector<std::string>& pictures) {
  const nlohmann::json content = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (content.is_discarded()) {
    fail(Exit::kInput, "{}: not JSON; complete it, or --set data.labels=none does without", name);
  }
  if (!content.is_object() || !content.contains("labels")) return not_about(name);
  if (content["labels"].is_null()) return Labels{};
  if (!content["labels"].is_array()) return not_about(name);
  const LabelList list = read_pairs(content["labels"], name);
  if (!list.is_about(pictures)) return not_about(name);
  return labels_and_names(list, content, name, pictures);
}

std::optional<LabelColumns> label_columns(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return std::nullopt;
  const std::vector<std::string>& first = rows.front();
  const auto column = [&](std::string_view names) {
    for (const std::string& name : split(names, ' ')) {  // the likelier ones first
      for (size_t i = 0; i < first.size(); ++i) {
        if (lower(first[i]) == name) return std::optional(i);
      }
    }
    return std::optional<size_t>();
  };
  const auto file = column(
      "file_name filename file file_path filepath path image_path image image_name img picture "
      "image_id name id");
  const auto label = column("label class class_name label_name class_id labels category target y");
  if (file && label) return LabelColumns{.file = *file, .label = *label, .header = true};
  const auto two = [](const std::vector<std::string>& row) { return row.size() == 2; };
  if (file || label || !std::ranges::all_of(rows, two)) return std::nullopt;
  return LabelColumns{};
}

Labels labels_of_rows(const std::vector<std::vector<std::string>>& rows,
                      const LabelColumns& columns,
                      const std::string& name,
                      const std::vector<std::string>& pictures) {
  return read_rows(rows, columns, name).of(pictures);
}

std::optional<Labels> found_labels_of_rows(const std::vector<std::vector<std::string>>& rows,
                                           const LabelColumns& columns,
                                           const std::string& name,
                                           const std::vector<std::string>& pictures) {
  const LabelList list = read_rows(rows, columns, name);
  return list.is_about(pictures) ? std::optional(list.of(pictures)) : not_about(name);
}

std::string valid_text(const std::string& name) {
  return nlohmann::json::parse(
      nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace gantrain
