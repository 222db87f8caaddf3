// SPDX-License-Identifier: Apache-2.0
#include "train/run/classes.h"

#include <fmt/format.h>

#include <algorithm>

#include "util/error.h"

namespace gantrain {

ClassTable class_table_of(const Dataset& dataset) {
  ClassTable table(static_cast<size_t>(dataset.classes()));
  for (size_t label = 0; label < table.size(); ++label)
    table[label].name = dataset.class_name(static_cast<int64_t>(label));
  if (table.empty()) return table;
  for (int64_t i = 0; i < dataset.size(); ++i)
    table[static_cast<size_t>(dataset.label(i))].pictures += 1;
  return table;
}

bool wants_labels(const DataOptions& data, const RecipeFacts& recipe, const Config& config) {
  if (data.cond == Cond::kOn) return true;
  return data.cond == Cond::kAuto && recipe.wants_labels && recipe.wants_labels(config);
}

ClassTable trained_classes(const ClassTable& of_data,
                           const DataOptions& data,
                           const RecipeFacts& recipe,
                           const Config& config) {
  if (data.cond == Cond::kOn && of_data.empty())
    fail(Exit::kInput, "--cond on: {} has no labels (sub-folders, or dataset.json)", data.path);
  return wants_labels(data, recipe, config) ? of_data : ClassTable();
}

std::vector<int64_t> pictures_of_classes(const ClassTable& table) {
  std::vector<int64_t> counts;
  for (const ClassRow& row : table) counts.push_back(row.pictures);
  return counts;
}

namespace {

constexpr size_t kMostLines = 20;

// What the classes from `first` on have in common: "... and 80 more classes, 12 to 50 pictures
// each".
std::string summary(const ClassTable& table, size_t first) {
  const auto fewer = [](const ClassRow& a, const ClassRow& b) { return a.pictures < b.pictures; };
  const auto [least, most] =
      std::minmax_element(table.begin() + static_cast<long>(first), table.end(), fewer);
  return fmt::format("... and {} more classes, {} to {} pictures each",
                     table.size() - first,
                     least->pictures,
                     most->pictures);
}

}  // namespace

std::vector<std::string> class_lines(const ClassTable& table) {
  const size_t shown = table.size() <= kMostLines ? table.size() : kMostLines - 1;
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i) width = std::max(width, table[i].name.size());
  constexpr size_t kWidest = 40;
  width = std::min(width, kWidest);
  std::vector<std::string> lines;
  for (size_t i = 0; i < shown; ++i) {
    lines.push_back(
        fmt::format("{:>4}  {:<{}}  {} pictures", i, table[i].name, width, table[i].pictures));
  }
  if (shown < table.size()) lines.push_back(summary(table, shown));
  return lines;
}

std::string class_difference(const ClassTable& saved, const ClassTable& now) {
  if (saved.empty()) return "";
  const size_t common = std::min(saved.size(), now.size());
  for (size_t i = 0; i < common; ++i) {
    if (saved[i].name == now[i].name) continue;
    return fmt::format("class {} is \"{}\" and was \"{}\"", i, now[i].name, saved[i].name);
  }
  if (saved.size() == now.size()) return "";
  const bool more = now.size() > saved.size();
  return fmt::format("there are {} classes and were {}: \"{}\" {}",
                     now.size(),
                     saved.size(),
                     more ? now[common].name : saved[common].name,
                     more ? "is new" : "is missing");
}

}  // namespace gantrain
