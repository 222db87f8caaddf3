// SPDX-License-Identifier: Apache-2.0
#include "draw/classes.h"

#include <algorithm>
#include <numeric>

#include "util/error.h"

namespace gantrain {

namespace {

constexpr size_t kNamed = 6;  // classes that a message names

// Each label once, where it comes first.
std::vector<int64_t> without_repeats(const std::vector<int64_t>& labels) {
  std::vector<int64_t> once;
  for (const int64_t label : labels) {
    if (std::find(once.begin(), once.end(), label) == once.end()) once.push_back(label);
  }
  return once;
}

std::string name_of(int64_t label, const ClassTable& table) {
  const auto at = static_cast<size_t>(label);
  return at < table.size() ? table[at].name : std::to_string(label);
}

}  // namespace

ClassChoice choose_classes(const Generator& generator,
                           const ModelRequest& request,
                           const ClassTable& table,
                           bool styles_given) {
  const bool asked = !request.classes.empty();
  if (asked && styles_given) {
    fail(Exit::kUsage,
         "--class {}: latents of layers (--w) have their class in them; leave it out",
         request.classes);
  }
  const int64_t classes = generator.classes();
  if (asked && classes == 0) {
    fail(Exit::kUsage,
         "--class {}: {} is unconditional; models that were trained with labels have classes; "
         "leave it out",
         request.classes,
         request.model);
  }
  if (classes == 0 || styles_given) return {};
  if (asked) {
    // A table of another length belongs to other classes: its names say nothing about these.
    const bool fits = static_cast<int64_t>(table.size()) == classes;
    const ClassTable& names = fits ? table : ClassTable{};
    return {without_repeats(parse_classes(request.classes, classes, names)), true};
  }
  ClassChoice all{std::vector<int64_t>(static_cast<size_t>(classes)), false};
  std::iota(all.labels.begin(), all.labels.end(), 0);
  return all;
}

LabelledRows::LabelledRows(int64_t rows, const ClassChoice& choice, int64_t most)
    : labels_(choice.labels), rows_(rows) {
  const auto classes = static_cast<int64_t>(labels_.size());
  in_turn_ = classes > 0 && !choice.asked && rows > most / classes;
  size_ = in_turn_ || classes == 0 ? rows : rows * classes;
  if (rows < classes && (in_turn_ || rows == 0)) labels_.resize(static_cast<size_t>(rows));
}

LabelledRow LabelledRows::operator[](int64_t index) const {
  if (labels_.empty()) return {index, std::nullopt};
  const auto classes = static_cast<int64_t>(labels_.size());
  int64_t row = index % rows_;
  int64_t nth = index / rows_;  // of the classes
  if (in_turn_) {
    // The first classes have one row more where the rows are no multiple of the classes.
    const int64_t each = rows_ / classes;
    const int64_t longer = rows_ % classes;
    const int64_t in_longer = longer * (each + 1);
    const int64_t rest = index - in_longer;
    nth = rest < 0 ? index / (each + 1) : longer + rest / each;
    row = (rest < 0 ? index % (each + 1) : rest % each) * classes + nth;
  }
  return {row, labels_[static_cast<size_t>(nth)]};
}

std::string class_line(const LabelledRows& rows, const ClassTable& table) {
  const std::vector<int64_t>& labels = rows.labels();
  if (labels.size() < 2) return "";
  std::string line = "classes ";
  for (size_t i = 0; i < std::min(labels.size(), kNamed); ++i) {
    line += (i == 0 ? "" : ", ") + name_of(labels[i], table);
  }
  if (labels.size() > kNamed) line += fmt::format(" and {} more", labels.size() - kNamed);
  return line;
}

std::string class_suffix(const std::optional<int64_t>& label, const ClassChoice& choice) {
  return label && choice.labels.size() > 1 ? fmt::format("-class{}", *label) : "";
}

}  // namespace gantrain
